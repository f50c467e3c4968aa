// SPDX-License-Identifier: Apache-2.0
// The view "Explore": a selection of profiles as a flame graph, a table, one function, its source. It requests only data that is shown, and
// again only when the request changes. While addresses are being named it polls.
import { apiUrl, ask, Latest } from "../api.js";
import { $, el, option, setText, visible } from "../dom.js";
import { modelOf } from "../flame/model.js";
import { valueText } from "../flame/value.js";
import { count, number } from "../format.js";
import { go, note, param, params, viewOf } from "../url.js";
import { SelectionBar, ViewBar } from "./bar.js";
import { firstProfile, nothingInRange, notHere } from "./empty.js";
import { FlameView } from "./flame_view.js";
import { ProfilesMenu } from "./profiles_menu.js";
import { SandwichView } from "./sandwich_view.js";
import { baseAsked, compares, cutSelector, joinSelector, profilesAsked, quoted, timeOf, viewAsked } from "./selection.js";
import { SeriesGraph } from "./series.js";
import { SourceView } from "./source_view.js";
import { TableView } from "./table_view.js";

const FIRST_MS = 3000, AGAIN_MIN_MS = 1000, AGAIN_MAX_MS = 30000, SERIES = 50, POINTS = 60;
const TABS = [["flame", "Flame graph"], ["table", "Table"], ["sandwich", "Callers and callees"], ["source", "Source"]];
const FORMATS = [
	["pprof", "pprof", "pb.gz"], ["folded", "Folded stacks", "folded"], ["svg", "SVG", "svg"], ["html", "HTML page", "html"], ["speedscope", "speedscope", "speedscope.json"],
];

const latest = { types: new Latest(), labels: new Latest(), series: new Latest(), base: new Latest(), tree: new Latest(), result: new Latest() };
const known = {};   // the last request of each kind, as a key
let parts, timer, turns = 0, busy = 0, again = 0, pendingMs = AGAIN_MIN_MS, model = null;

const tabNow = () => TABS.some(([tab]) => tab === param("tab")) ? param("tab") : "flame";

// @selector with matchers of the labels of one series. A series by one label is part of what the selector has; one by all has all labels.
function onlyThese(selector, labels) {
	const { type, matchers } = cutSelector(selector), text = Object.entries(labels).map(([name, value]) => `${name}=${quoted(value)}`).join(", ");
	const before = param("series") ? matchers.replace(/,$/, "") : "";
	return joinSelector(type, !before ? text : `, ${before},`.includes(`, ${text},`) ? before : `${before}, ${text}`);
}

/* ---- elements, made once ---- */

function build() {
	const bar = new SelectionBar(refresh), viewBar = new ViewBar();
	const series = new SeriesGraph("Over time", (labels) => go({ query: onlyThese(param("query"), labels), at: null }), (from, to) => go({ from, to, at: null, profile: null }));
	const base = new SeriesGraph("Before", (labels) => go({ base: onlyThese(baseAsked().query, labels), at: null }), (from, to) => go({ base_from: from, base_to: to, at: null }));
	const views = { flame: new FlameView(), table: new TableView(), sandwich: new SandwichView(), source: new SourceView() };
	const by = el("select", { "aria-label": "A line for each", change: () => go({ series: by.value }) });
	const tabs = TABS.map(([tab, text]) => el("button", { type: "button", role: "tab", id: `tab-${tab}`, "aria-controls": "result", "data-tab": tab,
		click: () => go({ tab: tab === "flame" ? null : tab }) }, text));
	const tabList = el("div", { class: "tabs", role: "tablist", "aria-label": "Views", keydown: (event) => {
		const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key], at = tabs.indexOf(document.activeElement);
		if (!step || at < 0)
			return;
		event.preventDefault();
		const to = tabs[(at + step + tabs.length) % tabs.length];
		to.focus();
		to.click();
	} }, tabs);
	const downloads = el("details", { class: "menu" }, el("summary", {}, "Download"), el("ul", { class: "menu-body" },
		FORMATS.map(([format, text, suffix]) => el("li", {}, el("a", { "data-format": format, download: `profile.${suffix}` }, text)))));
	const said = el("p", { class: "said", role: "status" }), pending = el("p", { class: "pending", role: "status", hidden: true });
	const result = el("div", { id: "result", role: "tabpanel", tabindex: "-1" });
	const empty = el("div", { hidden: true }), error = el("p", { class: "note bad", role: "alert", hidden: true });
	const one = new ProfilesMenu(() => cutSelector(param("query")).type.split(":")[2] ?? "");
	const seriesPanel = el("section", { class: "panel series-panel", "aria-label": "Over time" }, el("div", { class: "tools" }, el("label", {}, "A line for each ", by)),
		series.node, el("div", { class: "base-series", hidden: true }, el("h3", {}, "Before"), base.node));
	const panel = el("section", { class: "panel", "aria-label": "Profile" }, el("header", {}, tabList, el("div", { class: "tools" }, one.node, downloads)),
		el("div", { class: "tools spread" }, said, pending, viewBar.node), result);
	$("view-explore").replaceChildren(bar.node, error, empty, seriesPanel, panel);
	parts = { bar, viewBar, series, base, views, by, tabs, downloads, said, pending, result, empty, error, seriesPanel, panel };
}

