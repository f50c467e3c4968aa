// SPDX-License-Identifier: Apache-2.0
// The menu that lists single profiles of the time range.
import { ask, Latest } from "../api.js";
import { el } from "../dom.js";
import { number, timeText } from "../format.js";
import { valueText } from "../flame/value.js";
import { linkTo } from "../url.js";
import { profilesAsked } from "./selection.js";
import { labelsText } from "./series.js";

const LIMIT = 50;

export class ProfilesMenu {
	// @unit() returns the unit of the values.
	constructor(unit) {
		this.unit = unit;
		this.latest = new Latest();
		this.list = el("ul", { class: "menu-body profiles" });
		this.node = el("details", { class: "menu", toggle: () => this.node.open && this.load() }, el("summary", {}, "One profile"), this.list);
	}

	async load() {
		const signal = this.latest.next();
		this.list.replaceChildren(el("li", { class: "dim" }, "Loading…"));
		try {
			const { profiles } = await ask("api/profiles", { ...profilesAsked(), profile: null, limit: LIMIT }, signal);
			this.list.replaceChildren(...profiles.map((p) => el("li", {}, el("a", { href: linkTo({ profile: p.id, at: null }), click: () => { this.node.open = false; } },
				`${timeText(p.time)} · ${valueText(p.total, this.unit())} · ${labelsText(p.labels)}`))),
			...(profiles.length === LIMIT ? [el("li", { class: "dim" }, `Only the latest ${number(LIMIT)} are listed.`)] : []),
			...(profiles.length ? [] : [el("li", { class: "dim" }, "No profiles in this selection.")]));
		} catch (error) {
			if (!signal.aborted)
				this.list.replaceChildren(el("li", { class: "bad" }, error.message));
		}
	}
}
