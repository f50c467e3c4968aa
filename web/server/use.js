// SPDX-License-Identifier: Apache-2.0
// How to use this server: lines to copy, with the address at which the user has reached it.
import { $, commandLine, el } from "../dom.js";
import { base } from "../format.js";

const links = [
	["metrics", "/metrics", "for Prometheus"],
	["healthz", "/healthz", "does it answer"],
	["readyz", "/readyz", "was all found once"],
	["api/status", "/api/status", "the figures of this page"],
];

export function showUse() {
	const url = base();
	$("use-body").append(
		el("p", {}, "Tell gdb, perf, drgn, valgrind and all else that speaks debuginfod:"),
		commandLine(`export DEBUGINFOD_URLS=${url}`, "the line for this server alone"),
		el("p", {}, "or, before the servers that you have already:"),
		commandLine(`export DEBUGINFOD_URLS="${url} $DEBUGINFOD_URLS"`, "the line for this server and others"),
		el("p", {}, "Then debug, or fetch one file:"),
		commandLine("gdb -iex 'set debuginfod enabled on' /usr/bin/bash", "the gdb example"),
		commandLine("debuginfod-find debuginfo /usr/bin/bash", "the debuginfod-find example"),
		el("ul", { class: "links" }, links.map(([href, name, what]) =>
			el("li", {}, el("a", { href }, name), ` ${what}`))),
	);
}
