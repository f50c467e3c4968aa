// SPDX-License-Identifier: Apache-2.0
// The tab "Table": frames sorted by their own cost or by their total cost; a click shows callers and callees.
import { ask, Latest } from "../api.js";
import { el, searchField, swap, swapEach, visible } from "../dom.js";
import { number } from "../format.js";
import { HEX_NAME } from "../flame/model.js";
import { shareText, valueText } from "../flame/value.js";
import { note, param, settle } from "../url.js";
import { FrameStrip, place } from "./frame.js";

const LIMIT = 2000, FIRST = 200, NEIGHBOURS = 12, FILTER_MS = 120;

// By address, every frame is named by its address.
const plain = (row, by) => ({ ...row, buildId: row.build_id, unnamed: by !== "address" && HEX_NAME.test(row.name) });

export class TableView {
	constructor() {
		this.latest = new Latest();
		this.strip = new FrameStrip();
		this.filter = searchField("Filter the table", { placeholder: "Filter by name, file or binary",
			input: () => { clearTimeout(this.timer); this.timer = setTimeout(() => { note({ filter: this.filter.value }); this.fill(); }, FILTER_MS); } });
		this.said = el("p", { class: "dim", role: "status" });
		this.head = el("tr", {});
		this.body = el("tbody", {});
		this.more = el("button", { type: "button", class: "more", hidden: true, click: () => { this.room += 1000; this.fill(); } }, "Show more");
		this.neighbours = el("div", { class: "neighbours", hidden: true });
		this.node = el("div", { class: "table-view" }, el("div", { class: "tools" }, this.filter, this.said), this.neighbours,
			el("div", { class: "wide" }, el("table", { class: "top-table" }, el("thead", {}, this.head), this.body)), this.more);
	}

	async load(asked, signal) {
		return ask("api/top", { ...asked, sort: param("sort") || "flat", limit: LIMIT }, signal);
	}

	show(answer, asked) {
		this.answer = answer;
		this.asked = asked;
		// The same request with new names: rows that stay as they are, and their buttons, which may have the focus, are not made again.
		const place = JSON.stringify([asked, param("sort")]);
		if (place !== this.place) {
			this.room = FIRST;
			this.shown = null;
		}
		this.place = place;
		if (document.activeElement !== this.filter)
			this.filter.value = param("filter");
		const by = param("sort") || "flat", compares = answer.base_total !== null && answer.base_total !== undefined;
		this.compares = compares;
		const sorted = (key, text, hint) => el("th", { scope: "col", class: "number", "aria-sort": by === key ? "descending" : null, title: hint },
			el("button", { type: "button", class: "plain", click: () => settle({ sort: key === "flat" ? null : key }) }, text));
		swap(this.head, sorted("flat", "Self", "Cost of the frame itself"), el("th", { scope: "col", class: "number" }, "%"),
			sorted("cum", "Total", "Cost including all callees"), el("th", { scope: "col", class: "number" }, "%"),
			...(compares ? [el("th", { scope: "col", class: "number" }, "Before"), el("th", { scope: "col", class: "number" }, "Change")] : []),
			el("th", { scope: "col" }, "Name"), el("th", { scope: "col" }, "Where"));
		this.fill();
		this.around = "";
		this.follow();
	}

	// Show callers and callees of the frame that the URL names.
	follow() {
		const name = param("row"), binary = param("row_binary"), file = param("row_file"), around = `${name}\n${binary}\n${file}`;
		this.neighbours.hidden = !name;
		if (name && around !== this.around)
			this.lookAround(name, binary, file);
		this.around = around;
	}

	// A button that shows callers and callees. Several binaries, or files of one, may have a function of this name.
	link({ name, binary, file }) {
		// The attributes make the button of another function another one.
		return el("button", { type: "button", class: "plain mono", "data-binary": binary, "data-file": file,
			click: () => note({ row: name, row_binary: binary, row_file: file }, true) && this.follow() }, visible(name));
	}

