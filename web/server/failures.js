// SPDX-License-Identifier: Apache-2.0
// The panel "Unreadable files": a table that the server filters and pages.
import { $, el, pathOf, setText, swap, visible } from "../dom.js";
import { count, duration } from "../format.js";

const FIRST = 25, AT_ONCE = 100;
const AGAIN_MS = 20000; // tries and times change even if the number of files does not
const TYPING_MS = 250;

const shown = { known: -1, at: 0, filter: "", next: null, asked: null, further: false };
let filter, list, more, built = false;

function nextTry(failure) {
	if (!failure.next_try)
		return "when it changes";
	return failure.next_try_in > 0 ? `in ${duration(failure.next_try_in * 1000)}` : "soon";
}

function row(failure) {
	return el("tr", {},
		el("td", { "data-name": "File" }, pathOf(failure.path)),
		el("td", { "data-name": "Reason" }, el("bdi", {}, visible(failure.reason))),
		el("td", { class: "number", "data-name": "Tries" }, String(failure.tries)),
		el("td", { class: "when", "data-name": "Next try" }, nextTry(failure)));
}

function build() {
	built = true;
	list = el("tbody", {});
	more = el("button", { type: "button", class: "more", hidden: true, click: () => load(true) }, "Show more");
	let timer;
	filter = el("input", {
		type: "search", "aria-label": "Filter by path or reason", placeholder: "Filter by path or reason", spellcheck: "false",
		input: () => {
			clearTimeout(timer);
			timer = setTimeout(() => {
				shown.filter = filter.value.trim();
				load(false);
			}, TYPING_MS);
		},
	});
	const head = ["File", "Reason", "Tries", "Next try"].map((name) =>
		el("th", { scope: "col", class: name === "Tries" ? "number" : null }, name));
	$("failures-body").replaceChildren(filter,
		el("table", { class: "list failures" }, el("thead", {}, el("tr", {}, head)), list),
		el("p", { class: "dim", id: "failures-none", hidden: true }), more);
}

async function ask(cursor, limit, signal) {
	const query = new URLSearchParams({ limit });
	if (shown.filter)
		query.set("match", shown.filter);
	if (cursor)
		query.set("cursor", cursor);
	const reply = await fetch(`api/failures?${query}`, { signal });
	if (!reply.ok)
		throw new Error((await reply.text()).trim());
	return reply.json();
}

async function load(further) {
	shown.asked?.abort();
	shown.asked = new AbortController();
	shown.at = performance.now();
	const none = $("failures-none");
	try {
		const page = await ask(further ? shown.next : null, further ? AT_ONCE : FIRST, shown.asked.signal);
		const rows = page.failures.map(row);
		if (further) {
			const first = rows[0];
			shown.further = true;
			list.append(...rows);
			first?.setAttribute("tabindex", "-1");
			first?.focus({ preventScroll: true });
		} else {
			shown.further = false;
			swap(list, ...rows);
		}
		shown.next = page.next ?? null;
		more.hidden = !shown.next;
		more.textContent = list.childElementCount ? "Show more" : "Continue searching";
		none.hidden = list.childElementCount > 0;
		none.textContent = shown.next ? "None so far." : shown.filter ? "No path or reason contains this text." : "None.";
	} catch (error) {
		if (error.name === "AbortError")
			return;
		none.hidden = false;
		none.textContent = `The list cannot be loaded: ${error.message}`;
	}
}

export function showFailures(status) {
	const n = status.index ? status.index.failed : 0;
	const aside = $("failures-aside");
	if (!status.index) {
		setText(aside, "unknown");
		return;
	}
	if (!n && !built) {
		setText(aside, "none");
		if (!$("failures-body").childElementCount)
			$("failures-body").append(el("p", { class: "dim" },
				"All files could be read. Files that cannot be read are listed here with the reason, and tried again."));
		return;
	}
	setText(aside, count(n, "file"));
	if (!built) {
		$("failures-body").replaceChildren();
		build();
	}
	// After "Show more" the list stays as it is, so that it can be read.
	if (!shown.further && (n !== shown.known || performance.now() - shown.at > AGAIN_MS)) {
		shown.known = n;
		load(false);
	}
}
