// SPDX-License-Identifier: Apache-2.0
// Colours of nodes. A node has the number of a colour, and the light or dark palette defines it. There are few colours, so that all nodes of
// one colour are drawn together.

const HUES = [250, 55, 155, 320, 95, 200, 25, 285, 125, 350, 225, 75, 175, 300, 110, 5];
const STEPS = 10, FULL = 2; // shades of a change in each direction; factor by which a change saturates early
const PLAIN = HUES.length, NAMELESS = PLAIN + 1, DIFF = NAMELESS + 1, FOUND = DIFF + 2 * STEPS + 1, FADED = FOUND + 1;

export const N_COLOURS = 2 * FADED;
// The colour of nodes that are too narrow to be drawn one by one.
export const DUST = PLAIN;

function paletteOf(dark) {
	const colours = [];
	for (const faded of [false, true]) {
		const light = dark ? (faded ? 0.27 : 0.43) : (faded ? 0.95 : 0.86), strength = faded ? 0.3 : 1;
		for (const hue of HUES)
			colours.push(`oklch(${light} ${(dark ? 0.075 : 0.072) * strength} ${hue})`);
		colours.push(`oklch(${dark ? light - 0.07 : light} 0.012 240)`, `oklch(${dark ? light - 0.1 : light + 0.05} 0.004 240)`);
		for (let i = -STEPS; i <= STEPS; i++) {
			const a = Math.abs(i) / STEPS;
			colours.push(`oklch(${dark ? light - 0.08 + 0.14 * a : light + 0.06 - 0.16 * a} ${(0.005 + 0.13 * a) * strength} ${i > 0 ? 28 : 255})`);
		}
		colours.push(dark ? "oklch(0.52 0.16 330)" : "oklch(0.83 0.13 330)");
	}
	return colours;
}

const palettes = [paletteOf(false), paletteOf(true)];
export const paletteFor = (dark) => palettes[dark ? 1 : 0];
export const inkFor = (dark) => dark ? { text: "#f2f5f7", faded: "#8b969f", mark: "rgba(255,255,255,0.34)", edge: "#ffffff" }
	: { text: "#10181f", faded: "#6b7680", mark: "rgba(16,24,31,0.36)", edge: "#10181f" };

function hashOf(text) {
	let h = 2166136261;
	for (let i = 0; i < text.length; i++)
		h = Math.imul(h ^ text.charCodeAt(i), 16777619);
	return (h ^ h >>> 15) >>> 0;
}

// The keys with the largest sums get hues of their own, the rest share the plain colour.
function byShare(model, keys) {
	const ofFrame = new Float64Array(keys.length), sums = new Map();
	for (let i = 0; i < model.n; i++)
		if (model.frame[i] >= 0)
			ofFrame[model.frame[i]] += model.self[i] + (model.baseSelf?.[i] ?? 0);
	keys.forEach((key, f) => sums.set(key, (sums.get(key) ?? 0) + ofFrame[f]));
	const ranked = [...sums].filter(([key]) => key).sort((a, b) => b[1] - a[1]).slice(0, HUES.length);
	const colourOf = new Map(ranked.map(([key], i) => [key, i]));
	return { colours: Uint8Array.from(keys, (key) => colourOf.get(key) ?? PLAIN), legend: ranked.map(([key, value], i) => ({ key, value, colour: i })) };
}

// Return each node's colour number and the legend. If @model is a part of a tree, @whole is the tree whose shares choose the hues.
export function colourNodes(model, by, whole = model) {
	const { frames } = model, ofNode = new Uint8Array(model.n);
	if (by === "diff" && model.compares) {
		const all = model.total[0], was = model.baseTotal[0];
		for (let i = 0; i < model.n; i++) {
			const a = all ? model.total[i] / all : 0, b = was ? model.baseTotal[i] / was : 0;
			ofNode[i] = DIFF + STEPS + (a + b > 0 ? Math.round(Math.max(-1, Math.min(1, FULL * (a - b) / (a + b))) * STEPS) : 0);
		}
		return { ofNode, legend: [{ key: "less than before", colour: DIFF }, { key: "the same", colour: DIFF + STEPS }, { key: "more", colour: DIFF + 2 * STEPS }] };
	}
	const found = by === "file" ? byShare(whole, frames.file) : by === "function"
		? { colours: Uint8Array.from(frames.name, (name) => hashOf(name) % HUES.length), legend: [] } : byShare(whole, frames.binary);
	for (let i = 0; i < model.n; i++)
		ofNode[i] = model.frame[i] < 0 ? PLAIN : model.unnamed(i) ? NAMELESS : found.colours[model.frame[i]];
	return { ofNode, legend: found.legend };
}

// Highlight found nodes and fade the others. @hits null: no search.
export function markFound(ofNode, hits) {
	return hits ? ofNode.map((colour, i) => hits[i] ? FOUND : colour + FADED) : ofNode;
}

export const isFaded = (colour) => colour >= FADED;
