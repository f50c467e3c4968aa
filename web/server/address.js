// SPDX-License-Identifier: Apache-2.0
// Looks up one address of a build ID: the function, its inlined calls, files and lines, and the source if the server has it.
import { $, copyButton, el, pathOf, visible } from "../dom.js";
import { base, shellWord } from "../format.js";
import { fetchSource, lineText } from "../source_text.js";
import { note, param } from "../url.js";

const AROUND = 4;          // lines shown before and after the line of the address
const WAIT_S = 20;         // the server answers "pending" after this time

const running = new WeakMap(); // from a box to the AbortController of its request

/* ---- sources ---- */

// Fetch each source file once per chain.
async function linesOf(id, path, known, signal) {
	if (!known.has(path))
		known.set(path, fetchSource(id, path, signal));
	return known.get(path);
}

function listing(lines, line) {
	const from = Math.max(1, line - AROUND), to = Math.min(lines.length, line + AROUND);
	if (line > lines.length)
		return el("p", { class: "dim" }, `The source file on this server has only ${lines.length} lines.`);
	return el("pre", { class: "source" }, lines.slice(from - 1, to).map((text, i) => el("span", { class: from + i === line ? "meant" : null },
		el("span", { class: "line" }, String(from + i)), lineText(text), "\n")));
}

// The source is fetched when the element is opened.
function sourceOf(id, frame, known, signal, open) {
	const body = el("div", {}, el("p", { class: "dim" }, "Loading the source…"));
	let begun = false;
	const load = async () => {
		if (begun)
			return;
		begun = true;
		try {
			const got = await linesOf(id, frame.file, known, signal);
			body.replaceChildren(got.lines ? listing(got.lines, frame.line) : el("p", { class: "dim" }, visible(got.why)));
		} catch (error) {
			if (!signal.aborted)
				body.replaceChildren(el("p", { class: "bad" }, `The server does not answer: ${error.message}`));
		}
	};
	const box = el("details", { open, toggle: () => box.open && load() }, el("summary", {}, "Source"), body);
	if (open)
		load();
	return box;
}

/* ---- the chain ---- */

function placeOf(frame) {
	if (!frame.file)
		return el("p", { class: "dim" }, `file unknown; the name is from ${frame.from}`);
	return el("p", {}, pathOf(frame.file), frame.line ? `:${frame.line}${frame.column ? `:${frame.column}` : ""}` : "");
}

function chain(id, answer, signal) {
	const known = new Map();
	return el("ol", { class: "chain" }, answer.frames.map((frame, i) => el("li", {},
		el("p", {}, el("code", { class: "function" }, visible(frame.function || "??")), frame.inlined ? el("span", { class: "dim" }, " inlined into") : null),
		placeOf(frame), frame.file && frame.line ? sourceOf(id, frame, known, signal, i === 0) : null)));
}

const sentence = (text) => visible(text.charAt(0).toUpperCase() + text.slice(1));

// These are about the address and not about the file, which the help of the module is about.
const OF_ADDRESS = ["outside", "no-layout", "no-mapping"];

function reasonOf(reply, status) {
	const known = reply.reasons?.[status] ?? { text: status }, [module] = reply.modules;
	const why = module.why?.startsWith(`${known.text}: `) ? module.why.slice(known.text.length + 2) : module.status === "found" ? module.why : null;
	const help = OF_ADDRESS.includes(status) ? known.help : module.help ?? known.help;
	return el("div", { class: "note" }, el("p", {}, `${sentence(known.text)}.`), why ? el("p", { class: "dim" }, sentence(why)) : null,
		help ? el("p", { class: "help" }, sentence(help)) : null);
}

function show(box, id, addr, reply, signal) {
	const [answer] = reply.addresses;
	const command = `curl -s ${shellWord(`${base()}buildid/${id}/symbolize?addr=${addr}`)}`;
	const notes = answer.status === "found" ? [] : [reasonOf(reply, answer.status)];
	if (answer.frames)
		box.replaceChildren(...notes, chain(id, answer, signal), el("p", { class: "dim" }, el("code", {}, command), " ", copyButton(command, "the curl command")));
	else
		box.replaceChildren(...notes);
}

// Look up an address and show the result, or the reason for none, in @box.
export async function askAddress(box, id, addr) {
	running.get(box)?.abort();
	running.set(box, new AbortController());
	const signal = running.get(box).signal;
	box.hidden = false;
	box.setAttribute("aria-busy", "true");
	box.replaceChildren(el("p", { class: "dim", role: "status" }, "Looking up…"));
	try {
		for (;;) {
			const reply = await fetch(`buildid/${id}/symbolize?${new URLSearchParams({ addr, timeout: WAIT_S })}`, { signal });
			if (!reply.ok) {
				box.replaceChildren(el("div", { class: "note" }, el("p", {}, visible((await reply.text()).trim()))));
				break;
			}
			const said = await reply.json();
			if (said.addresses[0].status !== "pending") {
				show(box, id, addr, said, signal);
				break;
			}
			box.replaceChildren(el("p", { class: "dim", role: "status" }, `${sentence(said.reasons?.pending?.text ?? "pending")}…`));
			await new Promise((done) => setTimeout(done, said.retry_ms ?? 1000));
			signal.throwIfAborted();
		}
	} catch (error) {
		if (signal.aborted)
			return;
		box.replaceChildren(el("div", { class: "note" }, el("p", {}, `The server does not answer: ${error.message}`)));
	}
	box.setAttribute("aria-busy", "false");
}

/* ---- */

let followed = ""; // the build ID and the address of the URL that were looked up

function look() {
	const id = $("address-id").value.replace(/[\s:-]/g, "").replace(/^0x/i, "").toLowerCase(), addr = $("address-addr").value.trim();
	if (!/^([0-9a-f]{2})+$/.test(id) || !/^(0x)?[0-9a-f]+$/i.test(addr)) {
		running.get($("address-body"))?.abort();
		$("address-body").hidden = false;
		$("address-body").setAttribute("aria-busy", "false");
		$("address-body").replaceChildren(el("div", { class: "note" }, el("p", {}, "Enter a complete build ID and a hexadecimal address in that file.")));
		return;
	}
	note({ view: "server", id, addr });
	followed = `${id} ${addr}`;
	askAddress($("address-body"), id, addr);
}

export function startAddress() {
	$("address-form").addEventListener("submit", (event) => {
		event.preventDefault();
		look();
	});
}

export function followAddress() {
	const id = param("id"), addr = param("addr"), asked = `${id} ${addr}`;
	if (!id || !addr || asked === followed)
		return;
	followed = asked;
	$("address-id").value = id;
	$("address-addr").value = addr;
	look();
}
