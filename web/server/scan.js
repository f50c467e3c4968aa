// SPDX-License-Identifier: Apache-2.0
// The panel "Scan": the number of packages that are mapped, whose headers are read, or that are unreadable; during a scan also its rate
// and the time left. Also the state line at the top of the page.
import { $, el, setText, swap } from "../dom.js";
import { bytes, clock, count, duration, number, percent, rate } from "../format.js";

const WINDOW_MS = 30000; // over which a rate is measured
const RATE_AFTER_MS = 2500;

const samples = []; // { at, files, headers, bytes }

function remember(scan) {
	const at = performance.now(), last = samples.at(-1);
	// A counter that has become smaller belongs to another walk or another process.
	if (last && (scan.bytes_done < last.bytes || scan.packages_headers < last.headers || scan.files_done < last.files))
		samples.length = 0;
	samples.push({ at, files: scan.files_done, headers: scan.packages_headers, bytes: scan.bytes_done });
	while (samples.length > 2 && at - samples[0].at > WINDOW_MS)
		samples.shift();
}

// The rate of one of the counters, per second; null: not known yet.
function rateOf(what) {
	const first = samples[0], last = samples.at(-1);
	return last.at - first.at < RATE_AFTER_MS ? null : (last[what] - first[what]) / (last.at - first.at) * 1000;
}

// The state line at the top: colour, short text, long text.
export function stateOf(status) {
	const [is, short, long] = stateOfScan(status), failed = status.index ? status.index.failed : 0;
	return [is, short, failed ? `${long}${long ? "; " : ""}${count(failed, "file")} could not be read` : long];
}

function stateOfScan(status) {
	const { scan, index } = status;
	if (!scan)
		return ["good", "Serving", ""];
	if (scan.passive)
		return ["good", "Serving", "the files that another process scans"];
	if (scan.idle && index && !index.files)
		return status.upstream ? ["good", "Serving", "files of upstream servers, and pushed files"]
			: status.store?.pushed.objects ? ["good", "Serving", "pushed files"] : ["wait", "Serving", "no files yet"];
	if (!scan.ready)
		return ["wait", "Starting", "the first walk is running; files that it has not reached yet are 404"];
	const waiting = index ? index.header_only : 0;
	if (!scan.idle && waiting)
		return ["work", "Serving", `${count(waiting, "package")} still to be scanned`];
	if (scan.walking)
		return ["work", "Serving", "looking for new files"];
	if (!scan.idle)
		return ["work", "Serving", "scanning new files"];
	return waiting
		? ["good", "Serving", `${count(waiting, "package")} will be scanned on the first request for a file in them`]
		: ["good", "Serving", "everything is scanned"];
}

const shares = [
	["mapped", "mapped", "Scanned completely: all their files are found by build ID and by path, and any part of a file is served at once."],
	["findable", "headers read", "Found by the build IDs in their headers (all of them in a debug package). Other files are found after their content is scanned."],
	["failed", "not readable", "See the list \"Unreadable files\" below."],
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

// A row with a progress bar.
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
			`${number(scan.files_done)} of ${number(scan.seen)} files found so far${speed === null ? "" : `, ${rate(speed)}`}`));
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
		return "done by another process";
	if (!scan.ready)
		return `first walk, for ${duration(scan.elapsed_ms)}`;
	if (!scan.idle)
		return scan.walking ? "walking" : scan.grooming ? "removing deleted files" : "scanning";
	return scan.worked_ms_ago === undefined
		? "idle, nothing new since the start"
		: `idle since ${clock(scan.worked_ms_ago)} (${duration(scan.worked_ms_ago)})`;
}

function said(scan, index) {
	if (scan.passive)
		return "This server does not scan. These numbers come from another process that writes to the same data directory.";
	if (index && !index.files && scan.ready)
		return "No file with a build ID was found. Check that the folder is the right one, and that the service may read it.";
	if (!scan.idle)
		return null;
	const walked = scan.walked_ms_ago === undefined ? "" : `The last walk ended ${duration(scan.walked_ms_ago)} ago. `;
	return `${walked}New, changed and deleted files are noticed automatically.`;
}

export function showScan(status) {
	const { scan, index } = status, body = $("scan-body");
	if (!scan) {
		setText($("scan-aside"), "off");
		return;
	}
	remember(scan);
	setText($("scan-aside"), aside(scan));
	const text = said(scan, index);
	swap(body, ...(index && index.packages ? coverage(index) : []), ...(scan.idle ? [] : passes(scan, index)),
		...(text ? [el("p", { class: "dim" }, text)] : []));
}