	row(row) {
		const { answer } = this, by = param("sort") === "cum" ? "cum" : "flat", bar = el("span", { class: "bar", "aria-hidden": "true" });
		bar.style.width = `${100 * Math.min(1, row[by] / Math.max(1, answer.total))}%`;
		const share = row[by] / (answer.total || 1), was = (row[`base_${by}`] ?? 0) / (answer.base_total || 1), change = 100 * (share - was);
		return el("tr", {}, el("td", { class: "number" }, valueText(row.flat, answer.unit)), el("td", { class: "number dim" }, shareText(row.flat, answer.total)),
			el("td", { class: "number" }, valueText(row.cum, answer.unit)), el("td", { class: "number dim" }, shareText(row.cum, answer.total)),
			...(this.compares ? [el("td", { class: "number" }, valueText(row[`base_${by}`], answer.unit)),
				el("td", { class: `number ${change > 0.005 ? "worse" : change < -0.005 ? "better" : "dim"}` }, `${change > 0 ? "+" : ""}${change.toFixed(2)}`)] : []),
			el("td", { class: "what" }, bar, this.link(row)),
			el("td", { class: "where path dim" }, place(row.file, row.line) || visible(row.binary)));
	}

	fill() {
		const text = this.filter.value.trim().toLowerCase(), { rows, left_out: out } = this.answer;
		const list = text ? rows.filter((r) => `${r.name}\n${r.file}\n${r.binary}`.toLowerCase().includes(text)) : rows;
		swapEach(this.body, list.slice(0, this.room).map((row) => this.row(row)));
		this.more.hidden = list.length <= this.room;
		const all = `${number(rows.length + out)} frames${out ? `, the largest ${number(rows.length)} are listed` : ""}`;
		this.said.textContent = text ? `${number(list.length)} of ${out ? "the largest " : ""}${number(rows.length)}` : all;
	}

	// Load callers and callees of one frame. While they are loaded again, those that are shown stay.
	async lookAround(name, binary, file) {
		const signal = this.latest.next(), row = this.answer.rows.find((r) => r.name === name && (!binary || r.binary === binary) && (!file || r.file === file));
		const around = JSON.stringify([name, binary, file]);
		this.loading = true;
		this.neighbours.hidden = false;
		if (around !== this.shown?.around) {
			this.shown = null;
			this.neighbours.replaceChildren(el("p", { class: "dim", role: "status" }, "Loading…"));
		}
		try {
			const got = await ask("api/callers", { ...this.asked, function: name, binary, file }, signal), { unit, total } = this.answer;
			const list = (title, rows) => el("div", {}, el("h3", {}, title), rows.length ? el("ol", {}, rows.slice(0, NEIGHBOURS).map((r) => el("li", {},
				el("span", { class: "number" }, valueText(r.cum, unit)), el("span", { class: "number dim" }, shareText(r.cum, total)),
				this.link(r))),
			rows.length > NEIGHBOURS ? el("li", { class: "dim" }, `and ${number(rows.length - NEIGHBOURS)} more`) : null) : el("p", { class: "dim" }, "none"));
			const facts = plain({ name, file: "", line: 0, binary: "", build_id: "", address: "", flat: 0, cum: 0, ...row, ...got.function }, this.asked.by);
			const text = JSON.stringify([facts, got.callers, got.callees, unit, total]), same = text === this.shown?.text;
			this.shown = { around, text };
			this.loading = false;
			if (same)
				return;
			this.strip.show(facts, [`total ${valueText(facts.cum, unit)}, ${shareText(facts.cum, total)}`, `self ${valueText(facts.flat, unit)}, ${shareText(facts.flat, total)}`],
				[el("button", { type: "button", click: () => note({ row: null, row_binary: null, row_file: null }, true) && this.follow() }, "Close")]);
			this.neighbours.replaceChildren(this.strip.node, el("div", { class: "neighbour-lists" }, list("Callers", got.callers), list("Callees", got.callees)));
		} catch (error) {
			if (signal.aborted)
				return;
			this.shown = null;
			this.loading = false;
			this.neighbours.replaceChildren(el("p", { class: "bad" }, error.message));
		}
	}

	hide() {
		this.latest.stop();
		// Requested again when the tab is opened.
		if (this.loading)
			this.around = "";
	}
}
