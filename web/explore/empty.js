// SPDX-License-Identifier: Apache-2.0
// Texts for an empty view: how to send a first profile, with commands to copy, or which other selections have profiles.
import { commandLine, el } from "../dom.js";
import { base } from "../format.js";
import { linkTo } from "../url.js";
import { presets } from "./selection.js";

export function firstProfile() {
	const url = base(), to = url.replace(/\/$/, "");
	return el("div", { class: "empty" },
		el("h2", {}, "No profiles yet"),
		el("p", {}, "Send one, and it appears here at once. Names of addresses follow, from debug information that this server has or finds."),
		el("h3", {}, "Demo profiles, in a minute"),
		commandLine(`lode demo --to ${to}`, "the demo command"),
		el("h3", {}, "A program, recorded with perf"),
		commandLine("perf record -F 99 -g -o perf.data -- COMMAND", "the perf record command"),
		commandLine(`perf script -i perf.data | curl --data-binary @- '${url}profiles?service=NAME'`, "the command that sends it"),
		el("h3", {}, "Any pprof file, from Go, gperftools, jemalloc and others"),
		commandLine(`curl --data-binary @profile.pb.gz '${url}profiles?service=NAME'`, "the curl command"),
		commandLine(`curl -s localhost:6060/debug/pprof/profile?seconds=10 | curl --data-binary @- '${url}profiles?service=NAME'`, "the command for a Go program"),
		el("p", { class: "dim" }, "The parameters after the question mark become labels; there may be several. This page updates itself."));
}

export const notHere = () => el("div", { class: "empty" }, el("h2", {}, "This server does not store profiles"),
	el("p", {}, "It serves debug information. See the view ", el("a", { href: "?view=server" }, "Server"), "."));

// @filtered: { type } if labels or filters may be the reason for the empty selection, else null.
export function nothingInRange(filtered) {
	const choice = (changes, text) => el("li", {}, el("a", { class: "button", href: linkTo(changes) }, text));
	return el("div", { class: "empty" }, el("h2", {}, "No profiles in this selection"),
		el("p", {}, filtered ? "No profile in this time range has these labels, or no sample passes the filters." : "There are profiles, but none of this type in this time range."),
		el("ul", { class: "choices" }, presets.slice(1).map(([from, text]) => choice({ from, to: null, at: null, profile: null }, text)),
			filtered && choice({ focus: null, ignore: null, hide: null, show: null, label: null, query: filtered.type }, "Without labels and filters")));
}
