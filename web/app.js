// SPDX-License-Identifier: Apache-2.0
// The page: shows the view that the URL names, and polls the server's status every few seconds while the page is visible.
import { hideDebug, showDebug } from "./debug/binaries.js";
import { $, setText } from "./dom.js";
import { hideExplore, showExplore } from "./explore/explore.js";
import { duration } from "./format.js";
import { startMenus } from "./menu.js";
import { stateOf } from "./server/scan.js";
import { showServer, showStatus, startServer } from "./server/server.js";
import { onUrl, params, startUrl, viewOf } from "./url.js";

const BUSY_MS = 2000, IDLE_MS = 5000, PATIENCE_MS = 15000, LOST_MAX_MS = 30000;

let timer, asking = false, lostSince = null, lostWait = IDLE_MS;

function showState(is, short, long) {
	$("state").dataset.is = is;
	setText($("state-short"), short);
	setText($("state-long"), long);
}

function show(status) {
	showState(...stateOf(status));
	setText($("about"), `version ${status.version}, up for ${duration(status.uptime_ms)}`);
	showStatus(status);
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
		showState("bad", "No answer", `for ${duration(performance.now() - lostSince)}, ${error.message}; the figures below are out of date`);
		next = lostWait;
		lostWait = Math.min(LOST_MAX_MS, lostWait * 1.5);
	}
	asking = false;
	timer = setTimeout(round, next);
}

/* ---- views ---- */

const views = {
	explore: { title: "Explore", show: showExplore, hide: hideExplore },
	debug: { title: "Debug information", show: showDebug, hide: hideDebug },
	server: { title: "Server", show: showServer },
};
// Parameters that are kept when the view changes.
const SHARED = ["query", "from", "to"];
let shown = null;

function showView() {
	const asked = viewOf(), name = Object.hasOwn(views, asked) ? asked : "explore", view = views[name];
	for (const [other, { hide }] of Object.entries(views)) {
		$(`view-${other}`).hidden = other !== name;
		if (other === shown && other !== name)
			hide?.();
	}
	shown = name;
	const kept = new URLSearchParams([...params()].filter(([key]) => SHARED.includes(key)));
	for (const link of document.querySelectorAll(".views a")) {
		const to = new URLSearchParams(kept);
		if (link.dataset.view !== "explore")
			to.set("view", link.dataset.view);
		link.href = to.size ? `?${to}` : "./";
		if (link.dataset.view === name)
			link.setAttribute("aria-current", "page");
		else
			link.removeAttribute("aria-current");
	}
	document.body.classList.toggle("wide-view", name !== "server");
	document.title = `${view.title} – lode`;
	view.show();
}

/* ---- */

startUrl();
startMenus();
startServer();
onUrl(showView);
showView();
document.addEventListener("visibilitychange", () => {
	round();
	if (!document.hidden)
		views[shown].show();
});
addEventListener("online", round);
round();
