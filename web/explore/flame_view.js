// SPDX-License-Identifier: Apache-2.0
// The tab "Flame graph": search, colours, direction, and the selected frame.
import { el, searchField, visible } from "../dom.js";
import { colourNodes, paletteFor } from "../flame/colour.js";
import { FlameGraph } from "../flame/graph.js";
import { shareText, valueText } from "../flame/value.js";
import { number } from "../format.js";
import { note, param, settle } from "../url.js";
import { FrameStrip, Tooltip, factsOf, spoken, valuesText } from "./frame.js";

const FIND_MS = 120, LEGEND = 10, SEVERAL = 0.02;

// An entry of the legend, which follows the light or dark palette.
function legendItem(entry, model) {
	const key = el("span", { class: "key", "aria-hidden": "true" }), paint = () => { key.style.background = paletteFor(paint.dark.matches)[entry.colour]; };
	paint.dark = matchMedia("(prefers-color-scheme: dark)");
	paint();
	const share = entry.value === undefined ? null : shareText(entry.value, model.total[0] + (model.baseTotal?.[0] ?? 0));
	return el("li", {}, key, visible(entry.key.split("/").pop()), share && el("span", { class: "dim" }, ` ${share}`));
}

export class FlameView {
	constructor() {
		this.tooltip = new Tooltip();
		this.strip = new FrameStrip();
		this.find = searchField("Find frames", { id: "find", placeholder: "Find (regular expression)",
			input: () => { clearTimeout(this.timer); this.timer = setTimeout(() => { note({ find: this.find.value }); this.search(); }, FIND_MS); } });
		this.found = el("output", { class: "dim", for: "find" });
		this.colour = el("select", { "aria-label": "Colour by", change: () => settle({ colour: this.colour.value === this.usual() ? null : this.colour.value }) },
			["binary", "file", "function", "diff"].map((by) => el("option", { value: by }, by === "diff" ? "change" : by)));
		this.turn = el("button", { type: "button", "aria-pressed": "false", title: "Draw callers at the bottom, callees above them", click: () => settle({ up: param("up") ? null : "1" }) }, "Callers at bottom");
		this.out = el("button", { type: "button", hidden: true, click: () => this.graph.zoom(0) }, "Reset zoom");
		this.box = el("div", { id: "flame", "aria-label": "Flame graph. Arrow keys move between frames, Enter zooms, Escape shows all." });
		this.legend = el("ul", { class: "flame-legend", "aria-label": "Colours" });
		this.node = el("div", { class: "flame-view" },
			el("div", { class: "tools" }, this.find, this.found, el("span", { class: "grow" }), el("label", {}, "Colour by ", this.colour), this.turn, this.out),
			this.box, el("div", { class: "tools spread below" }, this.legend,
				el("p", { class: "dim", "aria-hidden": "true" }, "Click zooms, drag pans, Ctrl + wheel zooms freely; arrow keys, Enter, Esc")), this.strip.node);
		this.graph = new FlameGraph(this.box, {
			label: (node) => this.labels[node ? this.model.frame[node] : this.model.nFrames],
			text: (node) => spoken(this.model, node),
			hovered: (node, event) => this.tooltip.show(this.model, node, event),
			chosen: (node) => this.choose(node),
			zoomed: (node) => {
				this.out.hidden = !node;
				note({ at: node ? this.model.keyOf(node) : null }, true);
			},
		});
		matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.model && this.paint());
	}

	// The default colouring: by binary if at least two binaries matter.
	usual() {
		return this.model.compares ? "diff" : this.several ? "binary" : "function";
	}

	choose(node) {
		this.strip.show(factsOf(this.model, node), valuesText(this.model, node));
	}

	// Return the colours of all nodes, and update the legend.
	colours() {
		const by = param("colour") || this.usual(), { ofNode, legend } = colourNodes(this.model, by);
		this.colour.value = by;
		this.legend.replaceChildren(...legend.slice(0, LEGEND).map((entry) => legendItem(entry, this.model)));
		return ofNode;
	}

	paint() {
		this.graph.setColours(this.colours());
	}

	// @place: the request. If this view shows the answer to the same one, of other names: keep the selected frame, and the part that is shown.
	show(model, place) {
		const kept = place === this.place ? { ...this.graph.kept(), strip: !this.strip.node.hidden, why: !this.strip.why.hidden } : null;
		this.place = place;
		this.model = model;
		this.several = (colourNodes(model, "binary").legend[1]?.value ?? 0) >= SEVERAL * model.total[0];
		this.labels = model.frames.name.map(visible);
		this.labels.push(`all: ${valueText(model.total[0], model.unit)}`);
		this.colour.lastChild.hidden = !model.compares;
		this.graph.show(model, this.colours());
		if (kept)
			this.graph.keep(kept);
		this.search();
		this.follow();
		if (!kept)
			this.strip.hide();
		else if (kept.strip && !kept.why)
			this.choose(this.graph.chosen);
	}

	// Apply direction, colours, search and zoom from the URL.
	follow() {
		const up = param("up") === "1", node = param("at") ? this.model.find(param("at")) : 0;
		this.turn.setAttribute("aria-pressed", String(up));
		if (up !== this.graph.up)
			this.graph.setUp(up);
		if ((param("colour") || this.usual()) !== this.colour.value)
			this.paint();
		if (document.activeElement !== this.find && this.find.value !== param("find")) {
			this.find.value = param("find");
			this.search();
		}
		this.out.hidden = !node;
		if (node !== this.graph.zoomedTo)
			this.graph.zoom(node, true);
	}

	search() {
		const text = this.find.value;
		this.find.removeAttribute("aria-invalid");
		if (!text || !this.model) {
			this.found.textContent = "";
			this.graph.model && this.graph.setHits(null);
			return;
		}
		let pattern;
		try {
			pattern = new RegExp(text, "i");
		} catch {
			this.found.textContent = "not a regular expression";
			this.find.setAttribute("aria-invalid", "true");
			return;
		}
		const { hits, nodes, frames, value } = this.model.search(pattern);
		const least = this.model.leftOut ? "at least " : "", none = this.model.leftOut ? "none that is large enough to show" : "none";
		this.found.textContent = nodes ? `${least}${number(frames)} found, ${number(nodes)} times, ${shareText(value, this.model.total[0])}` : none;
		this.graph.setHits(hits);
	}

	hide() {
		this.tooltip.hide();
	}
}
