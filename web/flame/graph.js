// SPDX-License-Identifier: Apache-2.0
// An interactive flame graph: a canvas that stays in the visible part of a scrolled box, with zoom, pan, keyboard, hovering and selection.
//
//   const graph = new FlameGraph(box, { up, label, text, zoomed, chosen, hovered });
//   graph.show(model, colours)
import { markFound } from "./colour.js";
import { Painter, ROW } from "./draw.js";
import { Reader } from "./reader.js";

const MOVE_MS = 160, CLICK_SLACK = 4, MAX_WIDTH = 16000;

export class FlameGraph {
	// @on: label(node) returns the text drawn in a node, text(node) the text for screen readers; zoomed(node), chosen(node) and
	// hovered(node, event) are called on those events, and may be left out.
	constructor(box, on) {
		this.box = box;
		this.on = on;
		this.up = false;
		this.model = null;
		this.painter = new Painter();
		this.dark = matchMedia("(prefers-color-scheme: dark)");
		this.still = matchMedia("(prefers-reduced-motion: reduce)");
		this.space = document.createElement("div");
		this.space.className = "flame-space";
		this.canvas = document.createElement("canvas");
		this.canvas.setAttribute("aria-hidden", "true");
		this.space.append(this.canvas);
		box.classList.add("flame");
		box.tabIndex = 0;
		box.setAttribute("role", "tree");
		box.append(this.space);
		this.reader = new Reader(box);
		this.listen();
	}

	listen() {
		const { box, canvas } = this;
		box.addEventListener("scroll", () => this.later());
		box.addEventListener("keydown", (event) => this.key(event));
		box.addEventListener("focus", () => this.later());
		canvas.addEventListener("pointerdown", (event) => this.press(event));
		canvas.addEventListener("pointermove", (event) => this.move(event));
		canvas.addEventListener("pointerup", (event) => this.release(event));
		canvas.addEventListener("pointerleave", () => this.hover(-1));
		canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
		new ResizeObserver(() => this.model && this.later()).observe(box);
		this.dark.addEventListener("change", () => this.later());
	}

	/* ---- model and colours ---- */

	show(model, colours) {
		this.model = model;
		this.plain = this.colours = colours;
		this.hits = null;
		this.zoomedTo = this.chosen = 0;
		this.hovered = -1;
		cancelAnimationFrame(this.moving);
		this.view = { x0: 0, x1: Math.max(model.width, 1e-9), top: 0 };
		this.aim = this.extent(0);
		this.space.style.height = `${model.nRows * ROW}px`;
		this.box.scrollTop = this.up ? model.nRows * ROW : 0;
		this.reader.show(model, 0, this.on.text);
		this.later();
	}

	// What the tree that is shown leaves to the next one, of the same request with other names: the selected and the zoomed
	// frame, the scroll position, and the part that is shown, if that is not the zoomed frame (by the wheel, a key, dragging).
	kept() {
		const { model, aim, box } = this, { x0, x1 } = this.extent(this.zoomedTo);
		return { chosen: model.keyOf(this.chosen), zoomed: model.keyOf(this.zoomedTo), top: box.scrollTop, width: model.width,
			part: aim.x0 === x0 && aim.x1 === x1 ? null : aim };
	}

	// After show().
	keep({ chosen, zoomed, top, width, part }) {
		this.zoomedTo = zoomed ? this.model.find(zoomed) : 0;
		// Profiles may have come since.
		const by = this.model.width / (width || 1);
		this.aim = part ? { x0: part.x0 * by, x1: part.x1 * by } : this.extent(this.zoomedTo);
		cancelAnimationFrame(this.moving);
		Object.assign(this.view, this.aim);
		this.box.scrollTop = top;
		this.select(chosen ? this.model.find(chosen) : 0);
	}

	setColours(colours) {
		this.plain = colours;
		this.setHits(this.hits);
	}

	setHits(hits) {
		this.hits = hits;
		this.colours = markFound(this.plain, hits);
		this.later();
	}

	setUp(up) {
		this.up = up;
		if (this.model)
			this.box.scrollTop = up ? this.model.nRows * ROW : 0;
		this.later();
	}

	later() {
		this.waiting ??= requestAnimationFrame(() => {
			this.waiting = undefined;
			this.draw();
		});
	}