function refresh() {
	again++;
	showExplore();
}

function fail(error) {
	parts.error.hidden = !error;
	setText(parts.error, error ? error.message : "");
}

// Request @path with @asked. Returns undefined if that was the last request for @what. Throws the server's error.
async function askNew(what, path, asked) {
	const key = JSON.stringify([path, asked, again]);
	if (known[what] === key)
		return undefined;
	known[what] = key;
	const signal = latest[what].next();
	try {
		return await ask(path, asked, signal);
	} catch (error) {
		// If it was aborted, another request is under way, perhaps for the same.
		if (!signal.aborted)
			delete known[what];
		throw error;
	}
}

/* ---- profile types ---- */

let types = [];

// Callers that need the types while they are requested wait for the same answer.
function loadTypes(from, to) {
	const key = JSON.stringify([from, to, again]);
	if (known.types !== key) {
		known.types = key;
		const signal = latest.types.next();
		known.typesCome = ask("api/types", { from, to }, signal).then((answer) => { types = answer.types; }, (error) => {
			if (!signal.aborted)
				delete known.types;
			throw error;
		});
	}
	return known.typesCome;
}

// Choose a type if the URL has none. Returns what to show if there are no profiles, else null.
async function chooseType() {
	const { from, to } = profilesAsked();
	await loadTypes(from, to);
	if (!types.length && !param("query")) {
		const ever = (await ask("api/types", { from: 0, to: "now" })).types;
		return ever.length ? nothingInRange(null) : firstProfile();
	}
	const { type, matchers } = cutSelector(param("query"));
	if (!type) {
		const best = types.find((text) => text.split(":")[1] === "cpu") ?? types[0] ?? "";
		note({ query: joinSelector(best, matchers) });
	}
	return null;
}

// Show @nothing, and look again soon.
function showNothing(nothing) {
	parts.empty.replaceChildren(nothing);
	delete known.types;
	clearTimeout(timer);
	timer = setTimeout(() => !document.hidden && viewOf() === "explore" && showExplore(), FIRST_MS);
}

/* ---- over time ---- */

// The answer of each request is shown when it arrives: one that waited for the others could be shown over a later one.
async function showSums(what, graph, asked, by) {
	// Points are wide enough that one profile per minute gives a line, not needles.
	const step = Math.max(1, Math.round((timeOf(asked.to) - timeOf(asked.from)) / POINTS / 1000));
	const answer = await askNew(what, "api/series", { ...asked, profile: null, limit: SERIES, step: `${step}s`, ...(by === "-one" ? { one: 1 } : by ? { by } : {}) });
	if (answer)
		graph.show(answer, asked, by);
}

async function showLabels({ query, from, to }) {
	const answer = await askNew("labels", "api/labels", { query, from, to });
	if (answer) {
		parts.by.replaceChildren(option("", "set of labels"), option("-one", "none: one line in all"), ...answer.labels.map((name) => option(name, visible(name))));
		parts.viewBar.setLabels(answer.labels);
	}
	parts.by.value = param("series");
}

async function showSeries() {
	const asked = profilesAsked(), by = param("series");
	parts.base.node.parentNode.hidden = !compares();
	await Promise.all([showSums("series", parts.series, asked, by), compares() && showSums("base", parts.base, baseAsked(), by), showLabels(asked)]);
}

/* ---- tree, table, lines ---- */

function say(answer) {
	const { unit, total, base_total: was, profiles, samples, left_out: out, damaged } = answer;
	const shown = [valueText(total, unit), (was ?? null) === null ? null : `before ${valueText(was, unit)}`, profiles === undefined ? null : count(profiles, "profile"),
		samples === undefined ? null : count(samples, "sample"), out && answer.nodes ? `${number(out)} frames are too small to show` : null,
		damaged ? `${count(damaged, "profile is", "profiles are")} damaged and left out` : null];
	setText(parts.said, shown.filter(Boolean).join(" · "));
}

// Poll while addresses are being named, and say so. Poll also if a debug file is missing, since it may arrive. @answer is that of the open
// tab: tabs have answers of different times.
function watchPending(answer) {
	if (known.watched === answer)
		return;
	known.watched = answer;
	const n = answer.pending?.locations ?? 0;
	parts.pending.hidden = !n;
	setText(parts.pending, n ? `${count(n, "address is", "addresses are")} being named` : "");
	clearTimeout(timer);
	if (!answer.pending?.retry_ms) {
		pendingMs = AGAIN_MIN_MS;
		return;
	}
	timer = setTimeout(() => {
		// A page that cannot be seen loads when it is shown again.
		delete known.tree;
		delete known.result;
		if (!document.hidden && viewOf() === "explore")
			poll(answer);
	}, Math.max(answer.pending.retry_ms, pendingMs));
	pendingMs = Math.min(AGAIN_MAX_MS, pendingMs * 1.5);
}

