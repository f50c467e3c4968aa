// SPDX-License-Identifier: Apache-2.0
// The page: asks the server for its figures every few seconds, while somebody looks, and hands them to the panels.
import { startAddress } from "./address.js";
import { $, setText } from "./dom.js";
import { showFailures } from "./failures.js";
import { showIndexed, showRequests } from "./figures.js";
import { duration } from "./format.js";
import { showOthers } from "./others.js";
import { showScan, stateOf } from "./scan.js";
import { noteStatus, startSearch } from "./search.js";
import { showStore } from "./store.js";
import { showUse } from "./use.js";

const BUSY_MS = 2000, IDLE_MS = 5000, PATIENCE_MS = 15000, LOST_MAX_MS = 30000;

let timer, asking = false, lostSince = null, lostWait = IDLE_MS;

function showState(is, short, long) {
	$("state").dataset.is = is;
	setText($("state-short"), short);
	setText($("state-long"), long);
}

function show(status) {
	noteStatus(status);
	showState(...stateOf(status));
	setText($("about"), `version ${status.version}, up for ${duration(status.uptime_ms)}`);
	showScan(status);
	showIndexed(status);
	showRequests(status);
	showOthers(status);
	showStore(status);
	showFailures(status);
}

async function ask() {
	const reply = await fetch("api/status", { signal: AbortSignal.timeout(PATIENCE_MS) });
	if (!reply.ok)
		throw new Error(`status ${reply.status}`);
	return reply.json();
}

async function round() {
	clearTimeout(timer);
	if (asking || document.hidden)
		return;
	asking = true;
	let next = IDLE_MS;
	try {
		const status = await ask();
		lostSince = null;
		lostWait = IDLE_MS;
		document.body.classList.remove("stale");
		show(status);
		next = status.scan && !status.scan.idle ? BUSY_MS : IDLE_MS;
	} catch (error) {
		lostSince ??= performance.now();
		document.body.classList.add("stale");
		showState("bad", "No answer", `for ${duration(performance.now() - lostSince)}, ${error.message}; the figures below are old`);
		next = lostWait;
		lostWait = Math.min(LOST_MAX_MS, lostWait * 1.5);
	}
	asking = false;
	timer = setTimeout(round, next);
}

document.addEventListener("visibilitychange", round);
addEventListener("online", round);
showUse();
startSearch();
startAddress();
round();
