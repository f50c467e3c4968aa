// SPDX-License-Identifier: Apache-2.0
// What is said where there is nothing to see yet: how a first profile is sent, with lines to copy; where to look if there is something elsewhere.
import { commandLine, el } from "../dom.js";
import { base } from "../format.js";
import { linkTo } from "../url.js";
import { presets } from "./selection.js";

export function firstProfile() {
	const url = base(), to = url.replace(/\/$/, "");
	return el("div", { class: "empty" },
		el("h2", {}, "No profile has come in yet"),
		el("p", {}, "Send one, and it shows here at once. Addresses without names are named behind, with debug information that this server has or finds."),
		el("h3", {}, "Something to look at, in a minute"),
		commandLine(`lode demo --to ${to}`, "the demo command"),
		el("h3", {}, "A program, by perf"),
		commandLine("perf record -F 99 -g -o perf.data -- COMMAND", "the perf record command"),
		commandLine(`perf script -i perf.data | curl --data-binary @- '${url}profiles?service=NAME'`, "the command that sends it"),
		el("h3", {}, "Any pprof file, from Go, gperftools, jemalloc and others"),
		commandLine(`curl --data-binary @profile.pb.gz '${url}profiles?service=NAME'`, "the curl command"),
		commandLine(`curl -s localhost:6060/debug/pprof/profile?seconds=10 | curl --data-binary @- '${url}profiles?service=NAME'`, "the command for a Go program"),
		el("p", { class: "dim" }, "Labels are what follows the question mark: as many as you like. This page looks again by itself."));
}

export const notHere = () => el("div", { class: "empty" }, el("h2", {}, "This server takes no profiles"),
	el("p", {}, "It serves debug information. See ", el("a", { href: "?view=server" }, "what it has"), "."));

// @filtered: labels or filters may be what leaves nothing.
export function nothingInRange(filtered) {
	const choice = (changes, text) => el("li", {}, el("a", { class: "button", href: linkTo(changes) }, text));
	return el("div", { class: "empty" }, el("h2", {}, "Nothing in this selection"),
		el("p", {}, filtered ? "No profile of this range has these labels, or no sample passes the filters." : "Profiles have come in, but none of this type in this range."),
		el("ul", { class: "choices" }, presets.slice(1).map(([from, text]) => choice({ from, to: null, at: null, profile: null }, text)),
			filtered && choice({ focus: null, ignore: null, hide: null, show: null, label: null, query: filtered.type }, "Without labels and filters")));
}
