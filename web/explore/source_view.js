// SPDX-License-Identifier: Apache-2.0
// The tab "Source": a source file with the cost of each line. Lines far from any line with a cost are folded.
import { ask, Latest } from "../api.js";
import { el, pathOf, tableHead, visible } from "../dom.js";
import { number } from "../format.js";
import { shareText, valueText } from "../flame/value.js";
import { fetchSource, lineText } from "../source_text.js";
import { linkTo, param } from "../url.js";

const AROUND = 8, FILES = 30, FOLD_FROM = 4, UNFOLD = 200, UNKNOWN = "unknown file", AGAIN_MS = 1000;

export class SourceView {
	constructor() {
		this.latest = new Latest();
		this.node = el("div", { class: "source-view" });
	}

	async load(asked, signal) {
		const file = param("file"), fn = param("fn");
		if (file || fn) {
			const answer = await ask("api/lines", { ...asked, by: null, file, function: fn }, signal), n = answer.pending;
			// Of this answer it is the number alone.
			return { ...answer, pending: { locations: n, retry_ms: n ? AGAIN_MS : 0 } };
		}
		return ask("api/top", { ...asked, by: "file", sort: "flat", limit: FILES }, signal);
	}

	async show(answer) {
		const signal = this.latest.next();
		this.answer = answer;
		this.loading = this.stopped = false;
		this.whole = answer.total;
		if (answer.rows)
			return this.files(answer);
		const head = el("div", { class: "tools" }, el("h3", {}, answer.file ? pathOf(answer.file) : visible(param("fn"))), el("span", { class: "grow" }),
			el("a", { href: linkTo({ fn: null, file: null }) }, "All files"));
		if (!answer.file || !answer.lines.length) {
			this.node.replaceChildren(head, el("div", { class: "note" }, el("p", {}, answer.file ? "No sample of this selection is in this file."
				: `The source file of ${visible(param("fn") || param("file"))} is not known: its name does not come from debug information with lines.`)));
			return;
		}
		const body = el("div", {}, el("p", { class: "dim", role: "status" }, "Loading the source…"));
		this.node.replaceChildren(head, body);
		this.loading = true;
		let why = answer.build_ids.length ? "" : "No binary with a build ID was compiled from this file.", lines = null;
		for (const id of answer.build_ids) {
			const got = await fetchSource(id, answer.file, signal).catch((error) => ({ why: error.message }));
			if (signal.aborted)
				return;
			lines = got.lines ?? null;
			why = got.why;
			if (lines)
				break;
		}
		this.loading = false;
		const cost = new Map(answer.lines.map((l) => [l.line, l]));
		body.replaceChildren(...(lines ? [] : [this.missing(answer, why)]), this.table(answer.unit, cost, lines));
	}

	missing(answer, why) {
		return el("div", { class: "note" }, el("p", {}, visible(why), " The lines with a cost are listed below, without their text."),
			answer.build_ids.length ? el("p", { class: "dim" }, "The text appears when this server can find the file: in a source or debugsource package that it scans, ",
				"in a folder of sources, pushed with ", el("code", {}, "lode push --sources"), ", or on an upstream server. Build ID ", el("code", {}, answer.build_ids[0])) : null);
	}

	row(unit, n, cost, text) {
		const c = cost.get(n), bar = el("span", { class: "bar", "aria-hidden": "true" });
		if (c)
			bar.style.width = `${100 * Math.min(1, c.cum / Math.max(1, this.whole))}%`;
		return el("tr", { class: c ? "hot" : null }, el("th", { scope: "row", class: "number" }, String(n)),
			el("td", { class: "number" }, c?.flat ? valueText(c.flat, unit) : ""), el("td", { class: "number" }, c?.cum ? valueText(c.cum, unit) : ""),
			el("td", { class: "number dim" }, c ? shareText(c.cum, this.whole) : ""), el("td", { class: "text" }, c ? bar : null, el("code", {}, text)));
	}

	table(unit, cost, lines) {
		const numbers = [...cost.keys()].filter((n) => n > 0).sort((a, b) => a - b);
		const rows = (from, to) => Array.from({ length: Math.max(0, to - from + 1) }, (_, i) => this.row(unit, from + i, cost, lineText(lines?.[from + i - 1] ?? "")));
		const folded = (from, to) => {
			if (to - from < FOLD_FROM)
				return rows(from, to);
			const end = Math.min(to, from + UNFOLD - 1);
			const row = el("tr", { class: "fold" }, el("td", { colspan: 5 }, el("button", { type: "button", class: "plain",
				click: () => row.replaceWith(...rows(from, end), ...folded(end + 1, to)) }, `${number(to - from + 1)} lines`)));
			return [row];
		};
		const list = [];
		let done = 0;
		for (const n of numbers) {
			if (!lines) {
				list.push(...rows(n, n));
				continue;
			}
			const from = Math.max(done + 1, n - AROUND), to = Math.min(Math.max(lines.length, n), n + AROUND);
			list.push(...folded(done + 1, from - 1), ...rows(from, to));
			done = Math.max(done, to);
		}
		if (lines)
			list.push(...folded(done + 1, lines.length));
		return el("div", { class: "wide" }, el("table", { class: "source-table" }, tableHead(["#Line", "#Self", "#Total", "#%", "Source"]), el("tbody", {}, list)));
	}

	files(answer) {
		const known = answer.rows.filter((r) => r.file && r.file !== UNKNOWN);
		const row = (r) => el("tr", {}, el("td", { "data-name": "File" }, el("a", { href: linkTo({ file: r.file, fn: null }) }, pathOf(r.file))),
			el("td", { class: "number", "data-name": "Self" }, valueText(r.flat, answer.unit)), el("td", { class: "number dim", "data-name": "Share" }, shareText(r.flat, answer.total)));
		this.node.replaceChildren(known.length ? el("table", { class: "list" }, tableHead(["File", "#Self", "#%"]), el("tbody", {}, known.map(row)))
			: el("p", { class: "dim" }, "No source files are known in this selection: they need debug information with lines."));
	}

	// The tab is opened again: load the text that it did not get before.
	follow() {
		return this.stopped ? this.show(this.answer) : undefined;
	}

	hide() {
		this.latest.stop();
		this.stopped = this.loading;
	}
}
