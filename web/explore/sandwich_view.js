// SPDX-License-Identifier: Apache-2.0
// The tab "Callers and callees": a function with its callers above and its callees below, from the tree of the flame graph.
import { el, searchField, visible } from "../dom.js";
import { colourNodes } from "../flame/colour.js";
import { FlameGraph } from "../flame/graph.js";
import { shareText, valueText } from "../flame/value.js";
import { count } from "../format.js";
import { param, settle } from "../url.js";
import { FrameStrip, Tooltip, factsOf, spoken, valuesText } from "./frame.js";

const SUGGESTED = 300;

// One of the two graphs; the function is the root of both.
class Half {
	constructor(name, tooltip, strip) {
		this.box = el("div", { "aria-label": `${name}. Arrow keys move between frames, Enter zooms, Escape shows all.` });
		this.graph = new FlameGraph(this.box, {
			label: (node) => visible(this.model.name(node)), text: (node) => spoken(this.model, node),
			hovered: (node, event) => tooltip.show(this.model, node, event),
			chosen: () => { strip.half = this; this.describe(); },
		});
		this.strip = strip;
	}

	describe() {
		this.strip.show(factsOf(this.model, this.graph.chosen), valuesText(this.model, this.graph.chosen));
	}

	show(model, up, whole, again) {
		const kept = again ? this.graph.kept() : null;
		this.model = model;
		this.graph.up = up;
		this.graph.show(model, colourNodes(model, model.compares ? "diff" : "binary", whole).ofNode);
		if (kept)
			this.graph.keep(kept);
	}
}

export class SandwichView {
	constructor() {
		this.tooltip = new Tooltip();
		this.strip = new FrameStrip();
		this.callers = new Half("Callers", this.tooltip, this.strip);
		this.callees = new Half("Callees", this.tooltip, this.strip);
		this.callers.box.classList.add("half");
		this.callees.box.classList.add("half");
		this.list = el("datalist", { id: "functions" });
		this.input = searchField("Function", { list: "functions", placeholder: "Function", change: () => settle({ fn: this.input.value }) });
		this.said = el("p", { class: "dim", role: "status" });
		this.both = el("div", {}, el("h3", {}, "Callers"), this.callers.box, el("h3", {}, "Callees"), this.callees.box);
		this.node = el("div", { class: "sandwich" }, el("div", { class: "tools" }, this.input, this.list, this.said), this.both, this.strip.node);
	}

	// @place: the request. If this view shows the same function of an answer to the same one, the selected row stays.
	show(model, place) {
		const name = param("fn"), got = name ? model.sandwich(name) : null, again = got && this.shown === name && this.place === place;
		this.shown = got ? name : null;
		this.place = place;
		if (document.activeElement !== this.input)
			this.input.value = name;
		if (this.listed !== model) {
			this.listed = model;
			this.list.replaceChildren(...[...new Set(model.frames.name)].filter(Boolean).slice(0, SUGGESTED).map((text) => el("option", { value: text })));
		}
		this.both.hidden = !got;
		if (!again)
			this.strip.hide();
		// Many calls of a function may each be too small for the tree, and large together.
		const cut = model.leftOut ? `${count(model.leftOut, "frame is", "frames are")} too small for this view; the table has the sums of all` : "";
		if (!got) {
			const none = cut ? `No frame that is large enough is named ${visible(name)}: ${cut}.` : `No frame in this selection is named ${visible(name)}.`;
			this.said.textContent = name ? none : "Select a frame in the flame graph or in the table, or enter the name of a function.";
			return;
		}
		const value = got.callees.total[0];
		this.said.textContent = `${cut && "at least "}${valueText(value, model.unit)}, ${shareText(value, model.total[0])} of all${cut && `: ${cut}`}`;
		this.callers.show(got.callers, true, model, again);
		this.callees.show(got.callees, false, model, again);
		if (again && !this.strip.node.hidden && this.strip.why.hidden)
			this.strip.half.describe();
	}

	hide() {
		this.tooltip.hide();
	}
}
