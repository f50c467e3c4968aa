// SPDX-License-Identifier: Apache-2.0
// Pushes debug files that the user drops or chooses: each under its own build ID, if one of the listed binaries is known by that or by another identity of the file.
import { el, visible } from "../dom.js";
import { bytes, percent } from "../format.js";
import { identify, NotUsable } from "./elf_note.js";

function put(id, kind, file, token, progress) {
	return new Promise((done, failed) => {
		const request = new XMLHttpRequest();
		request.open("PUT", `buildid/${id}/${kind}`);
		request.setRequestHeader("X-LODE-FILE", encodeURIComponent(file.name));
		if (token)
			request.setRequestHeader("Authorization", `Bearer ${token}`);
		request.upload.onprogress = (event) => progress(event.loaded, event.total || file.size);
		const why = () => request.responseText.trim() || `status ${request.status}`;
		request.onload = () => request.status < 300 ? done() : failed(new NotUsable(`The server refused ${file.name}: ${why()}`));
		request.onerror = () => failed(new NotUsable(`The server does not answer, or broke off the upload of ${file.name}.`));
		request.send(file);
	});
}

export class Pusher {
	// @wanted() returns the listed binaries, with build_id and file; @done() is called after each push.
	constructor(wanted, done) {
		this.wanted = wanted;
		this.done = done;
		this.log = el("ul", { class: "push-log", role: "status" });
		this.token = el("input", { type: "password", autocomplete: "off", "aria-label": "Token for pushing", placeholder: "token, if this server needs one" });
		this.zone = el("div", { class: "drop-zone" },
			el("p", {}, el("strong", {}, "Drop debug files here"), " or ", el("label", { for: "push-files", class: "button" }, "choose them"),
				this.chooser({ multiple: true, id: "push-files" }, null),
				". Your browser reads the build ID of each file, and sends the file only if one of these binaries has that ID."),
			el("form", { submit: (event) => event.preventDefault() }, this.token), this.log);
		this.dropped(this.zone, null);
	}

	// A file field. With @binary, only files of that binary are accepted.
	chooser(attributes, binary) {
		const input = el("input", { type: "file", class: "offscreen", ...attributes, change: () => {
			this.take([...input.files], binary);
			input.value = "";
		} });
		return input;
	}

	// Accept files dropped onto @node. With @binary, only files of that binary.
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
			const line = el("li", {}, `${visible(file.name)}: reading…`);
			this.log.prepend(line);
			try {
				const { ids, kind } = await identify(file), id = ids[0];
				if (binary && !ids.includes(binary.build_id) && binary.build_id.length === 32 && id.length !== 32)
					throw new NotUsable(`${file.name} was not sent: ${binary.file.split("/").pop()} is known by ${binary.build_id}, most likely the hash of its file. Only the program itself shows whether it is the one that ran: drop that.`);
				if (binary && !ids.includes(binary.build_id))
					throw new NotUsable(`${file.name} belongs to another build of ${binary.file.split("/").pop()} than the one that ran: its build ID is ${id}.`);
				const meant = binary ?? this.wanted().find((b) => ids.includes(b.build_id));
				if (!meant)
					throw new NotUsable(`${file.name} was not sent: its build ID ${id} is that of none of these binaries, so it belongs to another build.`);
				await put(id, kind, file, this.token.value.trim(), (sent, all) => { line.textContent = `${visible(file.name)}: ${percent(sent, all)} of ${bytes(all)}`; });
				line.className = "good";
				line.textContent = `${visible(file.name)} was stored for ${visible(meant.file)}; its addresses are being named.`;
				this.done();
			} catch (error) {
				line.className = "bad";
				line.textContent = error instanceof NotUsable ? visible(error.message) : `${visible(file.name)} cannot be read: ${error.message}`;
			}
		}
	}
}
