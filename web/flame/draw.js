// SPDX-License-Identifier: Apache-2.0
// Draws the visible part of a tree on a canvas. Rows are sorted, so a binary search skips from one node of at least a pixel to the next.
// All narrower nodes within a pixel are drawn as one pixel ("dust"). The work depends on the size of the canvas, not on the number of nodes.
import { DUST, N_COLOURS, inkFor, isFaded, paletteFor } from "./colour.js";

export const ROW = 19;
const LETTERS_FROM = 26; // minimum width in pixels for a name
const FONT = "12px ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace";
const PAD = 4;

export class Painter {
	constructor() {
		this.room = 0;
		this.first = new Int32Array(N_COLOURS);
		this.drawn = 0;
	}

	makeRoom(n) {
		if (n <= this.room)
			return;
		this.room = n;
		this.node = new Int32Array(n);
		this.x = new Int16Array(n);
		this.w = new Int16Array(n);
		this.y = new Int32Array(n);
		this.next = new Int32Array(n);
	}

	add(node, x, w, y, colour) {
		const i = this.drawn++;
		this.node[i] = node;
		this.x[i] = x;
		this.w[i] = w;
		this.y[i] = y;
		this.next[i] = this.first[colour];
		this.first[colour] = i;
	}

	// Collect the rectangles and dust of one row within the view.
	collect(model, row, y, view, width, colours, above) {
		const { left, weight, rows, start } = model, end = start[row + 1], scale = width / (view.x1 - view.x0), pixel = 1 / scale;
		let k = Math.max(start[row], model.seek(row, view.x0) - 1), dustFrom = -1, dustTo = -1;
		const settle = () => {
			if (dustFrom >= 0)
				this.add(-1, dustFrom, dustTo - dustFrom, y, DUST);
			dustFrom = -1;
		};
		while (k < end) {
			const i = rows[k], l = left[i], w = weight[i];
			if (l >= view.x1)
				break;
			if (l + w <= view.x0) {
				k++;
				continue;
			}
			if (w < pixel) {
				const at = Math.max(0, Math.floor((l - view.x0) * scale));
				if (dustTo !== at)
					settle();
				if (dustFrom < 0)
					dustFrom = at;
				dustTo = Math.min(width, at + 1);
				// Skip to the first node that starts after this pixel, unless the node before that reaches over it.
				const next = view.x0 + (at + 1) * pixel, j = model.seek(row, next, k + 1);
				k = j - 1 > k && left[rows[j - 1]] + weight[rows[j - 1]] > next ? j - 1 : j;
				continue;
			}
			const a = Math.max(-1, Math.round((l - view.x0) * scale)), b = Math.min(width + 1, Math.round((l + w - view.x0) * scale));
			if (b > a)
				this.add(i, a, b - a, y, colours[i]);
			k++;
		}
		settle();
	}

	// @view: x0, x1 in values, top in pixels; @look: colours by node, dark, up, hovered, selected.
	paint(c, model, view, width, height, look) {
		const palette = paletteFor(look.dark), ink = inkFor(look.dark), rowAt = (n) => look.up ? model.nRows - 1 - n : n;
		const from = Math.max(0, Math.floor(view.top / ROW)), to = Math.min(model.nRows, Math.ceil((view.top + height) / ROW));
		// A row has at most one node for each pixel, and dust between two of them.
		this.makeRoom((to - from + 1) * 2 * (width + 4));
		this.first.fill(-1);
		this.drawn = 0;
		for (let n = from; n < to; n++)
			this.collect(model, rowAt(n), n * ROW - view.top, view, width, look.colours);
		c.clearRect(0, 0, width, height);
		for (let colour = 0; colour < N_COLOURS; colour++) {
			if (this.first[colour] < 0)
				continue;
			c.fillStyle = palette[colour];
			for (let i = this.first[colour]; i >= 0; i = this.next[i])
				c.fillRect(this.x[i], this.y[i], this.w[i] > 2 ? this.w[i] - 1 : this.w[i], ROW - 1);
		}
		this.mark(c, model, ink);
		this.write(c, model, width, look, ink);
		this.outline(c, look, ink);
	}

	// Underline inlined calls.
	mark(c, model, ink) {
		c.fillStyle = ink.mark;
		for (let i = 0; i < this.drawn; i++)
			if (this.node[i] >= 0 && model.inlined[this.node[i]] && this.w[i] > 3)
				c.fillRect(this.x[i], this.y[i] + ROW - 3, this.w[i] - 1, 2);
	}

	write(c, model, width, look, ink) {
		c.font = FONT;
		c.textBaseline = "middle";
		this.letter ??= c.measureText("m".repeat(50)).width / 50;
		for (const faded of [false, true]) {
			c.fillStyle = faded ? ink.faded : ink.text;
			for (let i = 0; i < this.drawn; i++) {
				if (this.w[i] < LETTERS_FROM || this.node[i] < 0 || isFaded(look.colours[this.node[i]]) !== faded)
					continue;
				const x = Math.max(0, this.x[i]), room = Math.min(width, this.x[i] + this.w[i]) - x - 2 * PAD;
				const fits = Math.floor(room / this.letter), name = look.label(this.node[i]);
				if (fits >= 2)
					c.fillText(name.length > fits ? `${name.slice(0, fits - 1)}…` : name, x + PAD, this.y[i] + ROW / 2);
			}
		}
	}

	outline(c, look, ink) {
		c.strokeStyle = ink.edge;
		for (let i = 0; i < this.drawn; i++) {
			const node = this.node[i];
			if (node < 0 || node !== look.hovered && node !== look.selected)
				continue;
			c.lineWidth = node === look.selected ? 2 : 1;
			const inset = c.lineWidth / 2;
			c.strokeRect(this.x[i] + inset, this.y[i] + inset, Math.max(1, this.w[i] - 1 - 2 * inset), ROW - 1 - 2 * inset);
		}
	}
}
