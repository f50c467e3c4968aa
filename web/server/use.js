// SPDX-License-Identifier: Apache-2.0
// The panel "Use this server": commands to copy, with the URL at which the browser reaches the server.
import { $, commandLine, el } from "../dom.js";
import { base } from "../format.js";

const links = [
	["metrics", "/metrics", "for Prometheus"],
	["healthz", "/healthz", "200 while the process runs"],
	["readyz", "/readyz", "200 after the first scan"],
	["api/status", "/api/status", "the data of this page"],
];

export function showUse() {
	const url = base();
	$("use-body").append(
		el("p", {}, "For gdb, perf, drgn, valgrind and all other debuginfod clients:"),
		commandLine(`export DEBUGINFOD_URLS=${url}`, "the line for this server alone"),
		el("p", {}, "or in addition to your other servers:"),
		commandLine(`export DEBUGINFOD_URLS="${url} $DEBUGINFOD_URLS"`, "the line for this server and others"),
		el("p", {}, "Then start a debugger, or fetch one file:"),
		commandLine("gdb -iex 'set debuginfod enabled on' /usr/bin/bash", "the gdb example"),
		commandLine("debuginfod-find debuginfo /usr/bin/bash", "the debuginfod-find example"),
		el("ul", { class: "links" }, links.map(([href, name, what]) =>
			el("li", {}, el("a", { href }, name), ` ${what}`))),
	);
}