	draw() {
		const { box, canvas, model } = this, width = Math.min(this.space.clientWidth, MAX_WIDTH), ratio = devicePixelRatio || 1;
		if (!model || !width)
			return;
		const height = Math.min(box.clientHeight, model.nRows * ROW);
		if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
			canvas.width = Math.round(width * ratio);
			canvas.height = Math.round(height * ratio);
			canvas.style.width = `${width}px`;
			canvas.style.height = `${height}px`;
		}
		this.view.top = box.scrollTop;
		this.c ??= canvas.getContext("2d");
		this.c.setTransform(ratio, 0, 0, ratio, 0, 0);
		this.painter.paint(this.c, model, this.view, width, height, {
			colours: this.colours, dark: this.dark.matches, up: this.up, label: this.on.label, hovered: this.hovered,
			selected: document.activeElement === box ? this.chosen : -1,
		});
	}

	/* ---- zoom and pan ---- */

	extent(node) {
		const l = this.model.left[node];
		return { x0: l, x1: l + Math.max(this.model.weight[node], this.model.width * 1e-12) };
	}

	zoom(node, quietly) {
		this.zoomedTo = node;
		this.goTo(this.extent(node));
		if (!quietly)
			this.on.zoomed?.(node);
	}

	goTo({ x0, x1 }) {
		this.aim = { x0, x1 };
		const from = { ...this.view }, begun = performance.now();
		cancelAnimationFrame(this.moving);
		const step = (now) => {
			const t = this.still.matches ? 1 : Math.min(1, Math.max(0, (now - begun) / MOVE_MS)), e = t * (2 - t);
			this.view.x0 = from.x0 + (x0 - from.x0) * e;
			this.view.x1 = t === 1 ? x1 : from.x1 + (x1 - from.x1) * e;
			this.draw();
			if (t < 1)
				this.moving = requestAnimationFrame(step);
		};
		this.moving = requestAnimationFrame(step);
	}

	// Scale by a factor around a position, which stays in place.
	scale(by, around) {
		const { view, model } = this, size = Math.min(model.width, Math.max(model.width * 1e-9, (view.x1 - view.x0) * by));
		const part = (around - view.x0) / (view.x1 - view.x0);
		this.place(around - size * part, size);
	}

	place(x0, size) {
		this.view.x0 = Math.max(0, Math.min(x0, this.model.width - size));
		this.view.x1 = this.view.x0 + size;
		this.aim = { x0: this.view.x0, x1: this.view.x1 };
		this.later();
	}

	isWhole() {
		return this.view.x0 <= 0 && this.view.x1 >= this.model.width;
	}

	/* ---- pointing ---- */

	placeOf(event) {
		const r = this.canvas.getBoundingClientRect(), row = Math.floor((event.clientY - r.top + this.view.top) / ROW);
		return { row: this.up ? this.model.nRows - 1 - row : row, x: this.view.x0 + (event.clientX - r.left) / r.width * (this.view.x1 - this.view.x0) };
	}

	nodeOf(event) {
		const { row, x } = this.placeOf(event);
		return this.model.nodeAt(row, x);
	}

	hover(node, event) {
		if (node !== this.hovered) {
			this.hovered = node;
			this.later();
		}
		this.on.hovered?.(node, event);
	}

	press(event) {
		if (event.button !== 0 || !this.model)
			return;
		this.held = { x: event.clientX, y: event.clientY, x0: this.view.x0, size: this.view.x1 - this.view.x0, moved: false };
	}

	move(event) {
		if (!this.model)
			return;
		const { held } = this, dx = held ? event.clientX - held.x : 0;
		if (held && !(event.buttons & 1)) {
			this.held = null;
		} else if (held && !this.isWhole() && (held.moved || Math.abs(dx) > CLICK_SLACK)) {
			if (!held.moved)
				this.canvas.setPointerCapture(event.pointerId);
			held.moved = true;
			this.place(held.x0 - dx / this.canvas.clientWidth * held.size, held.size);
			return this.hover(-1);
		}
		this.hover(this.nodeOf(event), event);
	}

	release(event) {
		const { held } = this;
		this.held = null;
		if (!held || held.moved)
			return;
		const node = this.nodeOf(event);
		if (node >= 0) {
			this.choose(node);
			this.zoom(node);
		}
	}

	wheel(event) {
		if (!this.model)
			return;
		if (event.ctrlKey || event.metaKey) {
			event.preventDefault();
			this.scale(Math.exp(event.deltaY * 0.002), this.placeOf(event).x);
		} else if ((event.deltaX || event.shiftKey) && !this.isWhole()) {
			event.preventDefault();
			const size = this.view.x1 - this.view.x0;
			this.place(this.view.x0 + (event.deltaX || event.deltaY) / this.canvas.clientWidth * size, size);
		}
	}

	/* ---- choosing, by keys too ---- */

	choose(node) {
		this.select(node);
		this.on.chosen?.(node);
	}

	select(node) {
		this.chosen = node;
		this.reader.show(this.model, node, this.on.text);
		this.later();
	}

	// Into what can be seen: the row by scrolling, the node by zooming out, or in where it is too narrow.
	reveal(node) {
		const { model, view, box } = this, row = this.up ? model.nRows - 1 - model.depth[node] : model.depth[node];
		const { x0, x1 } = this.extent(node), pixels = (x1 - x0) / (view.x1 - view.x0) * this.canvas.clientWidth;
		if (row * ROW < box.scrollTop)
			box.scrollTop = row * ROW;
		else if ((row + 1) * ROW > box.scrollTop + box.clientHeight)
			box.scrollTop = (row + 1) * ROW - box.clientHeight;
		if (x0 >= view.x1 || x1 <= view.x0 || pixels < 3)
			this.goTo(this.extent(pixels < 3 && node ? model.parent[node] : node));
	}

	key(event) {
		if (!this.model || event.ctrlKey || event.metaKey || event.altKey)
			return;
		const { model, chosen } = this, inward = this.up ? "ArrowUp" : "ArrowDown", outward = this.up ? "ArrowDown" : "ArrowUp";
		const beside = (step) => {
			const siblings = chosen ? model.children(model.parent[chosen]) : [0];
			return siblings[siblings.indexOf(chosen) + step];
		};
		let to;
		switch (event.key) {
		case inward: to = model.children(chosen)[0]; break;
		case outward: to = chosen ? model.parent[chosen] : undefined; break;
		case "ArrowLeft": to = beside(-1); break;
		case "ArrowRight": to = beside(1); break;
		case "Home": to = 0; break;
		case "Enter": case " ": this.zoom(chosen); break;
		case "Escape": this.zoom(0); to = 0; break;
		case "Backspace": to = Math.max(0, model.parent[this.zoomedTo]); this.zoom(to); break;
		case "+": case "=": this.scale(1 / 1.5, this.model.left[chosen] + this.model.weight[chosen] / 2); break;
		case "-": this.scale(1.5, this.model.left[chosen] + this.model.weight[chosen] / 2); break;
		default: return;
		}
		event.preventDefault();
		if (to !== undefined) {
			this.choose(to);
			this.reveal(to);
		}
	}
}
