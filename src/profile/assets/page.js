// SPDX-License-Identifier: Apache-2.0
// The flame graph page: the tree in #data, drawn by the same modules as on the server's page, which stand before this in the same script; a table of its
// functions. Names only become text.
import { colourNodes } from "../../../web/flame/colour.js";
import { FlameGraph } from "../../../web/flame/graph.js";
import { FlameModel } from "../../../web/flame/model.js";
import { shareText, valueText } from "../../../web/flame/value.js";

const FIRST_ROWS = 200, MORE_ROWS = 1000;
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);

// A node is [parent, frame, total, self, flags] and, in a comparison, the base's total and self; a frame is [name, file, line, binary].
function read() {
	const { nodes, frames, compares } = data, column = (Type, i) => Type.from(nodes, (node) => node[i]), of = (i, none) => frames.map((f) => f ? f[i] : none);
	return new FlameModel({
		n: nodes.length, parent: column(Int32Array, 0), frame: column(Int32Array, 1), total: column(Float64Array, 2), self: column(Float64Array, 3), inlined: column(Uint8Array, 4),
		baseTotal: compares ? column(Float64Array, 5) : null, baseSelf: compares ? column(Float64Array, 6) : null,
	}, { name: of(0, ""), file: of(1, ""), line: of(2, 0), binary: of(3, "") }, data.unit, data.type);
}

const model = read(), { frames, unit } = model, whole = model.total[0];
let sort = "self", shown = FIRST_ROWS, matches = null;

function textOf(node) {
	const f = model.frame[node], total = `${valueText(model.total[node], unit)}, ${shareText(model.total[node], whole)}`;
	const parts = [`${model.name(node)}: ${total}`, `itself ${valueText(model.self[node], unit)}`];
	if (model.compares)
		parts.push(`before ${valueText(model.baseTotal[node], unit)}, ${shareText(model.baseTotal[node], model.baseTotal[0])}`);
	if (model.inlined[node])
		parts.push("inlined");
	if (f >= 0 && frames.file[f])
		parts.push(frames.file[f] + (frames.line[f] ? `:${frames.line[f]}` : ""));
	if (f >= 0 && frames.binary[f])
		parts.push(frames.binary[f]);
	return parts.join("; ");
}

const graph = new FlameGraph($("graph"), {
	label: (node) => node ? model.name(node) : data.title, text: textOf,
	hovered: (node) => { $("said").textContent = textOf(node >= 0 ? node : graph.chosen); },
	chosen: (node) => { $("said").textContent = textOf(node); },
	zoomed: (node) => { $("reset").hidden = !node; },
});

/* ---- the table ---- */

// A frame that is below itself counts once: `on` is how often the path to a node has it.
function collect() {
	const { n, frame, depth, self, total, baseSelf } = model, rows = new Map(), on = new Uint32Array(model.nFrames), path = [];
	for (let i = 1; i < n; i++) {
		while (path.length && depth[path.at(-1)] >= depth[i])
			on[frame[path.pop()]]--;
		const f = frame[i];
		if (!rows.has(f))
			rows.set(f, { f, self: 0, total: 0, base: 0 });
		const row = rows.get(f);
		row.self += self[i];
		row.base += baseSelf?.[i] ?? 0;
		if (!on[f]++)
			row.total += total[i];
		path.push(i);
	}
	return [...rows.values()];
}

const rows = collect();

function table() {
	const list = rows.filter((row) => !matches || matches[row.f]).sort((a, b) => b[sort] - a[sort]);
	$("rows").replaceChildren(...list.slice(0, shown).map((row) => {
		const tr = document.createElement("tr"), { f } = row, file = frames.file[f];
		for (const text of [valueText(row.self, unit), shareText(row.self, whole), valueText(row.total, unit), shareText(row.total, whole), valueText(row.base, unit),
			frames.name[f], file ? file + (frames.line[f] ? `:${frames.line[f]}` : "") : frames.binary[f]])
			tr.append(Object.assign(document.createElement("td"), { textContent: text }));
		tr.children[4].className = "base";
		return tr;
	}));
	$("more").hidden = list.length <= shown;
	for (const button of document.querySelectorAll("[data-sort]")) {
		if (button.dataset.sort === sort)
			button.parentNode.setAttribute("aria-sort", "descending");
		else
			button.parentNode.removeAttribute("aria-sort");
	}
}

/* ---- what can be changed ---- */

function search() {
	let pattern = null, found = null;
	$("found").textContent = "";
	try {
		pattern = $("search").value ? new RegExp($("search").value, "i") : null;
	} catch {
		$("found").textContent = "not a regular expression";
	}
	if (pattern) {
		found = model.search(pattern);
		$("found").textContent = `${found.frames} found, ${shareText(found.value, whole)}`;
	}
	matches = found && found.yes;
	graph.setHits(found && found.hits);
	table();
}

const colours = () => colourNodes(model, $("colour").value).ofNode;

$("title").textContent = data.title;
$("total").textContent = `${data.type}: ${valueText(whole, unit)}${model.compares ? `, before ${valueText(model.baseTotal[0], unit)}` : ""}${
	data.left_out ? `; ${data.left_out.toLocaleString("en-US")} calls are too small for this page, and missing in the sums of the table` : ""}`;
document.body.classList.toggle("compares", model.compares);
$("by-change").hidden = !model.compares;
$("colour").value = model.compares ? "diff" : "function";
$("controls").addEventListener("submit", (event) => event.preventDefault());
$("search").addEventListener("input", search);
$("icicle").addEventListener("change", () => graph.setUp(!$("icicle").checked));
$("colour").addEventListener("change", () => graph.setColours(colours()));
$("reset").addEventListener("click", () => graph.zoom(0));
$("more").addEventListener("click", () => { shown += MORE_ROWS; table(); });
for (const button of document.querySelectorAll("[data-sort]"))
	button.addEventListener("click", () => { sort = button.dataset.sort; table(); });
graph.up = true;
graph.show(model, colours());
table();
