// SPDX-License-Identifier: Apache-2.0
// The search: a build ID leads to its files and commands to fetch them; a path or pattern leads to files with their build IDs. An empty
// result has reasons, and suggestions.
import { $, commandLine, copyButton, el, pathOf, visible } from "../dom.js";
import { base, bytes, count, shellWord } from "../format.js";
import { note, param, viewOf } from "../url.js";
import { alternatives, guesses, understand } from "./query.js";

const PAGE = 25;
const STATUS_MS = 3000; // how long to wait for the first status, which explains empty results

let asked = null;     // AbortController of the current search
let shown = null;     // text of the current search
let lastStatus = null, statusCame;
const haveStatus = Promise.race([new Promise((done) => { statusCame = done; }), new Promise((done) => setTimeout(done, STATUS_MS))]);
export function noteStatus(status) {
	lastStatus = status;
	statusCame();
}

/* ---- requests ---- */

class Refused extends Error {}

async function askMetadata(key, value, cursor, signal) {
	const query = new URLSearchParams({ key, value, limit: PAGE });
	if (cursor)
		query.set("cursor", cursor);
	const reply = await fetch(`metadata?${query}`, { signal });
	if (!reply.ok)
		throw new Refused((await reply.text()).trim() || `status ${reply.status}`);
	return reply.json();
}

// Names in headers are bytes of UTF-8, which browsers read as Latin-1.
const nameOf = (text) => text && new TextDecoder().decode(Uint8Array.from(text, (c) => c.charCodeAt(0)));

// { status, size, file, archive }; if the artifact is not available, { status, why }.
async function askArtifact(id, kind, signal, again = true) {
	const url = `buildid/${id}/${kind}`;
	const head = await fetch(url, { method: "HEAD", signal });
	if (head.ok)
		return { status: head.status, size: Number(head.headers.get("X-DEBUGINFOD-SIZE") ?? head.headers.get("Content-Length")),
			file: nameOf(head.headers.get("X-DEBUGINFOD-FILE")), archive: nameOf(head.headers.get("X-DEBUGINFOD-ARCHIVE")) };
	// The reason is in the body, and a reply to HEAD has none.
	const get = await fetch(url, { headers: { Range: "bytes=0-0" }, signal });
	if (get.ok) {
		get.body?.cancel();
		// It came meanwhile, or a proxy refuses HEAD.
		return again ? askArtifact(id, kind, signal, false) : { status: get.status, why: "This server has it, but a proxy in between refuses questions for its size." };
	}
	return { status: get.status, why: (await get.text()).trim() };
}

/* ---- links and words ---- */

function searchLink(query, text) {
	return el("a", { class: "mono", href: `?${new URLSearchParams({ view: "server", q: query })}`,
		click: (event) => {
			if (event.ctrlKey || event.metaKey || event.shiftKey)
				return;
			event.preventDefault();
			search(query, true);
		} }, text ?? visible(query));
}

function suggestions(text, queries) {
	return queries.length ? el("div", { class: "suggestions" }, el("span", {}, text),
		el("ul", {}, queries.map((query) => el("li", {}, searchLink(query))))) : null;
}

// A sentence about files that are not scanned yet; null if all are.
function stillUnknown() {
	const { scan, index } = lastStatus ?? {};
	if (scan && !scan.ready)
		return "The first walk is still running; files that it has not reached are missing here. Search again later.";
	if (index && index.header_only)
		return `${count(index.header_only, "package is", "packages are")} not scanned yet; ` +
			`${index.header_only === 1 ? "its" : "their"} files may be missing here.`;
	return null;
}

function failedHint() {
	const n = lastStatus?.index?.failed;
	return n ? el("li", {}, `${count(n, "file")} could not be read, and may contain it: see `, el("a", { href: "#failures" }, "the list"), ".") : null;
}

/* ---- a build ID ---- */

const kinds = [
	["debuginfo", "Debug information", ".debug"],
	["executable", "Executable", ""],
];

// A safe name for the download, from the first of @files that is not itself named by a build ID.
function fileName(files, id, suffix) {
	const names = files.map((file) => (file ?? "").split("/").pop().replace(/[^A-Za-z0-9._+@-]/g, "_").replace(/^[.-]+/, ""));
	const name = names.find((name) => name && !/^[0-9a-f]{16,}(\.debug)?$/.test(name)) ?? id.slice(0, 16);
	return name.endsWith(suffix) ? name : name + suffix;
}

function lineOfArchive(archive) {
	return archive ? el("div", { class: "from" }, "in ", pathOf(archive)) : null;
}

function artifactCells(id, [kind, , suffix], found, retry) {
	if (found.status < 300) {
		const name = fileName([found.file], id, suffix);
		return [
			el("td", { class: "number", "data-name": "Size" }, bytes(found.size)),
			el("td", { "data-name": "File" }, found.file ? pathOf(found.file) : "–", lineOfArchive(found.archive)),
			el("td", { class: "acts" }, el("a", { class: "button", href: `buildid/${id}/${kind}`, download: name }, "Download")),
		];
	}
	const missing = found.status === 404;
	return [
		el("td", { class: "number none" }),
		el("td", { "data-name": missing ? "Not here" : "Not now" },
			el("span", { class: missing ? "none" : "bad" }, visible(found.why || (missing ? "not here" : `status ${found.status}`)))),
		el("td", { class: "acts" }, missing ? null : el("button", { type: "button", click: retry }, "Try again")),
	];
}

