// SPDX-License-Identifier: Apache-2.0
// One frame in words: for the tooltip, for screen readers, and as a strip with its actions.
import { el, visible } from "../dom.js";
import { shareText, valueText } from "../flame/value.js";
import { askAddress } from "../server/address.js";
import { go, param } from "../url.js";

export const place = (file, line) => file ? `${visible(file)}${line ? `:${line}` : ""}` : "";
const exactly = (name) => `^${name.replace(/[\\.[\](){}*+?^$|]/g, "\\$&")}$`;

// { name, file, line, binary, buildId, address, self, total, baseSelf, baseTotal, inlined, unnamed } of a node.
export function factsOf(model, node) {
	const f = model.frame[node], { frames } = model, known = f >= 0;
	return {
		name: model.name(node), all: !known, file: known ? frames.file[f] : "", line: known ? frames.line[f] : 0, binary: known ? frames.binary[f] : "",
		buildId: known ? frames.buildId[f] : "", address: known ? frames.address[f] : "", self: model.self[node], total: model.total[node],
		baseSelf: model.baseSelf?.[node], baseTotal: model.baseTotal?.[node], inlined: Boolean(model.inlined[node]), unnamed: model.unnamed(node),
	};
}

export function valuesText(model, node) {
	const parts = [`total ${valueText(model.total[node], model.unit)}, ${shareText(model.total[node], model.total[0])}`,
		`self ${valueText(model.self[node], model.unit)}, ${shareText(model.self[node], model.total[0])}`];
	if (model.compares)
		parts.push(`before ${valueText(model.baseTotal[node], model.unit)}, ${shareText(model.baseTotal[node], model.baseTotal[0])}`);
	return parts;
}

export function spoken(model, node) {
	const facts = factsOf(model, node);
	return [visible(facts.name), ...valuesText(model, node), facts.inlined && "inlined", place(facts.file, facts.line), visible(facts.binary)].filter(Boolean).join("; ");
}

/* ---- the tooltip ---- */

export class Tooltip {
	constructor() {
		this.node = el("div", { class: "tooltip", role: "presentation", hidden: true });
		document.body.append(this.node);
	}

	show(model, node, event) {
		this.node.hidden = node < 0 || !event;
		if (this.node.hidden)
			return;
		const facts = factsOf(model, node);
		this.node.replaceChildren(el("strong", {}, visible(facts.name)), ...valuesText(model, node).map((text) => el("div", {}, text)),
			...[facts.inlined ? "inlined into its caller" : "", place(facts.file, facts.line), visible(facts.binary), facts.buildId ? `build ID ${facts.buildId}` : "",
				facts.address && facts.buildId ? `at ${facts.address}` : ""]
				.filter(Boolean).map((text) => el("div", { class: "dim" }, text)));
		const r = this.node.getBoundingClientRect(), x = Math.min(event.clientX + 14, innerWidth - r.width - 8);
		const y = event.clientY + 18 + r.height > innerHeight ? event.clientY - r.height - 12 : event.clientY + 18;
		this.node.style.transform = `translate(${Math.max(4, x)}px, ${Math.max(4, y)}px)`;
	}

	hide() {
		this.node.hidden = true;
	}
}

/* ---- the strip ---- */

export class FrameStrip {
	constructor() {
		this.node = el("div", { class: "strip", hidden: true, "aria-label": "Selected frame", role: "region" });
		this.why = el("div", { class: "strip-why", hidden: true });
	}

	hide() {
		this.node.hidden = this.why.hidden = true;
	}

	// @values: the costs as texts; @more: further buttons.
	show(facts, values, more = []) {
		const act = (text, changes, hint) => el("button", { type: "button", title: hint, click: () => go(changes) }, text);
		// The name of a frame is that of a function only if frames are grouped so.
		const fn = ["", "function"].includes(param("by")) ? facts.name : null;
		this.why.hidden = true;
		this.node.hidden = false;
		this.node.replaceChildren(
			el("p", { class: "strip-name" }, el("code", {}, visible(facts.name)), facts.inlined && el("span", { class: "tag" }, "inlined"),
				facts.unnamed && el("span", { class: "tag wait" }, "no name")),
			el("p", { class: "dim" }, values.join(" · ")),
			facts.file || facts.binary ? el("p", { class: "dim path" }, [place(facts.file, facts.line), visible(facts.binary)].filter(Boolean).join(" · "),
				facts.buildId ? [" · ", el("a", { href: `?view=server&q=${facts.buildId}`, title: facts.buildId }, `build ID ${facts.buildId.slice(0, 16)}…`)] : null) : null,
			facts.all ? null : el("p", { class: "strip-acts" },
				...more,
				act("Callers and callees", { tab: "sandwich", fn: facts.name, at: null }, "Its callers and its callees"),
				facts.unnamed || !fn && !facts.file ? null : act("Source", { tab: "source", fn, file: facts.file, at: null }, "Its source lines, with the cost of each"),
				act("Focus", { focus: exactly(facts.name), at: null }, "Keep only samples that contain this frame"),
				act("Hide", { hide: exactly(facts.name), at: null }, "Leave this frame out; its callees stay"),
				facts.address && facts.buildId ? el("button", { type: "button", class: facts.unnamed ? "strong" : null, click: () => this.ask(facts) },
					facts.unnamed ? "Why has it no name?" : `Look up ${facts.address}`) : null));
		this.node.append(this.why);
	}

	ask(facts) {
		this.why.hidden = false;
		askAddress(this.why, facts.buildId, facts.address);
	}
}
