// SPDX-License-Identifier: Apache-2.0
// The controls at the top: selection of profiles, selection to compare with, grouping and filters. Their state is the URL.
import { el, option, searchField, visible } from "../dom.js";
import { go, param } from "../url.js";
import { Matcher } from "./matcher.js";
import { RangePicker } from "./range.js";
import { baseAsked, compares, cutSelector, DEFAULT_FROM, DEFAULT_TO, joinSelector, profilesAsked } from "./selection.js";

const FILTERS = [["focus", "Only samples with"], ["ignore", "No samples with"], ["show", "Only frames"], ["hide", "Without frames"]];
const GROUPS = ["function", "file", "binary", "line", "address"];

// "profile:cpu:nanoseconds:cpu:nanoseconds:delta" in words.
export function typeText(type) {
	const [name, what, unit] = type.split(":");
	return visible(what ? `${name === "profile" ? "" : `${name}: `}${what}${unit && unit !== "count" ? ` (${unit})` : ""}` : type);
}

const ranged = (a, b) => ({ from: a === DEFAULT_FROM && b === DEFAULT_TO ? null : a, to: b === DEFAULT_TO ? null : b });
const typeNow = () => cutSelector(param("query")).type;
const button = (text, attributes) => el("button", { type: "button", ...attributes }, text);

// Change the profile type and keep the labels.
function changeType(type) {
	const withType = (selector) => joinSelector(type, cutSelector(selector).matchers);
	go({ query: withType(param("query")), base: param("base") && withType(param("base")), at: null, profile: null });
}

export class SelectionBar {
	// @again() loads the selection again.
	constructor(again) {
		const asked = (range) => () => ({ from: range().from, to: range().to, query: typeNow() });
		this.type = el("select", { id: "type", "aria-label": "Profile type", change: () => changeType(this.type.value) });
		this.matcher = new Matcher("Labels", asked(profilesAsked), (text) => go({ query: joinSelector(typeNow(), text), at: null, profile: null }));
		this.range = new RangePicker("Time range", (from, to) => go({ ...ranged(from, to), at: null, profile: null }));
		this.compare = button("Compare", { "aria-pressed": "false", title: "Compare with another time range or other labels",
			click: () => go({ compare: compares() ? null : "1", base: null, base_from: null, base_to: null, normalise: null, colour: null, at: null }) });
		this.refresh = button("Refresh", { title: "Load the profiles again", click: again });
		this.one = el("span", { class: "tag", hidden: true });
		this.baseMatcher = new Matcher("Labels of the base", asked(baseAsked), (text) => go({ base: joinSelector(typeNow(), text), at: null }));
		this.baseRange = new RangePicker("Time range of the base", (from, to) => go({ base_from: from, base_to: to, at: null }));
		this.normalise = el("input", { type: "checkbox", change: () => go({ normalise: this.normalise.checked }) });
		this.base = el("div", { class: "bar-row", hidden: true, role: "group", "aria-label": "Base of the comparison" }, el("span", { class: "bar-name" }, "Before"),
			this.baseMatcher.node, this.baseRange.node, el("label", { class: "check", title: "Scale both sides to the same total" }, this.normalise, " Normalise"));
		this.node = el("div", { class: "bar-box" },
			el("div", { class: "bar-row" }, this.type, this.matcher.node, this.range.node, this.compare, this.refresh, this.one), this.base);
	}

	show(types) {
		const { type, matchers } = cutSelector(param("query")), listed = types.includes(type) || !type ? types : [type, ...types];
		if (listed.join("\n") !== this.listed) {
			this.listed = listed.join("\n");
			this.type.replaceChildren(...listed.map((text) => el("option", { value: text, title: text }, typeText(text))));
		}
		this.type.value = type;
		this.matcher.set(matchers);
		const { from, to } = profilesAsked();
		this.range.set(from, to);
		this.compare.setAttribute("aria-pressed", String(compares()));
		this.base.hidden = !compares();
		this.one.hidden = !param("profile");
		this.one.replaceChildren(`one profile, ${visible(param("profile"))} `,
			button("×", { class: "plain", "aria-label": "Show all profiles of the range", click: () => go({ profile: null, at: null }) }));
		if (compares()) {
			this.baseMatcher.set(cutSelector(baseAsked().query).matchers);
			this.baseRange.set(baseAsked().from, baseAsked().to);
			this.normalise.checked = param("normalise") === "1";
		}
	}
}

export class ViewBar {
	constructor() {
		const toggle = (name, text, title) => this[name] = button(text, { "aria-pressed": "false", title, click: () => go({ [name]: param(name) ? null : "1", at: null }) });
		this.by = el("select", { "aria-label": "Group by", change: () => go({ by: this.by.value === "function" ? null : this.by.value, at: null }) }, GROUPS.map((by) => option(by)));
		this.label = el("select", { "aria-label": "Split by label", title: "Use the values of this label as the outermost frames",
			change: () => go({ label: this.label.value, at: null }) });
		this.setLabels([]);
		this.inputs = FILTERS.map(([name, text]) => ({ name, text, input: searchField(`${text} (regular expression)`, { class: "mono", placeholder: "regular expression" }) }));
		this.summary = el("summary", {}, "Filters");
		this.filters = el("details", { class: "menu" }, this.summary, el("form", { class: "menu-body filters", submit: (event) => { event.preventDefault(); this.apply(); } },
			this.inputs.map(({ text, input }) => el("label", {}, text, input)),
			el("div", {}, el("button", { type: "submit" }, "Apply"), " ", button("Clear", { click: () => this.clear() }))));
		this.node = el("div", { class: "tools" }, el("label", {}, "Group by ", this.by), el("label", {}, "Split by ", this.label),
			toggle("invert", "Invert", "Callees first: the functions with the cost, then their callers"), toggle("no_inlines", "No inlines", "Leave out inlined calls"), this.filters);
	}

	setLabels(names) {
		const listed = names.includes(param("label")) || !param("label") ? names : [param("label"), ...names];
		this.label.replaceChildren(option("", "no label"), ...listed.map((name) => option(name, visible(name))));
		this.label.value = param("label");
	}

	apply() {
		this.filters.open = false;
		go({ ...Object.fromEntries(this.inputs.map(({ name, input }) => [name, input.value.trim()])), at: null });
	}

	clear() {
		for (const { input } of this.inputs)
			input.value = "";
		this.apply();
	}

	show() {
		this.by.value = param("by") || "function";
		this.label.value = param("label");
		for (const name of ["invert", "no_inlines"])
			this[name].setAttribute("aria-pressed", String(Boolean(param(name))));
		let set = 0;
		for (const { name, input } of this.inputs) {
			set += param(name) ? 1 : 0;
			if (document.activeElement !== input)
				input.value = param(name);
		}
		this.summary.textContent = set ? `Filters: ${set}` : "Filters";
	}
}