function commandsFor(id, found) {
	const lines = [], url = base();
	for (const [kind, name, suffix] of kinds)
		if (found[kind]?.status < 300)
			lines.push(commandLine(`curl -fo ${shellWord(fileName([found[kind].file, found.executable?.file], id, suffix))} ${url}buildid/${id}/${kind}`,
				`the curl command for ${name.toLowerCase()}`));
	if (!lines.length)
		return [];
	const first = found.debuginfo?.status < 300 ? "debuginfo" : "executable";
	lines.unshift(commandLine(`DEBUGINFOD_URLS=${url} debuginfod-find ${first} ${id}`, "the debuginfod-find command"));
	const section = first === "debuginfo" ? ".debug_line" : ".text";
	lines.push(commandLine(`curl -fo ${section.slice(1)} ${url}buildid/${id}/section/${section}`, "the curl command for one section"));
	return [el("h3", {}, "Commands"), ...lines];
}

function adviceForId(id, found) {
	const hints = [];
	if (Object.values(found).some((f) => f.status < 300))
		return null;
	if (Object.values(found).some((f) => f.status !== 404))
		return null;
	const unknown = stillUnknown();
	if (unknown)
		hints.push(el("li", {}, unknown));
	if (id.length < 40)
		hints.push(el("li", {}, `It has ${id.length} digits; most build IDs have 40, and only complete ones are found.`));
	hints.push(failedHint());
	hints.push(el("li", {}, "If you have the file, compare the ID with ", el("code", {}, "readelf -n FILE"), ": a program that was built again has another build ID."));
	hints.push(el("li", {}, "Search for its path: another version may be here."));
	return el("div", { class: "note" }, el("p", {}, el("strong", {}, "This build ID is not here.")), el("ul", {}, hints.filter(Boolean)));
}

async function showId(id, box, signal) {
	const body = el("tbody", {}), places = el("div", {}), commands = el("div", { class: "commands" }), advice = el("div", {});
	const found = {};
	box.replaceChildren(el("h2", {}, "Build ID ", el("span", { class: "mono" }, id), " ", copyButton(id, "the build ID")),
		el("table", { class: "list artifacts" }, body), advice, commands, places);
	const askOne = async (kind, row) => {
		const slow = setTimeout(() => row.lastElementChild.replaceChildren("Its package is being scanned…"), 1500);
		const retry = () => {
			row.replaceChildren(row.firstElementChild, el("td", { class: "dim", colspan: 3 }, "Loading…"));
			askOne(kind, row);
		};
		try {
			found[kind[0]] = await askArtifact(id, kind[0], signal);
			row.replaceChildren(row.firstElementChild, ...artifactCells(id, kind, found[kind[0]], retry));
		} catch (error) {
			if (signal.aborted)
				return;
			row.replaceChildren(row.firstElementChild, ...artifactCells(id, kind, { status: 0, why: `The server does not answer: ${error.message}` }, retry));
		} finally {
			clearTimeout(slow);
		}
		await haveStatus;
		if (!signal.aborted) {
			commands.replaceChildren(...commandsFor(id, found));
			advice.replaceChildren(...(Object.keys(found).length === kinds.length ? [adviceForId(id, found)].filter(Boolean) : []));
		}
	};
	const asking = kinds.map((kind) => {
		const row = el("tr", {}, el("th", { scope: "row" }, kind[1]), el("td", { class: "dim", colspan: 3 }, "Loading…"));
		body.append(row);
		return askOne(kind, row);
	});
	// All places with this build ID; shown only if there are more than the artifacts above.
	asking.push(showList("buildid", id, places, signal, false));
	places.hidden = true;
	await Promise.all(asking);
	const above = Object.values(found).filter((f) => f.status < 300).length;
	places.hidden = places.querySelectorAll("tbody tr").length <= above;
}

/* ---- files ---- */

function resultRow(result, withId) {
	const debug = result.type === "debuginfo";
	return el("tr", {},
		el("td", { "data-name": "File" }, pathOf(result.file), lineOfArchive(result.archive)),
		el("td", { "data-name": "Kind", class: "nowrap" }, debug ? "debug file" : "executable"),
		withId ? el("td", { "data-name": "Build ID", class: "id" }, searchLink(result.buildid)) : null,
		withId ? el("td", { class: "acts" }, el("a", { class: "button", href: `buildid/${result.buildid}/${result.type}`,
			download: fileName([result.file], result.buildid, debug ? ".debug" : ""),
			"aria-label": `Download ${visible(result.file)}` }, "Download")) : null);
}

