// SPDX-License-Identifier: Apache-2.0
// The time range picker: presets, or start and end.
import { el } from "../dom.js";
import { presets, rangeText, timeOf } from "./selection.js";

// The text of a field. A malformed time of the URL has none.
const local = (ms) => {
	const at = new Date(ms - new Date(ms).getTimezoneOffset() * 60e3);
	return Number.isNaN(at.getTime()) ? "" : at.toISOString().slice(0, 19);
};

export class RangePicker {
	// @apply(from, to)
	constructor(label, apply) {
		this.label = label;
		this.from = el("input", { type: "datetime-local", step: 1 });
		this.to = el("input", { type: "datetime-local", step: 1 });
		this.said = el("p", { class: "bad", role: "alert" });
		this.summary = el("summary", {});
		const done = (from, to) => {
			this.node.open = false;
			this.summary.focus();
			apply(from, to);
		};
		this.presets = presets.map(([value, text]) => el("button", { type: "button", click: () => done(value, "now") }, text));
		const form = el("form", { class: "range-own", submit: (event) => {
			event.preventDefault();
			const a = this.entered(this.from), b = this.entered(this.to);
			this.said.textContent = Number.isNaN(a) || Number.isNaN(b) ? "Enter a date and a time in both fields." : a >= b ? "The end must be later than the start." : "";
			if (!this.said.textContent)
				done(String(a), String(b));
		} }, el("label", {}, "From", this.from), el("label", {}, "To", this.to), el("button", { type: "submit" }, "Apply"), this.said);
		this.node = el("details", { class: "menu range", toggle: () => this.opened() }, this.summary,
			el("div", { class: "menu-body" }, el("div", { class: "range-presets", role: "group", "aria-label": "Presets" }, this.presets), form));
	}

	set(from, to) {
		this.at = { from, to };
		this.summary.textContent = rangeText(from, to);
		this.summary.setAttribute("aria-label", `${this.label}: ${this.summary.textContent}`);
		this.presets.forEach((button, i) => button.setAttribute("aria-pressed", String(to === "now" && presets[i][0] === from)));
	}

	opened() {
		if (!this.node.open)
			return;
		this.filled = new Map();
		for (const [field, at] of [[this.from, this.at.from], [this.to, this.at.to]]) {
			const ms = timeOf(at);
			field.value = local(ms);
			this.filled.set(field, { text: field.value, ms });
		}
	}

	// The time of a field that was not changed is the one that it was filled with: its text has no milliseconds, and is that of two times
	// when clocks are set back.
	entered(field) {
		const { text, ms } = this.filled?.get(field) ?? {};
		return text && field.value === text ? ms : new Date(field.value).getTime();
	}
}