async function poll(answer) {
	try {
		await showResult();
		if (known.failed)
			fail(null);
		known.failed = false;
	} catch (error) {
		if (error.name === "AbortError")
			return;
		fail(error);
		known.failed = true;
		// The server may answer the next time.
		known.watched = null;
		watchPending(answer);
	}
}

async function showTree() {
	const asked = viewAsked(), answer = await askNew("tree", "api/flamegraph", asked);
	if (answer) {
		known.place = JSON.stringify(asked);
		model = modelOf(answer, asked.by);
		known.answer = answer;
		known.loaded = known.tree;
		known.shown = null;
	}
	// An answer is shown in the tab that is open when it arrives. Until then, no tab shows the tree of another selection.
	const tab = tabNow(), view = parts.views[tab];
	if (!model || known.loaded !== known.tree || tab !== "flame" && tab !== "sandwich")
		return;
	say(known.answer);
	const nothing = model.n < 2;
	parts.empty.replaceChildren(...(nothing ? [nothingInRange(filtered())] : []));
	parts.empty.hidden = !nothing;
	parts.result.hidden = nothing;
	if (tab === "sandwich")
		view.show(model, known.place);
	else if (known.shown !== model)
		view.show(model, known.place);
	else
		view.follow();
	if (tab === "flame")
		known.shown = model;
	watchPending(known.answer);
}

const filtered = () => {
	const { type, matchers } = cutSelector(param("query"));
	return matchers || ["focus", "ignore", "hide", "show", "label"].some(param) ? { type } : null;
};

async function showRows(tab) {
	const view = parts.views[tab], asked = viewAsked(), key = JSON.stringify([tab, asked, again, param("sort"), tab === "source" ? [param("fn"), param("file")] : 0]);
	// An empty flame graph may have been hidden.
	parts.empty.hidden = true;
	parts.result.hidden = false;
	if (known.result === key) {
		// It may still be under way.
		if (known.rows?.key === key) {
			say(known.rows.answer);
			watchPending(known.rows.answer);
			await view.follow?.();
		}
		return;
	}
	known.result = key;
	const signal = latest.result.next();
	let answer;
	try {
		answer = await view.load(asked, signal);
	} catch (error) {
		if (!signal.aborted)
			delete known.result;
		throw error;
	}
	if (known.result !== key)
		return;
	// The tab was left: it loads again when it is opened.
	if (tabNow() !== tab) {
		delete known.result;
		return;
	}
	known.rows = { key, answer };
	say(answer);
	watchPending(answer);
	await view.show(answer, asked);
}

async function showResult() {
	const tab = tabNow();
	for (const button of parts.tabs) {
		const is = button.dataset.tab === tab;
		button.setAttribute("aria-selected", String(is));
		button.tabIndex = is ? 0 : -1;
	}
	parts.viewBar.show();
	for (const link of parts.downloads.querySelectorAll("a"))
		link.href = apiUrl("api/download", { ...viewAsked(), format: link.dataset.format });
	const view = parts.views[tab];
	parts.result.setAttribute("aria-labelledby", `tab-${tab}`);
	if (parts.result.firstChild !== view.node) {
		for (const other of Object.values(parts.views))
			other === view || other.hide();
		parts.result.replaceChildren(view.node);
	}
	busy++;
	parts.panel.setAttribute("aria-busy", "true");
	try {
		await (tab === "flame" || tab === "sandwich" ? showTree() : showRows(tab));
	} finally {
		if (!--busy)
			parts.panel.setAttribute("aria-busy", "false");
	}
}

/* ---- */

export async function showExplore() {
	if (!parts)
		build();
	parts.bar.show(types);
	const turn = ++turns;
	try {
		const nothing = await chooseType(), there = !nothing;
		// A later call shows all, perhaps of another range, which has profiles.
		if (turn !== turns)
			return;
		if (nothing)
			showNothing(nothing);
		parts.bar.show(types);
		parts.bar.node.hidden = !there && !params().has("from");
		parts.seriesPanel.hidden = parts.panel.hidden = !there;
		parts.empty.hidden = there;
		if (there)
			await Promise.all([showSeries(), showResult()]);
		fail(null);
	} catch (error) {
		if (error.name === "AbortError")
			return;
		if (error.status === 404 && !types.length) {
			parts.bar.node.hidden = parts.seriesPanel.hidden = parts.panel.hidden = true;
			parts.empty.hidden = false;
			parts.empty.replaceChildren(notHere());
			return;
		}
		fail(error);
	}
}

export function hideExplore() {
	clearTimeout(timer);
	for (const view of Object.values(parts?.views ?? {}))
		view.hide();
	delete known.tree;
	delete known.result;
}