function nothingAt(key, value) {
	const hints = [], unknown = stillUnknown();
	if (unknown)
		hints.push(el("li", {}, unknown));
	if (key === "glob")
		hints.push(el("li", {}, "A wildcard does not match a slash: ", el("code", {}, "/usr/lib/*/libc.so*"), " has one for each folder."));
	hints.push(el("li", {}, "Executables, libraries, kernel modules and debug files with a build ID are listed. " +
		"Source files are served by build ID, but not listed."));
	hints.push(failedHint());
	return el("div", { class: "note" },
		el("p", {}, el("strong", {}, key === "glob" ? "No file here matches this pattern." : "No file here has this path.")),
		el("ul", {}, hints.filter(Boolean)), suggestions("Try", alternatives(value)));
}

// A list in pages. @alone: it is the only result, so an empty list needs an explanation.
async function showList(key, value, box, signal, alone) {
	const rows = el("tbody", {}), said = el("p", { class: "dim", role: "status" }), none = el("div", {});
	const names = alone ? ["File", "Kind", "Build ID", ""] : ["File", "Kind"];
	const table = el("table", { class: "list" }, el("thead", {}, el("tr", {}, names.map((name) => el("th", { scope: "col" }, name)))), rows);
	const more = el("button", { type: "button", class: "more", hidden: true, click: () => load() }, "Show more");
	let cursor = null;

	table.hidden = true;
	box.append(...(alone ? [] : [el("h3", { hidden: true }, "All places with this build ID")]), table, none, said, more);
	const load = async () => {
		more.disabled = true;
		if (alone)
			said.textContent = "Searching…";
		try {
			const page = await askMetadata(key, value, cursor, signal);
			await haveStatus;
			signal.throwIfAborted();
			const first = rows.childElementCount;
			rows.append(...page.results.map((result) => resultRow(result, alone)));
			if (cursor && rows.children[first])
				rows.children[first].querySelector("a")?.focus();
			cursor = page.next ?? null;
			const n = rows.childElementCount;
			table.hidden = !n;
			if (!alone)
				box.firstElementChild.hidden = !n;
			more.hidden = !cursor;
			more.textContent = n ? "Show more" : "Continue searching";
			const unknown = !cursor && !page.complete ? stillUnknown() : null;
			if (n)
				said.textContent = alone || cursor ? `${count(n, "result")}${cursor ? " so far" : ""}.${unknown ? ` ${unknown}` : ""}` : "";
			else
				said.textContent = cursor ? "No results so far." : "";
			none.replaceChildren(...(alone && !n && !cursor ? [nothingAt(key, value)] : []));
		} catch (error) {
			if (signal.aborted)
				return;
			said.textContent = error instanceof Refused ? `The server refused the search: ${visible(error.message)}` : `The server does not answer: ${error.message}`;
			more.hidden = false;
			more.textContent = "Try again";
		}
		more.disabled = false;
	};
	await load();
}

async function showFiles(key, value, box, signal) {
	box.replaceChildren(el("h2", {}, key === "glob" ? "Files that match " : "Files at ", el("bdi", { class: "mono" }, visible(value))));
	await showList(key, value, box, signal, true);
}

function showWord(word, box) {
	box.replaceChildren(el("div", { class: "note" },
		el("p", {}, el("strong", {}, "This is neither a build ID nor a path.")),
		el("p", {}, "A build ID has at least 8 digits 0-9 a-f; a path begins with a slash."),
		suggestions("Try", guesses(word))));
}

/* ---- */

// @push: make an entry in the browser's history.
export async function search(typed, push) {
	const box = $("results"), meant = understand(typed);
	asked?.abort();
	asked = new AbortController();
	$("query").value = typed;
	shown = typed.trim();
	if (push)
		note({ view: "server", q: meant ? shown : null }, true);
	box.hidden = !meant;
	box.setAttribute("aria-busy", "true");
	document.title = meant ? `${typed.trim()} – lode` : `Server – lode`;
	switch (meant?.kind) {
	case undefined:
		box.replaceChildren();
		break;
	case "id":
		await showId(meant.id, box, asked.signal);
		break;
	case "file":
	case "glob":
		await showFiles(meant.kind, meant.value, box, asked.signal);
		break;
	case "word":
		showWord(meant.value, box);
		break;
	case "bad":
		box.replaceChildren(el("div", { class: "note" }, el("p", {}, meant.why)));
		break;
	}
	box.setAttribute("aria-busy", "false");
}

export function startSearch() {
	$("search").addEventListener("submit", (event) => {
		event.preventDefault();
		search($("query").value, true);
	});
	addEventListener("keydown", (event) => {
		if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || viewOf() !== "server" || event.target.closest("input, textarea"))
			return;
		event.preventDefault();
		$("query").focus();
		$("query").select();
	});
}

// Search for the text in the URL.
export function followSearch() {
	const typed = param("q");
	if (typed === shown) {
		if (typed)
			document.title = `${typed} – lode`;
		return;
	}
	search(typed, false);
	if (!document.activeElement || document.activeElement === document.body)
		$("query").focus();
}
