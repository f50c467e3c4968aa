// SPDX-License-Identifier: Apache-2.0
// The panel "Senders": who sends profiles, when last, and what was refused with which reason.
import { $, el, setText, swap, visible } from "../dom.js";
import { count, duration, number } from "../format.js";

const AGAIN_MS = 10000;
const shown = { at: -AGAIN_MS, asked: null };

function row(sender) {
	const refused = sender.refusal;
	return el("tr", {},
		el("th", { scope: "row", "data-name": "Sender", class: "path" }, el("bdi", {}, visible(sender.agent || "unknown program")),
			el("div", { class: "from" }, visible(`${sender.token && sender.token !== "loopback" ? `${sender.token}, ` : ""}${sender.address}, ${sender.path}`))),
		el("td", { class: "when", "data-name": "Last request" }, `${duration(Math.max(Date.now() - sender.last, 0))} ago`),
		el("td", { class: sender.accepted ? "number" : "number none", "data-name": "Accepted" }, number(sender.accepted)),
		el("td", { class: sender.refused ? "number" : "number none", "data-name": "Refused" }, number(sender.refused)),
		el("td", { "data-name": "Newest refusal" }, refused
			? el("div", {}, `${duration(Math.max(Date.now() - refused.time, 0))} ago, status ${refused.status}: `, el("bdi", {}, visible(refused.reason))) : "none"));
}

function show(senders) {
	const refused = senders.filter((sender) => sender.refused).length;
	setText($("senders-aside"), senders.length ? `${count(senders.length, "sender")}${refused ? `, ${number(refused)} with refusals` : ""}` : "none");
	if (!senders.length) {
		swap($("senders-body"), el("p", { class: "dim" }, "No profiles were sent since the server has started."));
		return;
	}
	const head = ["Sender", "Last request", "Accepted", "Refused", "Newest refusal"].map((name, i) =>
		el("th", { scope: "col", class: i === 2 || i === 3 ? "number" : null }, name));
	swap($("senders-body"), el("table", { class: "list" }, el("thead", {}, el("tr", {}, head)), el("tbody", {}, senders.map(row))));
}

export async function showSenders() {
	if (performance.now() - shown.at < AGAIN_MS)
		return;
	shown.at = performance.now();
	shown.asked?.abort();
	shown.asked = new AbortController();
	try {
		const reply = await fetch("api/senders", { signal: shown.asked.signal });
		if (!reply.ok)
			throw new Error((await reply.text()).trim());
		show((await reply.json()).senders);
	} catch (error) {
		if (error.name !== "AbortError")
			setText($("senders-aside"), `cannot be loaded: ${error.message}`);
	}
}
