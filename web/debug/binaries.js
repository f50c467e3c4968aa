// SPDX-License-Identifier: Apache-2.0
// The view "Debug information": every binary that occurs in a profile, with its share of the cost, whether its addresses have names, the
// reason if not, and what would help.
import { ask, callServer, Latest } from "../api.js";
import { $, el, option, pathOf, searchField, setText, swap, tableHead, toast, visible } from "../dom.js";
import { count, duration, number } from "../format.js";
import { shareText } from "../flame/value.js";
import { RangePicker } from "../explore/range.js";
import { typeText } from "../explore/bar.js";
import { cutSelector, profilesAsked } from "../explore/selection.js";
import { firstProfile, notHere } from "../explore/empty.js";
import { go, linkTo, param, viewOf } from "../url.js";
import { Pusher } from "./push.js";

const AGAIN_MS = 3000, QUIET_MS = 15000;
const STATES = {
	named: ["good", "named"], partly: ["work", "partly named"], pending: ["work", "being named"], failed: ["bad", "not named"], never: ["unknown", "cannot be named"],
};

let parts, timer, binaries = [];
const latest = new Latest();

function chip(b) {
	const [is, text] = STATES[b.state] ?? ["unknown", b.state];
	return el("span", { class: "state", "data-is": is }, el("span", { class: "dot", "aria-hidden": "true" }), el("strong", {}, text));
}

function tries(b) {
	if (!b.tries)
		return null;
	const next = b.next_try - Date.now(), last = duration(Math.max(0, Date.now() - b.last_try));
	const then = b.state === "named" || !b.next_try ? "" : next > 0 ? `, the next in ${duration(next)}` : ", the next soon";
	return `${count(b.tries, "try", "tries")}, the last ${last} ago${then}`;
}

const sentence = (text) => visible(text.charAt(0).toUpperCase() + text.slice(1));

function known(b) {
	return el("div", { class: "known" },
		b.text ? el("p", {}, sentence(b.text)) : null, b.why ? el("p", { class: "dim" }, el("bdi", {}, visible(b.why))) : null,
		b.origin ? el("p", { class: "dim" }, "From ", el("bdi", { class: "path" }, visible(b.origin))) : null,
		b.help ? el("p", { class: "help" }, sentence(b.help)) : null, tries(b) ? el("p", { class: "dim" }, tries(b)) : null);
}

// Reasons of the addresses, not of a file: neither a push nor another try names them.
const NO_FILE_HELPS = new Set(["no-mapping", "outside"]);

async function retry(b, button) {
	button.disabled = true;
	try {
		await callServer("POST", `api/binaries/${b.build_id}/retry`);
		toast("Trying again now");
		load();
	} catch (error) {
		toast(error.message);
	}
	button.disabled = false;
}

// A hash of 16 bytes looks like a build ID until its file is here.
function kindOf(b) {
	if (b.build_id_kind === "go")
		return "Go build ID";
	if (b.build_id_kind === "htlhash")
		return "hash of the file";
	return b.build_id.length === 32 ? "GNU build ID or hash of the file" : "GNU build ID";
}

function row(b, total) {
	const bar = el("span", { class: "bar", "aria-hidden": "true" }), can = b.build_id && b.state !== "named" && b.state !== "never" && !NO_FILE_HELPS.has(b.reason);
	bar.style.width = `${total ? 100 * Math.min(1, b.value / total) : 0}%`;
	const choose = parts.pusher.chooser({ "aria-label": `Debug file for ${visible(b.file)}` }, b);
	const node = el("tr", { "data-id": b.build_id },
		el("td", { "data-name": "Share", class: "share number" }, bar, el("span", {}, shareText(b.value, total))),
		el("td", { "data-name": "File" }, pathOf(b.file || "file unknown"),
			el("div", { class: "from" }, b.build_id
				? [`${kindOf(b)} `, el("a", { class: "mono", href: `?view=server&q=${b.build_id}` }, b.go_build_id || b.build_id)]
				: "no build ID")),
		el("td", { "data-name": "State", class: "nowrap" },
			el("div", {}, chip(b), el("div", { class: "from" }, `${number(b.named)} of ${count(b.locations, "address", "addresses")}`))),
		el("td", { "data-name": "Details" }, known(b)),
		el("td", { class: "acts" }, can ? [el("label", { class: "button" }, "Push here", choose), " ",
			el("button", { type: "button", "aria-label": `Try again: ${visible(b.file)}`, click: (event) => retry(b, event.currentTarget) }, "Try again")] : null));
	if (b.build_id)
		parts.pusher.dropped(node, b);
	return node;
}

