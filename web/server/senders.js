// SPDX-License-Identifier: Apache-2.0
// The panel "Senders": who sends profiles, when last, and what was refused with which reason.
import { $, el, setText, swap, tableHead, visible } from "../dom.js";
import { count, duration, number } from "../format.js";

const AGAIN_MS = 10000, FIRST = 12;
const shown = { at: -AGAIN_MS, asked: null, senders: [], all: false };
const rows = new Map(); // of the senders that are listed
let list, more;

const ago = (time) => `${duration(Math.max(Date.now() - time, 0))} ago`;

function newRow(sender) {
	const row = {
		last: el("td", { class: "when", "data-name": "Last request" }),
		accepted: el("td", { "data-name": "Accepted" }),
		refused: el("td", { "data-name": "Refused" }),
		refusal: el("td", { "data-name": "Newest refusal" }),
	};
	const from = `${sender.token && sender.token !== "loopback" ? `${sender.token}, ` : ""}${sender.address}, ${sender.path}`;
	row.node = el("tr", {},
		el("th", { scope: "row", "data-name": "Sender", class: "path" }, el("bdi", {}, visible(sender.agent || "unknown program")),
			el("div", { class: "from" }, el("bdi", {}, visible(from)))),
		row.last, row.accepted, row.refused, row.refusal);
	return row;
}

function showNumber(cell, n) {
	cell.className = n ? "number" : "number none";
	setText(cell, number(n));
}

// Rows stay where they are as far as possible: a selection, or the place of a screen reader, is not lost every few seconds.
function showRow(sender, at) {
	const key = JSON.stringify([sender.token, sender.address, sender.agent, sender.path]), refused = sender.refusal;
	const row = rows.get(key) ?? newRow(sender);
	rows.set(key, row);
	setText(row.last, ago(sender.last));
	showNumber(row.accepted, sender.accepted);
	showNumber(row.refused, sender.refused);
	if (refused)
		swap(row.refusal, el("div", {}, `${ago(refused.time)}, status ${refused.status}: `, el("bdi", {}, visible(refused.reason))));
	else
		setText(row.refusal, "none");
	if (list.children[at] !== row.node)
		list.insertBefore(row.node, list.children[at] ?? null);
	return key;
}

function build() {
	list = el("tbody", { id: "senders-list" });
	more = el("button", {
		type: "button", class: "more", "aria-controls": "senders-list", click: () => {
			shown.all = !shown.all;
			show(shown.senders);
		},
	});
	$("senders-body").replaceChildren(
		el("table", { class: "list", "aria-labelledby": "senders-title" }, tableHead(["Sender", "Last request", "#Accepted", "#Refused", "Newest refusal"]), list), more);
}

function show(senders) {
	const refused = senders.filter((sender) => sender.refused).length;
	shown.senders = senders;
	setText($("senders-aside"), senders.length ? `${count(senders.length, "sender")}${refused ? `, ${number(refused)} with refusals` : ""}` : "none");
	if (!senders.length) {
		swap($("senders-body"), el("p", { class: "dim" }, "No profiles were sent since the server has started."));
		rows.clear();
		list = null;
		return;
	}
	if (!list)
		build();
	const kept = new Set(senders.slice(0, shown.all ? senders.length : FIRST).map(showRow));
	for (const [key, row] of rows)
		if (!kept.has(key)) {
			row.node.remove();
			rows.delete(key);
		}
	more.hidden = senders.length <= FIRST;
	more.setAttribute("aria-expanded", String(shown.all));
	setText(more, shown.all ? "Show the latest only" : `Show all ${number(senders.length)} senders`);
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
