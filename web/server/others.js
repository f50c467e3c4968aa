// SPDX-License-Identifier: Apache-2.0
// Other servers, which are asked for what is not here: how each of them is, and what came of asking.
import { $, el, setText, swap, visible } from "../dom.js";
import { bytes, count, duration, number, percent } from "../format.js";

// Its colour, in words, and why.
function stateOf(server) {
	if (server.open)
		return ["bad", `passed over, asked again in ${duration(server.again_s * 1000)}`, server.said];
	if (server.slow)
		return ["wait", "slow: asked last for a while", server.said];
	if (server.said)
		return ["wait", "failed; is tried again with the next request", server.said];
	return server.asked ? ["good", "answers", null] : ["unknown", "not asked yet", null];
}

function row(server) {
	const [is, text, why] = stateOf(server);
	return el("tr", {},
		el("th", { scope: "row", "data-name": "Server", class: "path" }, visible(server.url)),
		el("td", { "data-name": "State" }, el("div", {},
			el("div", { class: "state", "data-is": is }, el("span", { class: "dot", "aria-hidden": "true" }), el("strong", {}, text)),
			why ? el("div", { class: "from" }, el("bdi", {}, visible(why))) : null)),
		...[["Asked", server.asked], ["Found", server.found], ["Not there", server.missing], ["Failed", server.failed]].map(([name, n]) =>
			el("td", { class: n ? "number" : "number none", "data-name": name }, number(n))),
		el("td", { class: server.bytes ? "number" : "number none", "data-name": "Received" }, bytes(server.bytes)));
}

function said(upstream) {
	const asked = upstream.asked + upstream.remembered;
	if (!asked)
		return "Nothing was asked of them yet: whatever was wanted is here.";
	const parts = [`${count(asked, "question")}: ${number(upstream.found)} found, ${number(upstream.missing)} that none of them has, ` +
		`${number(upstream.failed)} without an answer`];
	if (upstream.remembered)
		parts.push(`${number(upstream.remembered)} (${percent(upstream.remembered, asked)}) answered by what was asked in vain before`);
	if (upstream.not_stored)
		parts.push(`${number(upstream.not_stored)} found but not kept, for want of room`);
	return `${parts.join("; ")}.`;
}

export function showOthers(status) {
	const { upstream } = status, body = $("others-body");
	if (!upstream) {
		setText($("others-aside"), "none");
		swap(body, el("p", { class: "dim" }, "What is not here is asked of no other server."));
		return;
	}
	const closed = upstream.servers.filter((server) => server.open).length;
	setText($("others-aside"), `asked for what is not here${closed ? `, ${number(closed)} of ${number(upstream.servers.length)} passed over` : ""}`);
	const head = ["Server", "State", "Asked", "Found", "Not there", "Failed", "Received"].map((name, i) =>
		el("th", { scope: "col", class: i > 1 ? "number" : null }, name));
	swap(body, el("table", { class: "list servers" }, el("thead", {}, el("tr", {}, head)), el("tbody", {}, upstream.servers.map(row))),
		el("p", { class: "dim" }, said(upstream)));
}