function build() {
	const range = new RangePicker("Time range", (from, to) => go({ from, to }));
	const pusher = new Pusher(() => binaries, () => load());
	const filter = searchField("Filter binaries", { placeholder: "Filter by file or build ID", input: () => fill() });
	const which = el("select", { "aria-label": "State", change: () => go({ state: which.value }) }, option("", "all"), option("open", "not fully named"),
		Object.entries(STATES).map(([state, [, text]]) => option(state, text)));
	const body = el("tbody", {}), said = el("p", { class: "dim", role: "status" });
	const error = el("p", { class: "note bad", role: "alert", hidden: true }), empty = el("div", { hidden: true });
	const panel = el("section", { class: "panel", "aria-label": "Binaries" }, el("div", { class: "tools" }, filter, which, range.node, el("span", { class: "grow" }), said),
		el("table", { class: "list binaries" }, tableHead(["#Share", "Binary", "State", "Details", "Actions"]), body));
	const zone = el("section", { class: "panel", "aria-label": "Push debug files" }, pusher.zone);
	$("view-debug").replaceChildren(error, empty, panel, zone);
	parts = { range, pusher, filter, which, body, said, error, empty, panel, zone };
}

function fill() {
	const text = parts.filter.value.trim().toLowerCase(), state = param("state");
	const list = binaries.filter((b) => (!text || `${b.file} ${b.build_id}`.toLowerCase().includes(text)) && (!state || (state === "open" ? b.state !== "named" : b.state === state)));
	const busy = parts.body.contains(document.activeElement);
	// Keep the rows while one of them has the focus, so that no button moves under the pointer.
	if (!busy || list.length !== parts.body.childElementCount)
		swap(parts.body, ...list.map((b) => row(b, parts.total)));
	const open = binaries.filter((b) => b.state !== "named").length, type = cutSelector(profilesAsked().query).type;
	const more = parts.leftOut ? `; ${number(parts.leftOut)} with less cost are not listed` : "";
	setText(parts.said, `${count(list.length, "binary", "binaries")}${open ? `, ${number(open)} not fully named` : ""}${type ? `; shares are of ${typeText(type)}` : ""}${more}`);
}

const noneInRange = () => el("div", { class: "empty" }, el("h2", {}, "No profiles in this range"),
	el("p", {}, el("a", { class: "button", href: linkTo({ from: "now-30d", to: null }) }, "Last 30 days")));

async function load() {
	clearTimeout(timer);
	const signal = latest.next(), { query, from, to } = profilesAsked();
	try {
		// Shares are of one profile type: values of different types cannot be added.
		let type = query;
		if (!type) {
			const { types } = await ask("api/types", { from, to }, signal);
			type = types.find((text) => text.split(":")[1] === "cpu") ?? types[0] ?? "";
		}
		const answer = type ? await ask("api/binaries", { query: type, from, to }, signal) : { total: 0, binaries: [] };
		({ binaries } = answer);
		parts.total = answer.total;
		parts.leftOut = answer.left_out ?? 0;
		parts.error.hidden = parts.empty.hidden = true;
		parts.panel.hidden = parts.zone.hidden = !type;
		if (!type) {
			const ever = (await ask("api/types", { from: 0, to: "now" }, signal)).types.length;
			parts.empty.hidden = false;
			parts.empty.replaceChildren(ever ? noneInRange() : firstProfile());
		} else {
			fill();
		}
	} catch (error) {
		if (signal.aborted)
			return;
		parts.panel.hidden = parts.zone.hidden = error.status === 404;
		parts.error.hidden = error.status === 404;
		setText(parts.error, error.message);
		if (error.status === 404) {
			parts.empty.hidden = false;
			parts.empty.replaceChildren(notHere());
		}
	}
	timer = setTimeout(() => !document.hidden && viewOf() === "debug" && load(), binaries.some((b) => b.state === "pending") ? AGAIN_MS : QUIET_MS);
}

export function showDebug() {
	if (!parts)
		build();
	const { from, to } = profilesAsked();
	parts.range.set(from, to);
	parts.which.value = param("state");
	load();
}

export function hideDebug() {
	clearTimeout(timer);
	latest.stop();
}
