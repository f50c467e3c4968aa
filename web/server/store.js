// SPDX-License-Identifier: Apache-2.0
// What is kept: pushed by people and machines, fetched from other servers, made here; and who pushed last.
import { $, commandLine, el, pathOf, setText, swap, visible } from "../dom.js";
import { base, bytes, count, duration, number, percent } from "../format.js";

const origins = [
	["pushed", "Pushed", "only evicted when nothing else is left"],
	["fetched", "Fetched", "from other servers"],
	["made", "Made here", "symbol tables"],
];

function limits(store) {
	const quota = store.quota ? `${percent(store.bytes, store.quota)} of ${bytes(store.quota)}` : "no limit but the disk's";
	return store.to_compress.bytes ? `${quota}; ${bytes(store.to_compress.bytes)} to be compressed yet` : quota;
}

function figures(store) {
	return el("dl", { class: "figures" },
		el("div", {}, el("dt", {}, "On disk"), el("dd", {}, bytes(store.bytes),
			el("small", {}, limits(store)))),
		...origins.filter(([key]) => key !== "made" || store.made.objects).map(([key, name, hint]) =>
			el("div", { title: hint }, el("dt", {}, name), el("dd", {}, number(store[key].objects),
				el("small", {}, store[key].objects ? bytes(store[key].bytes) : hint)))));
}

function row(pushed) {
	const link = `?${new URLSearchParams({ view: "server", q: pushed.build_id })}`;
	return el("tr", {},
		el("td", { "data-name": "File" }, pushed.file ? pathOf(pushed.file) : el("span", { class: "none" }, "without a name")),
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
		swap(body, el("p", { class: "dim" }, "This server keeps nothing and takes no pushes."));
		return;
	}
	setText($("store-aside"), !store.counted ? "being counted" :
		store.uploads ? `${count(store.uploads, "upload")} just now` : "what was pushed, and what other servers had");
	swap(body, figures(store), ...(store.latest.length ? latest(store) : [
		el("p", { class: "dim" }, "Nothing was pushed yet. From where programs are built:"),
		commandLine(`lode push BUILD-FOLDER --to ${base().replace(/\/$/, "")}`, "the push command")]));
}
