// SPDX-License-Identifier: Apache-2.0
// How far the scan is: of how many packages the content or the headers were read, or neither could be; and while it works, how fast and how
// long still.
import { $, el, setText, swap } from "../dom.js";
import { bytes, clock, count, duration, number, percent, rate } from "../format.js";

const WINDOW_MS = 30000; // over which a rate is measured
const RATE_AFTER_MS = 2500;

const samples = []; // { at, files, headers, bytes }

function remember(scan) {
	const at = performance.now(), last = samples.at(-1);
	// Counters that fell: another walk, or another process.
	if (last && (scan.bytes_done < last.bytes || scan.packages_headers < last.headers || scan.files_done < last.files))
		samples.length = 0;
	samples.push({ at, files: scan.files_done, headers: scan.packages_headers, bytes: scan.bytes_done });
	while (samples.length > 2 && at - samples[0].at > WINDOW_MS)
		samples.shift();
}

// Of one of the counters, a second. null: not known yet.
function rateOf(what) {
	const first = samples[0], last = samples.at(-1);
	return last.at - first.at < RATE_AFTER_MS ? null : (last[what] - first[what]) / (last.at - first.at) * 1000;
}

// What the state line at the top says: its colour, in short, in long.
export function stateOf(status) {
	const [is, short, long] = stateOfScan(status), failed = status.index ? status.index.failed : 0;
	return [is, short, failed ? `${long}${long ? "; " : ""}${count(failed, "file")} could not be read` : long];
}

function stateOfScan(status) {
	const { scan, index } = status;
	if (!scan)
		return ["good", "Serving", ""];
	if (scan.passive)
		return ["good", "Serving", "what another process scans"];
	if (scan.idle && index && !index.files)
		return status.upstream ? ["good", "Serving", "what other servers have, and what is pushed"]
			: status.store?.pushed.objects ? ["good", "Serving", "what was pushed"] : ["wait", "Serving", "nothing yet"];
	if (!scan.ready)
		return ["wait", "Starting", "the first walk runs: what it has not met yet is answered with 404"];
	const waiting = index ? index.header_only : 0;
	if (!scan.idle && waiting)
		return ["work", "Serving", `${count(waiting, "package")} still to be looked into`];
	if (scan.walking)
		return ["work", "Serving", "looking for what is new"];
	if (!scan.idle)
		return ["work", "Serving", "scanning what is new"];
	return waiting
		? ["good", "Serving", `${count(waiting, "package")} will be looked into when something of them is asked for`]
		: ["good", "Serving", "everything is scanned"];
}

const shares = [
	["mapped", "mapped", "Their content was read once: whatever they hold is found by build ID and by path, and any part of it comes at once."],
	["findable", "headers read", "What their headers name (all build IDs of a debug package) is found. The rest is known when their content was read."],
	["failed", "not readable", "See the list below."],
];

function coverage(index) {
	const parts = {
		mapped: index.scanned, findable: index.header_only,
		failed: Math.max(0, index.packages - index.scanned - index.header_only),
	};
	const bar = el("div", {
		class: "coverage", role: "img",
		"aria-label": `Of ${count(index.packages, "package")}: ${shares.map(([key, name]) => `${number(parts[key])} ${name}`).join(", ")}`,
	});
	const legend = el("ul", { class: "legend" });
	for (const [key, name, hint] of shares) {
		if (!parts[key] && key === "failed")
			continue;
		if (parts[key]) {
			const piece = el("span", { class: key });
			piece.style.flexGrow = String(parts[key]);
			bar.append(piece);
		}
		legend.append(el("li", { title: hint }, el("span", { class: `key ${key}`, "aria-hidden": "true" }),
			el("strong", {}, number(parts[key])), ` ${name}`, el("span", { class: "dim" }, ` ${percent(parts[key], index.packages)}`)));
	}
	return [bar, legend];
}

// A row of something that has an end.
function pass(name, done, total, text) {
	const shown = Math.min(done, total);
	return el("div", { class: "pass" }, el("span", { class: "name" }, name),
		el("progress", { max: Math.max(1, total), value: shown, "aria-label": `${name}: ${percent(shown, total)}` }),
		el("span", { class: "said" }, text));
}

function passes(scan, index) {
	const rows = [];
	if (scan.walking) {
		const speed = rateOf("files");
		rows.push(pass("Walk", scan.files_done, scan.seen,
			`${number(scan.files_done)} of ${number(scan.seen)} files met so far${speed === null ? "" : `, ${rate(speed)}`}`));
	}
	if (scan.packages_headers < scan.packages) {
		const speed = rateOf("headers");
		rows.push(pass("Headers", scan.packages_headers, scan.packages,
			`${number(scan.packages_headers)} of ${count(scan.packages, "package")}${speed ? `, ${rate(speed)}` : ""}`));
	}
	if (index && index.header_only && scan.bytes_total) {
		const speed = rateOf("bytes"), left = Math.max(0, scan.bytes_total - scan.bytes_done);
		rows.push(pass("Contents", scan.bytes_done, scan.bytes_total,
			`${bytes(Math.min(scan.bytes_done, scan.bytes_total))} of ${bytes(scan.bytes_total)}` +
			(speed ? `, ${bytes(speed)}/s, ${scan.walking ? "at least" : "about"} ${duration(left / speed * 1000)} left` : "")));
	}
	return rows;
}

function aside(scan) {
	if (scan.passive)
		return "another process scans";
	if (!scan.ready)
		return `first walk, for ${duration(scan.elapsed_ms)}`;
	if (!scan.idle)
		return scan.walking ? "walking" : scan.grooming ? "dropping what is gone" : "at work";
	return scan.worked_ms_ago === undefined
		? "idle, nothing new since the start"
		: `idle since ${clock(scan.worked_ms_ago)} (${duration(scan.worked_ms_ago)})`;
}

function said(scan, index) {
	if (scan.passive)
		return "This server scans nothing. Its figures follow what another process writes into the same data directory.";
	if (index && !index.files && scan.ready)
		return "Nothing was found that has a build ID. Is it the right folder, and may the service read it?";
	if (!scan.idle)
		return null;
	const walked = scan.walked_ms_ago === undefined ? "" : `The last walk ended ${duration(scan.walked_ms_ago)} ago. `;
	return `${walked}What comes, changes or goes is noticed by itself.`;
}

export function showScan(status) {
	const { scan, index } = status, body = $("scan-body");
	if (!scan) {
		setText($("scan-aside"), "nothing is scanned here");
		return;
	}
	remember(scan);
	setText($("scan-aside"), aside(scan));
	const text = said(scan, index);
	swap(body, ...(index && index.packages ? coverage(index) : []), ...(scan.idle ? [] : passes(scan, index)),
		...(text ? [el("p", { class: "dim" }, text)] : []));
}
