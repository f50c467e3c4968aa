// SPDX-License-Identifier: Apache-2.0
// The panel "Store": pushed, fetched and built objects, and the latest pushes.
import { $, commandLine, el, pathOf, setText, swap, visible } from "../dom.js";
import { base, bytes, count, duration, number, percent } from "../format.js";

const origins = [
	["pushed", "Pushed", "evicted only after all other objects"],
	["fetched", "Fetched", "from upstream servers"],
	["made", "Built here", "symbol tables"],
];

function limits(store) {
	const quota = store.quota ? `${percent(store.bytes, store.quota)} of ${bytes(store.quota)}` :
		store.where === "bucket" ? "no limit" : "limited by the disk only";
	return store.to_compress.bytes ? `${quota}; ${bytes(store.to_compress.bytes)} still to be compressed` : quota;
}

function cached({ cache }) {
	return el("div", { title: "contents of the bucket, on this node's disk" }, el("dt", {}, "Cached"), el("dd", {}, bytes(cache.bytes),
		el("small", {}, cache.opened ? `${percent(cache.hits, cache.opened)} of ${count(cache.opened, "read")}` : `of ${bytes(cache.max)}`)));
}

function held({ held }) {
	return el("div", { title: "pushes on this node's disk that are not in the bucket yet" }, el("dt", {}, "Wait for the bucket"),
		el("dd", {}, count(held.pushes, "push", "pushes"), el("small", {}, `${bytes(held.bytes)} of ${bytes(held.max)}`)));
}

// Pushes that were acknowledged while the bucket was away, and then refused, since the object has another owner, or found damaged.
function refused({ held }) {
	if (!held || !held.refused)
		return [];
	return [el("p", { class: "bad" }, `${count(held.refused, "push that was", "pushes that were")} kept while the bucket was away ${held.refused === 1 ? "is" : "are"} not in it. `,
		el("code", {}, "lode store kept"), " lists all."),
		el("ul", {}, held.latest_refused.map((one) => el("li", {}, el("code", {}, visible(one.key)), " of ", el("bdi", {}, visible(one.by)),
			one.owner ? [": refused, the owner is ", el("bdi", {}, visible(one.owner))] : ": damaged on this disk")))];
}

function figures(store) {
	return el("dl", { class: "figures" },
		el("div", {}, el("dt", {}, store.where === "bucket" ? "In the bucket" : "On disk"), el("dd", {}, bytes(store.bytes),
			el("small", {}, limits(store)))),
		store.cache ? cached(store) : null,
		store.held ? held(store) : null,
		...origins.filter(([key]) => key !== "made" || store.made.objects).map(([key, name, hint]) =>
			el("div", { title: hint }, el("dt", {}, name), el("dd", {}, number(store[key].objects),
				el("small", {}, store[key].objects ? bytes(store[key].bytes) : hint)))));
}

function row(pushed) {
	const link = `?${new URLSearchParams({ view: "server", q: pushed.build_id })}`;
	return el("tr", {},
		el("td", { "data-name": "File" }, pushed.file ? pathOf(pushed.file) : el("span", { class: "none" }, "no name")),
		el("td", { "data-name": "Kind", class: "nowrap" }, pushed.kind),
		el("td", { "data-name": "Build ID", class: "id" }, el("a", { class: "mono", href: link, title: pushed.build_id }, `${pushed.build_id.slice(0, 12)}${pushed.build_id.length > 12 ? "…" : ""}`)),
		el("td", { "data-name": "By" }, el("bdi", {}, visible(pushed.from))),
		el("td", { "data-name": "Size", class: "number" }, bytes(pushed.size)),
		el("td", { "data-name": "When", class: "when" }, `${duration(pushed.ms_ago)} ago`));
}

function latest(store) {
	const head = ["File", "Kind", "Build ID", "By", "Size", "When"].map((name) =>
		el("th", { scope: "col", class: name === "Size" ? "number" : null }, name));
	return [el("h3", {}, "Latest pushes"),
		el("table", { class: "list pushes" }, el("thead", {}, el("tr", {}, head)), el("tbody", {}, store.latest.map(row)))];
}

export function showStore(status) {
	const { store } = status, body = $("store-body");
	if (!store) {
		setText($("store-aside"), "none");
		swap(body, el("p", { class: "dim" }, "This server has no store and does not accept pushes."));
		return;
	}
	setText($("store-aside"), !store.counted ? "counting" :
		store.uploads ? `${count(store.uploads, "upload")} in progress` : "pushed files, and files of upstream servers");
	swap(body, figures(store), ...refused(store), ...(store.latest.length ? latest(store) : [
		el("p", { class: "dim" }, "No pushes yet. On the machine that builds your programs:"),
		commandLine(`lode push BUILD-FOLDER --to ${base().replace(/\/$/, "")}`, "the push command")]));
}
