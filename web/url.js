// SPDX-License-Identifier: Apache-2.0
// The state of the page is its URL: views read it from there, and change it through this module. Listeners are called after every
// change, whether by a link, by the history or by go() and settle().

const listeners = new Set();
export const onUrl = (listener) => listeners.add(listener);
const notify = () => listeners.forEach((listener) => listener());

export const params = () => new URLSearchParams(location.search);
export const param = (name) => params().get(name) ?? "";

// This URL with some parameters changed; null or "" removes one.
export function linkTo(changes) {
	const next = params();
	for (const [name, value] of Object.entries(changes)) {
		if (value === null || value === undefined || value === false || value === "")
			next.delete(name);
		else
			next.set(name, value === true ? "1" : String(value));
	}
	const text = next.toString();
	// These three need no escape in a query, and are easier to read without.
	return text ? `?${text.replaceAll("%3A", ":").replaceAll("%2F", "/").replaceAll("%2C", ",")}` : "./";
}

function change(changes, how) {
	const next = new URL(linkTo(changes), location.href);
	if (next.search === location.search)
		return false;
	history[how](null, "", next);
	return true;
}

// Change parameters, with an entry in the browser's history.
export function go(changes) {
	if (change(changes, "pushState"))
		notify();
}
// Change parameters without an entry in the history.
export function settle(changes) {
	if (change(changes, "replaceState"))
		notify();
}
// Change the URL for a change that the page shows already: listeners are not called.
export const note = (changes, step = false) => change(changes, step ? "pushState" : "replaceState");

// The view that a URL names. URLs of older versions of the page still work.
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
	addEventListener("popstate", notify);
	// A link within the page changes the URL without a reload.
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
			notify();
		}
	});
}
