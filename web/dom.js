// SPDX-License-Identifier: Apache-2.0
// Making elements. Every string becomes a text node: file names and reasons come from packages that anyone may have made, so nothing
// on this page is ever parsed as HTML.

export const $ = (id) => document.getElementById(id);

// el("td", { class: "number", title: "x" }, "text", otherElement). An attribute that is null or false is left out; a function
// becomes a listener.
export function el(tag, attributes = {}, ...children) {
	const node = document.createElement(tag);
	for (const [name, value] of Object.entries(attributes)) {
		if (typeof value === "function")
			node.addEventListener(name, value);
		else if (value !== null && value !== undefined && value !== false)
			node.setAttribute(name, value === true ? "" : value);
	}
	node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
	return node;
}

// A text field without completion, capitalization or spell checking by the browser.
export function searchField(label, attributes) {
	return el("input", { type: "search", "aria-label": label, autocomplete: "off", autocapitalize: "off", spellcheck: "false", ...attributes });
}

export const option = (value, text = value) => el("option", { value }, text);

// The head of a table; "#Size" is a column of numbers.
export function tableHead(names) {
	return el("thead", {}, el("tr", {}, names.map((name) => el("th", { scope: "col", class: name.startsWith("#") ? "number" : null }, name.replace("#", "")))));
}

// Replace the children of @node, unless they are equal.
export function swap(node, ...children) {
	const next = node.cloneNode(false);
	next.append(...children);
	if (!node.isEqualNode(next))
		node.replaceChildren(...next.childNodes);
}

// Replace those children of @node that differ from the ones at their place.
export function swapEach(node, children) {
	children.forEach((child, i) => {
		const there = node.children[i];
		if (!there)
			node.append(child);
		else if (!there.isEqualNode(child))
			there.replaceWith(child);
	});
	while (node.children.length > children.length)
		node.lastElementChild.remove();
}

// Change a text only where it differs, so that a selection or a screen reader is not disturbed every few seconds.
export function setText(node, text) {
	if (node.textContent !== text)
		node.textContent = text;
}

// Control characters, and those that change the direction of the text after them, could make one name look like another.
// eslint-disable-next-line no-control-regex
const deceiving = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
export function visible(text) {
	return text.replace(deceiving, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
}

// A path with dimmed folders.
export function pathOf(path) {
	const shown = visible(path), cut = shown.lastIndexOf("/") + 1;
	return el("bdi", { class: "path" }, cut ? el("span", { class: "dir" }, shown.slice(0, cut)) : null, shown.slice(cut));
}

export function toast(text) {
	const node = $("toast");
	node.textContent = text;
	node.classList.add("shown");
	clearTimeout(toast.timer);
	toast.timer = setTimeout(() => node.classList.remove("shown"), 2000);
}

// navigator.clipboard exists over https and on localhost only; elsewhere copy a selection.
async function copy(text) {
	try {
		await navigator.clipboard.writeText(text);
		return true;
	} catch {
		const area = el("textarea", { class: "offscreen", readonly: true, "aria-hidden": "true" });
		const focused = document.activeElement;
		area.value = text;
		document.body.append(area);
		area.select();
		const done = document.execCommand("copy");
		area.remove();
		focused?.focus();
		return done;
	}
}

export function copyButton(text, what) {
	return el("button", {
		type: "button", class: "copy", "aria-label": `Copy ${what}`, title: `Copy ${what}`,
		click: async () => toast(await copy(text) ? "Copied" : "Your browser does not allow pages to copy; select the text and copy it"),
	}, "Copy");
}

// A command line with a button that copies it.
export function commandLine(text, what) {
	return el("div", { class: "command" }, el("code", {}, text), copyButton(text, what));
}
