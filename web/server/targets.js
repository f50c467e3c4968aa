// SPDX-License-Identifier: Apache-2.0
// The panel "Targets": programs whose profiles are pulled, with the last pull of each profile. Hidden without --scrape.
import { $, el, setText, swap, tableHead, visible } from "../dom.js";
import { bytes, count, duration, number } from "../format.js";

const AGAIN_MS = 10000, SHOWN = 50;
const shown = { at: -AGAIN_MS, asked: null };

const ago = (time) => time ? `${duration(Math.max(Date.now() - time, 0))} ago` : "never";
const took = (ms) => ms < 10000 ? `${number(ms)} ms` : duration(ms);

function next(profile) {
	return profile.running ? "now" : `in ${duration(Math.max(profile.next - Date.now(), 0))}`;
}

// One row for each profile; the target is the head of its rows.
function rows(target) {
	const labels = Object.entries(target.labels).map(([name, value]) => `${name}=${value}`).join(", ");
	return target.profiles.map((profile, i) => el("tr", {},
		i ? null : el("th", { scope: "rowgroup", rowspan: target.profiles.length, "data-name": "Target", class: "path" },
			el("bdi", {}, visible(target.url)), el("div", { class: "from" }, visible(labels))),
		el("td", { "data-name": "Profile" }, visible(profile.name)),
		el("td", { class: "when", "data-name": "Last stored" }, ago(profile.stored_at)),
		el("td", { class: "when", "data-name": "Next" }, next(profile)),
		el("td", { class: "number", "data-name": "Took" }, profile.start ? took(profile.duration) : ""),
		el("td", { class: "number", "data-name": "Samples" }, profile.stored ? number(profile.samples) : ""),
		el("td", { class: "number", "data-name": "Size" }, profile.stored ? bytes(profile.bytes) : ""),
		el("td", { "data-name": "Error" }, profile.error
			? el("div", {}, el("bdi", {}, visible(profile.error)), profile.failures > 1 ? ` (${number(profile.failures)} times)` : "") : "none")));
}

function fileNotes(files) {
	return files.filter((file) => file.error).map((file) =>
		el("p", {}, "The file ", el("bdi", {}, visible(file.file)), " is refused; its ", count(file.targets, "target"), " from before stay: ",
			el("bdi", {}, visible(file.error))));
}

function show({ files, targets, left_out: leftOut }) {
	const all = targets.length + leftOut, failing = targets.filter((target) => target.failing).length;
	$("targets").hidden = !files.length;
	setText($("targets-aside"), all ? `${count(all, "target")}${failing ? `, ${number(failing)} failing` : ""}` : "none");
	const more = all - Math.min(targets.length, SHOWN);
	swap($("targets-body"), ...fileNotes(files),
		all ? el("table", { class: "list" }, tableHead(["Target", "Profile", "Last stored", "Next", "#Took", "#Samples", "#Size", "Error"]),
			targets.slice(0, SHOWN).map((target) => el("tbody", {}, rows(target)))) : el("p", { class: "dim" }, "The files name no targets."),
		more ? el("p", { class: "dim" }, `${count(more, "more target")}: /api/targets has them.`) : "");
}

export async function showTargets() {
	if (performance.now() - shown.at < AGAIN_MS)
		return;
	shown.at = performance.now();
	shown.asked?.abort();
	shown.asked = new AbortController();
	try {
		const reply = await fetch("api/targets", { signal: shown.asked.signal });
		if (!reply.ok)
			throw new Error((await reply.text()).trim());
		show(await reply.json());
	} catch (error) {
		if (error.name !== "AbortError")
			setText($("targets-aside"), `cannot be loaded: ${error.message}`);
	}
}
