// SPDX-License-Identifier: Apache-2.0
// What the page shows stands in its URL, and nowhere else: views read it from there, and change it here. Who listens is told of every change, by a
// link, by the history or by hand.

const listeners = new Set();
export const onUrl = (listener) => listeners.add(listener);
const tell = () => listeners.forEach((listener) => listener());

export const params = () => new URLSearchParams(location.search);
export const param = (name) => params().get(name) ?? "";

// A link to here with some of it changed; null or "" takes away.
export function linkTo(changes) {
	const next = params();
	for (const [name, value] of Object.entries(changes)) {
		if (value === null || value === undefined || value === false || value === "")
			next.delete(name);
		else
			next.set(name, value === true ? "1" : String(value));
	}
	const text = next.toString();
	// As people would write it: these mean nothing else in a query.
	return text ? `?${text.replaceAll("%3A", ":").replaceAll("%2F", "/").replaceAll("%2C", ",")}` : "./";
}

function change(changes, how) {
	const next = new URL(linkTo(changes), location.href);
	if (next.search === location.search)
		return false;
	history[how](null, "", next);
	return true;
}

// A step that the back button takes back.
export function go(changes) {
	if (change(changes, "pushState"))
		tell();
}
// Another way to say the same: no step of its own.
export function settle(changes) {
	if (change(changes, "replaceState"))
		tell();
}
// It is shown already.
export const note = (changes, step = false) => change(changes, step ? "pushState" : "replaceState");

// Which view a URL means; what older versions of the page had in theirs is still understood.
export function viewOf(search = params()) {
	const view = search.get("view");
	if (view)
		return view;
	return search.has("q") || search.has("id") ? "server" : "explore";
}

export function startUrl() {
	if (location.hash.startsWith("#/?"))
		history.replaceState(null, "", new URL(location.hash.slice(2), new URL(".", location.href)));
	else if (location.hash.length > 1 && !location.search)
		history.replaceState(null, "", `?view=server${location.hash}`);
	addEventListener("popstate", tell);
	// Links within the page do not load it again.
	document.addEventListener("click", (event) => {
		const link = event.target.closest("a");
		if (event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey || !link || link.target || link.hasAttribute("download"))
			return;
		const to = new URL(link.href), here = new URL(location.href);
		if (to.origin !== here.origin || to.pathname !== here.pathname || to.hash || link.getAttribute("href").startsWith("#"))
			return;
		event.preventDefault();
		if (to.search !== here.search) {
			history.pushState(null, "", to);
			tell();
		}
	});
}
