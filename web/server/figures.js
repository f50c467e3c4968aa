// SPDX-License-Identifier: Apache-2.0
// The panels "Index" and "Requests": numbers, with small curves since the page was opened.
import { $, el, setText, swap } from "../dom.js";
import { bytes, count, duration, number, percent, rate } from "../format.js";

/* ---- index ---- */

function figure(name, value, note) {
	return el("div", {}, el("dt", {}, name), el("dd", {}, value, note ? el("small", {}, note) : null));
}

function cacheFigure(cache) {
	const asked = cache.hits + cache.misses;
	return figure("Hot cache", bytes(cache.bytes),
		`of ${bytes(cache.max_bytes)}, ${count(cache.files, "file")}${asked ? `, ${percent(cache.hits, asked)} hits` : ""}`);
}

export function showIndexed(status) {
	const { index, cache } = status, body = $("indexed-body");
	if (!index) {
		swap(body, figure("Index", "–", index === null ? "counting, or not readable" : "this server has none"));
		return;
	}
	swap(body,
		figure("Build IDs", number(index.build_ids)),
		figure("Executables", number(index.executables), "with libraries and kernel modules"),
		figure("Debug files", number(index.debug_files)),
		figure("Plain files", number(index.files - index.packages)),
		figure("Packages", number(index.packages), index.packages ? bytes(index.package_bytes) : null),
		figure("Database", bytes(index.db_bytes), index.map_bytes ? `${bytes(index.map_bytes)} of it maps` : null),
		figure("Resume points", bytes(index.points_bytes),
			index.package_bytes ? `${percent(index.points_bytes, index.package_bytes)} of the packages` : null),
		...(cache ? [cacheFigure(cache)] : []),
	);
}

/* ---- requests ---- */

const SAMPLES_MAX = 240; // of a curve; at more, adjacent ones are merged, so that it always spans the whole time

const outcomes = [
	["served", "Served", "200 and 206"],
	["unchanged", "Unchanged", "304: the client has it already"],
	["missing", "Not found", "404"],
	["refused", "Refused", "4xx: a wrong request"],
	["busy", "Overloaded", "429 and 503: the client should try again"],
	["failed", "Failed", "5xx"],
	["broken_off", "Cancelled", "the client closed the connection while it waited"],
];

const past = { opened: performance.now(), last: null, spans: [] }; // spans: { ms, n: { served: 3, ... }, bytes }

function halve(spans) {
	const half = [];
	for (let i = 0; i < spans.length; i += 2) {
		const a = spans[i], b = spans[i + 1];
		if (b)
			half.push({ ms: a.ms + b.ms, bytes: a.bytes + b.bytes,
				n: Object.fromEntries(outcomes.map(([key]) => [key, a.n[key] + b.n[key]])) });
		else
			half.push(a);
	}
	return half;
}

function remember(status) {
	const now = { at: performance.now(), uptime: status.uptime_ms, n: status.requests }, last = past.last;
	past.last = now;
	if (!last || now.uptime < last.uptime) {
		past.spans = [];
		return;
	}
	past.spans.push({ ms: now.at - last.at, bytes: now.n.bytes - last.n.bytes,
		n: Object.fromEntries(outcomes.map(([key]) => [key, now.n[key] - last.n[key]])) });
	if (past.spans.length > SAMPLES_MAX)
		past.spans = halve(past.spans);
}

const WIDTH = 160, HEIGHT = 22;

function svg(tag, attributes) {
	const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
	for (const [name, value] of Object.entries(attributes))
		node.setAttribute(name, value);
	return node;
}

// A step for each span; its width is its duration.
function curve(values, name) {
	const total = past.spans.reduce((sum, span) => sum + span.ms, 0);
	const highest = Math.max(...values, 0);
	const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", class: "curve", role: "img",
		"aria-label": `${name}: at most ${rate(highest)}` });
	const y = (value) => HEIGHT - 1 - (highest ? value / highest * (HEIGHT - 3) : 0);
	let x = 0, line = "";
	past.spans.forEach((span, i) => {
		const to = x + span.ms / total * WIDTH;
		line += `${i ? "L" : "M"}${x.toFixed(1)} ${y(values[i]).toFixed(1)}L${to.toFixed(1)} ${y(values[i]).toFixed(1)}`;
		x = to;
	});
	if (line)
		picture.append(svg("path", { d: `${line}L${WIDTH} ${HEIGHT}L0 ${HEIGHT}Z`, class: "area" }), svg("path", { d: line, class: "line" }));
	const title = svg("title", {});
	title.textContent = `at most ${rate(highest)} since this page was opened`;
	picture.prepend(title);
	return picture;
}

function row(key, name, hint, total) {
	const values = past.spans.map((span) => span.n[key] / Math.max(1, span.ms) * 1000);
	return el("tr", { class: total ? null : "none" }, el("th", { scope: "row", title: hint }, name),
		el("td", { class: "number" }, number(total)), el("td", { class: "number" }, values.length ? rate(values.at(-1)) : "–"),
		el("td", { class: "drawn" }, curve(values, name)));
}

export function showRequests(status) {
	const { requests } = status;
	remember(status);
	const span = past.spans.at(-1);
	// The request for this status is itself one that waits for a worker: do not count it.
	const waiting = Math.max(0, requests.waiting - 1), atWork = Math.max(0, requests.workers_at_work - 1);
	setText($("requests-aside"), `${count(status.connections, "connection")}, ${number(atWork)} of ${count(requests.workers, "worker")} busy` +
		`${waiting ? `, ${count(waiting, "request waits", "requests wait")}` : ""}`);
	swap($("requests-body"),
		el("table", { class: "requests" },
			el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Outcome"), el("th", { scope: "col", class: "number" }, "Total"),
				el("th", { scope: "col", class: "number" }, "Now"),
				el("th", { scope: "col" }, span ? `Last ${duration(performance.now() - past.opened)}` : ""))),
			el("tbody", {}, outcomes.map(([key, name, hint]) => row(key, name, hint, requests[key])))),
		el("p", { class: "dim" }, `${bytes(requests.bytes)} sent`, span ? `, ${bytes(span.bytes / Math.max(1, span.ms) * 1000)}/s now` : "",
			". Without health checks, metrics and this page."));
}
