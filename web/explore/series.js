// SPDX-License-Identifier: Apache-2.0
// A chart of sums over time with a line for each set of labels. A click on a line or on a legend entry selects it; dragging selects a
// time range.
import { el, visible } from "../dom.js";
import { count, number, timeText } from "../format.js";
import { shareText, valueText } from "../flame/value.js";
import { timeOf } from "./selection.js";

const NS = "http://www.w3.org/2000/svg", HEIGHT = 120, N_COLOURS = 10, MOST_LISTED = 8, NEAR = 14, DRAG_FROM = 5;

function svg(tag, attributes, ...children) {
	const node = document.createElementNS(NS, tag);
	for (const [name, value] of Object.entries(attributes))
		node.setAttribute(name, value);
	node.append(...children);
	return node;
}

export function labelsText(labels, none = "no labels") {
	const parts = Object.entries(labels).map(([name, value]) => `${name}=${value}`);
	return visible(parts.length ? parts.join(", ") : none);
}

export class SeriesGraph {
	// @chosen(labels); @ranged(fromMs, toMs)
	constructor(name, chosen, ranged) {
		this.chosen = chosen;
		this.ranged = ranged;
		this.picture = svg("svg", { class: "series", role: "img", height: HEIGHT, preserveAspectRatio: "none", "aria-label": name });
		this.name = name;
		this.top = el("span", { class: "series-top dim" });
		this.times = el("div", { class: "series-times dim", "aria-hidden": "true" });
		this.said = el("span", { class: "series-said dim" });
		this.legend = el("ul", { class: "series-legend", "aria-label": `${name}: series` });
		this.node = el("div", { class: "series-box" }, el("div", { class: "series-picture" }, this.picture, this.top, this.said), this.times, this.legend);
		this.picture.addEventListener("pointerdown", (event) => this.press(event));
		this.picture.addEventListener("pointermove", (event) => this.move(event));
		this.picture.addEventListener("pointerup", (event) => this.release(event));
		this.picture.addEventListener("pointercancel", () => this.letGo());
		this.picture.addEventListener("pointerleave", () => { this.said.textContent = ""; });
	}

	// @by: as in the URL: a label, "-one", or "" for the set of all labels.
	show(answer, asked, by) {
		const from = timeOf(asked.from), to = Math.max(timeOf(asked.to), from + 1);
		Object.assign(this, { answer, from, to, by });
		this.names = [...new Set(answer.series.flatMap((s) => Object.keys(s.labels)))];
		const { series, step, unit } = answer, highest = Math.max(0, ...series.map((s) => Math.max(0, ...s.points)));
		this.highest = highest;
		this.picture.setAttribute("viewBox", `${0} 0 1000 ${HEIGHT}`);
		this.picture.setAttribute("aria-label", `${this.name}: ${series.length} series, at most ${valueText(highest, unit)} in ${step / 1000} s`);
		this.band = svg("rect", { class: "series-band", x: 0, y: 0, width: 0, height: HEIGHT });
		this.picture.replaceChildren(...series.map((s, i) => this.line(s, i)).reverse(), this.band);
		this.top.textContent = highest ? valueText(highest, unit) : "";
		this.times.replaceChildren(...[0, 1, 2, 3, 4].map((i) => el("span", {}, timeText(from + (to - from) * i / 4))));
		const more = Math.max(0, series.length - MOST_LISTED) + (answer.left_out ?? 0);
		this.legend.replaceChildren(...series.slice(0, MOST_LISTED).map((s, i) => this.entry(s, i, answer.total)), ...(more ? [el("li", { class: "dim" }, `and ${number(more)} more`)] : []));
	}

	nameOf(s) {
		return labelsText(s.labels, this.by === "-one" ? "all" : this.by ? `no ${this.by}` : "no labels");
	}

	// The labels that only this series has: one without a label that others have does not include them.
	only(s) {
		return { ...Object.fromEntries(this.names.map((name) => [name, ""])), ...s.labels };
	}

	entry(s, i, whole) {
		return el("li", {}, el("button", {
			type: "button", class: "plain", title: `${count(s.profiles, "profile")}; click to show only these`, disabled: !this.names.length, click: () => this.chosen(this.only(s)),
		}, el("span", { class: `key line-${i % N_COLOURS}`, "aria-hidden": "true" }), this.nameOf(s),
		el("span", { class: "dim" }, ` ${valueText(s.total, this.answer.unit)}, ${shareText(s.total, whole)}`)));
	}

	place(ms) {
		return (ms - this.from) / (this.to - this.from) * 1000;
	}

	line(s, i) {
		const { answer } = this, high = this.highest || 1;
		let d = "";
		s.points.forEach((v, k) => {
			const x = this.place(answer.from + k * answer.step), w = this.place(answer.from + (k + 1) * answer.step), y = HEIGHT - 2 - v / high * (HEIGHT - 16);
			d += `${d ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}L${w.toFixed(1)} ${y.toFixed(1)}`;
		});
		return svg("path", { class: `series-line line-${i % N_COLOURS}`, d });
	}

	at(event) {
		const r = this.picture.getBoundingClientRect();
		return { part: Math.min(1, Math.max(0, (event.clientX - r.left) / r.width)), y: event.clientY - r.top };
	}

	timeAt(part) {
		return Math.round(this.from + part * (this.to - this.from));
	}

	// The series whose line is nearest to the pointer, within NEAR pixels.
	nearest({ part, y }) {
		const { answer } = this, k = Math.floor((this.timeAt(part) - answer.from) / answer.step);
		let best = null, far = NEAR;
		for (const s of answer.series) {
			const v = s.points[k];
			if (v === undefined)
				continue;
			const d = Math.abs(HEIGHT - 2 - v / (this.highest || 1) * (HEIGHT - 16) - y);
			if (d < far) {
				far = d;
				best = { series: s, value: v };
			}
		}
		return best;
	}

	press(event) {
		if (event.button || !this.answer)
			return;
		this.held = { ...this.at(event), px: event.clientX };
		this.picture.setPointerCapture(event.pointerId);
	}

	letGo() {
		this.held = null;
		this.band?.setAttribute("width", 0);
	}

	move(event) {
		if (!this.answer)
			return;
		const at = this.at(event);
		if (this.held) {
			const a = Math.min(this.held.part, at.part), b = Math.max(this.held.part, at.part);
			this.band.setAttribute("x", a * 1000);
			this.band.setAttribute("width", (b - a) * 1000);
			this.said.textContent = `${timeText(this.timeAt(a))} – ${timeText(this.timeAt(b))}`;
			return;
		}
		const near = this.nearest(at);
		this.said.textContent = timeText(this.timeAt(at.part)) + (near ? `: ${this.nameOf(near.series)} ${valueText(near.value, this.answer.unit)}` : "");
	}

	release(event) {
		const { held } = this, at = this.at(event);
		if (!held)
			return;
		this.letGo();
		if (Math.abs(event.clientX - held.px) >= DRAG_FROM) {
			this.ranged(this.timeAt(Math.min(held.part, at.part)), this.timeAt(Math.max(held.part, at.part)));
			return;
		}
		const near = this.nearest(at);
		if (near && this.names.length)
			this.chosen(this.only(near.series));
	}
}
