// SPDX-License-Identifier: Apache-2.0
// Debug files that are dropped or chosen: each goes to the server under its own build ID, if that is one that is wanted here.
import { el, visible } from "../dom.js";
import { bytes, percent } from "../format.js";
import { buildIdOf, NotUsable } from "./elf_note.js";

function put(id, file, token, progress) {
	return new Promise((done, failed) => {
		const request = new XMLHttpRequest();
		request.open("PUT", `buildid/${id}/debuginfo`);
		request.setRequestHeader("X-LODE-FILE", encodeURIComponent(file.name));
		if (token)
			request.setRequestHeader("Authorization", `Bearer ${token}`);
		request.upload.onprogress = (event) => progress(event.loaded, event.total || file.size);
		const why = () => request.responseText.trim() || `status ${request.status}`;
		request.onload = () => request.status < 300 ? done() : failed(new NotUsable(`The server did not take ${file.name}: ${why()}`));
		request.onerror = () => failed(new NotUsable(`The server does not answer, or ended the upload of ${file.name}.`));
		request.send(file);
	});
}

export class Pusher {
	// @wanted(): binaries, with build_id and file; @done(): something was pushed.
	constructor(wanted, done) {
		this.wanted = wanted;
		this.done = done;
		this.log = el("ul", { class: "push-log", role: "status" });
		this.token = el("input", { type: "password", autocomplete: "off", "aria-label": "Token for pushing", placeholder: "token, if this server wants one" });
		this.zone = el("div", { class: "drop-zone" },
			el("p", {}, el("strong", {}, "Drop debug files here"), " or ", el("label", { for: "push-files", class: "button" }, "choose them"),
				this.chooser({ multiple: true, id: "push-files" }, null),
				". Each is read for its build ID in your browser, and sent only if one of these binaries has it."),
			el("form", { submit: (event) => event.preventDefault() }, this.token), this.log);
		this.dropped(this.zone, null);
	}

	// A field for files; @binary: for this one only.
	chooser(attributes, binary) {
		const input = el("input", { type: "file", class: "offscreen", ...attributes, change: () => {
			this.take([...input.files], binary);
			input.value = "";
		} });
		return input;
	}

	// Files that are dropped onto @node; @binary: for this one only.
	dropped(node, binary) {
		node.addEventListener("dragover", (event) => {
			event.preventDefault();
			event.stopPropagation();
			event.dataTransfer.dropEffect = "copy";
			node.classList.add("over");
		});
		node.addEventListener("dragleave", () => node.classList.remove("over"));
		node.addEventListener("drop", (event) => {
			event.preventDefault();
			event.stopPropagation();
			node.classList.remove("over");
			this.take([...event.dataTransfer.files], binary);
		});
	}

	async take(files, binary) {
		for (const file of files) {
			const line = el("li", {}, `${visible(file.name)}: being read…`);
			this.log.prepend(line);
			try {
				const id = await buildIdOf(file);
				if (binary && id !== binary.build_id)
					throw new NotUsable(`${file.name} has another build ID, ${id}: it is not of the ${binary.file.split("/").pop()} that ran, but of another build.`);
				const meant = binary ?? this.wanted().find((b) => b.build_id === id);
				if (!meant)
					throw new NotUsable(`${file.name} has the build ID ${id}, which none of these binaries has: it is of another build. Nothing was sent.`);
				await put(id, file, this.token.value.trim(), (sent, all) => { line.textContent = `${visible(file.name)}: ${percent(sent, all)} of ${bytes(all)}`; });
				line.className = "good";
				line.textContent = `${visible(file.name)} was taken for ${visible(meant.file)}; its addresses are being named.`;
				this.done();
			} catch (error) {
				line.className = "bad";
				line.textContent = error instanceof NotUsable ? visible(error.message) : `${visible(file.name)} cannot be read: ${error.message}`;
			}
		}
	}
}
