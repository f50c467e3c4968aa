// SPDX-License-Identifier: Apache-2.0
// The panel "Upstream servers": the state of each server, and the results of its requests.
import { $, el, setText, swap, visible } from "../dom.js";
import { bytes, count, duration, number, percent } from "../format.js";

// Colour, text and reason of a server's state.
function stateOf(server) {
	if (server.open)
		return ["bad", `skipped, next try in ${duration(server.again_s * 1000)}`, server.said];
	if (server.slow)
		return ["wait", "slow: asked after the others for a while", server.said];
	if (server.said)
		return ["wait", "failed; the next request tries it again", server.said];
	return server.asked ? ["good", "answers", null] : ["unknown", "no request yet", null];
}

function row(server) {
	const [is, text, why] = stateOf(server);
	return el("tr", {},
		el("th", { scope: "row", "data-name": "Server", class: "path" }, visible(server.url)),
		el("td", { "data-name": "State" }, el("div", {},
			el("div", { class: "state", "data-is": is }, el("span", { class: "dot", "aria-hidden": "true" }), el("strong", {}, text)),
			why ? el("div", { class: "from" }, el("bdi", {}, visible(why))) : null)),
		...[["Requests", server.asked], ["Found", server.found], ["Missing", server.missing], ["Failed", server.failed]].map(([name, n]) =>
			el("td", { class: n ? "number" : "number none", "data-name": name }, number(n))),
		el("td", { class: server.bytes ? "number" : "number none", "data-name": "Received" }, bytes(server.bytes)));
}

function said(upstream) {
	const asked = upstream.asked + upstream.remembered;
	if (!asked)
		return "No requests yet: all requested files are here.";
	const parts = [`${count(asked, "request")}: ${number(upstream.found)} found, ${number(upstream.missing)} missing on all servers, ` +
		`${number(upstream.failed)} failed`];
	if (upstream.remembered)
		parts.push(`${number(upstream.remembered)} (${percent(upstream.remembered, asked)}) answered from the miss cache`);
	if (upstream.not_stored)
		parts.push(`${number(upstream.not_stored)} found but not stored, for lack of room`);
	return `${parts.join("; ")}.`;
}

export function showOthers(status) {
	const { upstream } = status, body = $("others-body");
	if (!upstream) {
		setText($("others-aside"), "none");
		swap(body, el("p", { class: "dim" }, "This server has no upstream servers: it serves only its own files."));
		return;
	}
	const closed = upstream.servers.filter((server) => server.open).length;
	setText($("others-aside"), `asked for files that are not here${closed ? `, ${number(closed)} of ${number(upstream.servers.length)} skipped` : ""}`);
	const head = ["Server", "State", "Requests", "Found", "Missing", "Failed", "Received"].map((name, i) =>
		el("th", { scope: "col", class: i > 1 ? "number" : null }, name));
	swap(body, el("table", { class: "list servers" }, el("thead", {}, el("tr", {}, head)), el("tbody", {}, upstream.servers.map(row))),
		el("p", { class: "dim" }, said(upstream)));
}
