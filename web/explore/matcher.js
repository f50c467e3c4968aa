// SPDX-License-Identifier: Apache-2.0
// The field for label matchers. It completes names, operators and values, depending on the text before the caret.
import { ask } from "../api.js";
import { el, visible } from "../dom.js";
import { quoted } from "./selection.js";

const OPERATORS = [["=", "is"], ["!=", "is not"], ["=~", "matches"], ["!~", "does not match"]], MOST = 12;
let made = 0;

// The part of @text that is being entered at @caret: { want: "name" | "operator" | "value" | "next", part, from, name, quote }
export function contextAt(text, caret) {
	const before = text.slice(0, caret);
	let at = 0;
	for (;;) {
		const rest = before.slice(at), name = /^[\s,]*([a-zA-Z_][\w.]*)?/.exec(rest), from = at + name[0].length - (name[1] ?? "").length;
		if (from + (name[1] ?? "").length >= before.length)
			return { want: "name", part: name[1] ?? "", from };
		if (!name[1])
			return { want: "none" };
		const operatorFrom = at + name[0].length, operator = /^(\s*)(=~|!~|!=|=|!)?(\s*)/.exec(before.slice(operatorFrom)), after = operatorFrom + operator[0].length;
		if (!operator[2] || operator[2] === "!" || (after >= before.length && !operator[3] && operator[2] === "=" && text[caret] === "~"))
			return after >= before.length ? { want: "operator", part: operator[2] ?? "", from: operatorFrom + operator[1].length, name: name[1] } : { want: "none" };
		const value = /^(["'`])((?:\\.|(?!\1).)*)(\1)?/.exec(before.slice(after));
		if (!value)
			return after >= before.length || /^[^\s,"'`]*$/.test(before.slice(after)) ? { want: "value", part: before.slice(after), from: after, name: name[1] } : { want: "none" };
		if (!value[3])
			return { want: "value", part: value[2], from: after, name: name[1] };
		at = after + value[0].length;
		if (at >= before.length)
			return { want: "next", part: "", from: at };
	}
}

export class Matcher {
	// @asked() returns the parameters of the time range; @apply(text) is called with the entered text.
	constructor(label, asked, apply) {
		const id = `matcher-${++made}`;
		this.asked = asked;
		this.list = el("ul", { id: `${id}-list`, class: "completions", role: "listbox", "aria-label": "Completions", hidden: true });
		this.input = el("input", {
			id, type: "text", class: "mono", role: "combobox", "aria-label": label, "aria-expanded": "false", "aria-controls": `${id}-list`, "aria-autocomplete": "list",
			placeholder: 'service="web", host=~"a.*"', autocomplete: "off", autocapitalize: "off", spellcheck: "false", maxlength: 60000,
			input: () => this.suggest(), focus: () => this.suggest(), click: () => this.suggest(),
			blur: () => { this.close(); this.enter(); }, keydown: (event) => this.key(event),
		});
		this.apply = apply;
		const brace = (text) => el("span", { class: "brace", "aria-hidden": "true" }, text);
		this.node = el("div", { class: "matcher" }, brace("{"), this.input, brace("}"), this.list);
		this.close();
	}

	// A text that was entered stays as it is. Another one, of a link or of the history, is shown even in a field that has the focus.
	set(text) {
		if (this.input.value !== text && (text !== this.applied || document.activeElement !== this.input)) {
			this.input.value = text;
			this.close();
		}
		this.applied = text;
	}

	enter() {
		const text = this.input.value.trim().replace(/,$/, "");
		if (text !== this.applied) {
			this.applied = text;
			this.apply(text);
		}
	}

	async candidates(context) {
		switch (context.want) {
		case "name": return (await ask("api/labels", this.asked())).labels.map((name) => ({ text: name, insert: name, more: true }));
		case "operator": return OPERATORS.map(([op, hint]) => ({ text: op, hint, insert: op, more: true }));
		case "value": return (await ask(`api/labels/${encodeURIComponent(context.name)}/values`, this.asked())).values.map((value) => ({ text: value, insert: quoted(value) }));
		case "next": return [{ text: ",", hint: "another matcher", insert: ", ", more: true }];
		}
		return [];
	}

	async suggest() {
		const turn = this.turn = {}, caret = this.input.selectionStart;
		let context = contextAt(this.input.value, caret), found = [];
		try {
			found = await this.candidates(context);
			// After a complete name, offer operators.
			if (context.want === "name" && found.some((c) => c.text === context.part)) {
				context = { want: "operator", part: "", from: caret, name: context.part };
				found = await this.candidates(context);
			}
		} catch {
			// The field works without completion.
		}
		if (this.turn !== turn || document.activeElement !== this.input)
			return;
		const part = (context.part ?? "").toLowerCase();
		this.context = context;
		const begins = (c) => c.text.toLowerCase().startsWith(part) ? 1 : 0;
		this.found = found.filter((c) => c.text.toLowerCase().includes(part)).sort((a, b) => begins(b) - begins(a)).slice(0, MOST);
		this.active = -1;
		this.list.replaceChildren(...this.found.map((c, i) => el("li", {
			id: `${this.input.id}-${i}`, role: "option", "aria-selected": "false", pointerdown: (event) => { event.preventDefault(); this.take(i); },
		}, el("span", { class: "mono" }, visible(c.text)), c.hint ? el("span", { class: "dim" }, ` ${c.hint}`) : null)));
		this.list.hidden = !this.found.length;
		this.input.setAttribute("aria-expanded", String(!this.list.hidden));
		this.input.removeAttribute("aria-activedescendant");
	}

	close() {
		this.turn = null;
		this.found = [];
		this.active = -1;
		this.list.hidden = true;
		this.input.setAttribute("aria-expanded", "false");
		this.input.removeAttribute("aria-activedescendant");
	}

	point(to) {
		const n = this.found.length;
		this.list.children[this.active]?.setAttribute("aria-selected", "false");
		this.active = (to + n) % n;
		this.list.children[this.active].setAttribute("aria-selected", "true");
		this.list.children[this.active].scrollIntoView({ block: "nearest" });
		this.input.setAttribute("aria-activedescendant", this.list.children[this.active].id);
	}

	take(i) {
		const { context, input } = this, { insert, more } = this.found[i], tail = input.value.slice(input.selectionStart);
		// Also replace the rest of a name or a quoted value after the caret.
		const rest = context.want === "value" ? tail.replace(/^[^,]*/, "") : context.want === "name" ? tail.replace(/^[\w.]*/, "") : tail;
		const head = input.value.slice(0, context.from) + insert;
		input.value = head + rest;
		input.setSelectionRange(head.length, head.length);
		this.close();
		if (more)
			this.suggest();
	}

	key(event) {
		const open = !this.list.hidden;
		switch (event.key) {
		case "ArrowDown":
			open ? this.point(this.active + 1) : this.suggest();
			break;
		case "ArrowUp":
			if (open)
				this.point(this.active < 0 ? -1 : this.active - 1);
			break;
		case "Enter":
			if (open && this.active >= 0)
				this.take(this.active);
			else {
				this.close();
				this.enter();
			}
			break;
		case "Tab":
			if (!open || this.active < 0)
				return;
			this.take(this.active);
			break;
		case "Escape":
			if (!open)
				return;
			this.close();
			break;
		default: return;
		}
		event.preventDefault();
	}
}
