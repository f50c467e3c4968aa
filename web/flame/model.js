// SPDX-License-Identifier: Apache-2.0
// A tree of calls in typed arrays, laid out once: the position of each node in its row, and the nodes of each row. Later queries (visible
// nodes, node at a point, search) are a binary search in sorted rows or one pass over the arrays.
//
// Nodes are in depth-first order, callers first; node 0 is the total. The width of a node is its total; in a comparison it is the sum of both
// totals, so that nodes that exist only in the base are visible too. If there are negative values, callees may be larger than their caller: they
// are narrower then, so that they end where it does, since rows are searched by `left`.

// The name of a frame without a name: its binary and address.
export const HEX_NAME = /(^|\+)0x[0-9a-f]+$/;

export class FlameModel {
	// @tree: n, parent, frame, self, total, inlined, baseSelf and baseTotal (null: no comparison) by node; @frames: name, file, line, binary,
	// buildId, address by frame, as arrays.
	constructor(tree, frames, unit, type) {
		Object.assign(this, tree);
		this.frames = frames;
		this.unit = unit;
		this.type = type;
		this.compares = Boolean(tree.baseTotal);
		this.nFrames = frames.name.length;
		this.layOut();
	}

	layOut() {
		const { n, parent, total, baseTotal } = this;
		const weight = new Float64Array(n), left = new Float64Array(n), next = new Float64Array(n), depth = new Uint32Array(n);
		const callees = new Float64Array(n), scale = new Float64Array(n).fill(1);
		let deepest = 0;
		for (let i = 0; i < n; i++) {
			weight[i] = Math.max(0, total[i]) + (baseTotal ? Math.max(0, baseTotal[i]) : 0);
			if (i)
				callees[parent[i]] += weight[i];
		}
		for (let i = 0; i < n; i++) {
			if (i) {
				const p = parent[i];
				left[i] = next[p];
				scale[i] = scale[p];
				weight[i] = Math.min(weight[i] * scale[p], Math.max(0, left[p] + weight[p] - left[i]));
				next[p] += weight[i];
				depth[i] = depth[p] + 1;
				deepest = Math.max(deepest, depth[i]);
			}
			if (callees[i] * scale[i] > weight[i])
				scale[i] = weight[i] / callees[i];
			next[i] = left[i];
		}
		const start = new Uint32Array(deepest + 2), rows = new Uint32Array(n);
		for (let i = 0; i < n; i++)
			start[depth[i] + 1]++;
		for (let d = 0; d <= deepest; d++)
			start[d + 1] += start[d];
		const at = start.slice();
		for (let i = 0; i < n; i++)
			rows[at[depth[i]]++] = i;
		Object.assign(this, { weight, left, depth, start, rows, nRows: deepest + 1, width: weight[0] });
	}

	// The first index in @row, from @from on, whose node starts at or after @x.
	seek(row, x, from = this.start[row]) {
		let lo = from, hi = this.start[row + 1];
		while (lo < hi) {
			const mid = (lo + hi) >>> 1;
			if (this.left[this.rows[mid]] < x)
				lo = mid + 1;
			else
				hi = mid;
		}
		return lo;
	}

	nodeAt(row, x) {
		if (row < 0 || row >= this.nRows)
			return -1;
		const hit = (node) => x >= this.left[node] && x < this.left[node] + this.weight[node];
		for (let k = Math.max(this.start[row], this.seek(row, x) - 1); k < this.start[row + 1] && this.left[this.rows[k]] <= x; k++)
			if (hit(this.rows[k]))
				return this.rows[k];
		return -1;
	}

	// The children of @node, in order.
	children(node) {
		const row = this.depth[node] + 1, list = [];
		if (row < this.nRows) {
			for (let k = this.seek(row, this.left[node]); k < this.start[row + 1]; k++) {
				const child = this.rows[k];
				if (this.parent[child] === node)
					list.push(child);
				else if (this.left[child] > this.left[node])
					break;
			}
		}
		return list;
	}

	// From the outermost caller to the node itself.
	path(node) {
		const list = [];
		for (let i = node; i > 0; i = this.parent[i])
			list.push(i);
		return list.concat(0).reverse();
	}

	name(node) {
		return this.frame[node] >= 0 ? this.frames.name[this.frame[node]] : "all";
	}

	// Whether the node has only an address for a name. By address, all have one.
	unnamed(node) {
		this.nameless ??= Uint8Array.from(this.frames.name, (name) => HEX_NAME.test(name) ? 1 : 0);
		return !this.byAddress && this.frame[node] >= 0 && this.nameless[this.frame[node]] === 1;
	}

	/* ---- finding a node in another tree, by a hash of its path ---- */

	// Functions of one name may be in several files or binaries.
	identity(node) {
		this.identities ??= this.frames.name.map((name, f) => `${name}\n${this.frames.file[f]}\n${this.frames.binary[f]}`);
		return this.frame[node] >= 0 ? this.identities[this.frame[node]] : "all";
	}

	keyOf(node) {
		let h = 2166136261;
		for (const i of this.path(node))
			h = mixText(h, this.identity(i));
		return node ? h.toString(16).padStart(8, "0") : "";
	}

	find(key) {
		// In links of older versions the hash is that of the names alone.
		return this.findBy(key, (i) => this.identity(i)) || this.findBy(key, (i) => this.name(i));
	}

	findBy(key, textOf) {
		const want = parseInt(key, 16), h = new Uint32Array(this.n);
		h[0] = mixText(2166136261, textOf(0));
		for (let i = 1; i < this.n; i++) {
			h[i] = mixText(h[this.parent[i]], textOf(i));
			if (h[i] === want)
				return i;
		}
		return 0;
	}

	/* ---- searching ---- */

	// Find the frames whose name, file or binary matches. Returns how many frames and nodes match, and the value in them, each sample counted once.
	search(pattern) {
		const { name, file, binary } = this.frames, yes = new Uint8Array(this.nFrames), hits = new Uint8Array(this.n), inside = new Uint8Array(this.n);
		let nodes = 0, value = 0, frames = 0;
		for (let f = 0; f < this.nFrames; f++)
			yes[f] = pattern.test(name[f]) || pattern.test(file[f]) || pattern.test(binary[f]) ? 1 : 0;
		const seen = new Uint8Array(this.nFrames);
		for (let i = 1; i < this.n; i++) {
			const above = inside[this.parent[i]], f = this.frame[i];
			hits[i] = yes[f];
			inside[i] = above | hits[i];
			if (hits[i]) {
				nodes++;
				frames += seen[f] ? 0 : 1;
				seen[f] = 1;
				if (!above)
					value += this.total[i];
			}
		}
		return { hits, yes, nodes, frames, value };
	}

	/* ---- callers and callees of one function ---- */

	// Two trees with the function as root: { callees, callers }; null if no node has that name.
	sandwich(name) {
		const same = new Uint8Array(this.nFrames), inside = new Uint8Array(this.n), outer = [];
		for (let f = 0; f < this.nFrames; f++)
			same[f] = this.frames.name[f] === name ? 1 : 0;
		const down = new TreeBuilder(this), up = new TreeBuilder(this), at = new Int32Array(this.n).fill(-1);
		for (let i = 1; i < this.n; i++) {
			const p = this.parent[i], hit = same[this.frame[i]];
			// A recursive call is below the function itself, so its callees are counted already.
			if (hit && !inside[p]) {
				at[i] = down.root(this.frame[i]);
				outer.push(i);
			} else if (inside[p]) {
				at[i] = down.child(at[p], this.frame[i], this.inlined[i]);
			}
			inside[i] = inside[p] | hit;
			if (at[i] >= 0)
				down.add(at[i], this.self[i], this.total[i], this.baseSelf?.[i] ?? 0, this.baseTotal?.[i] ?? 0);
		}
		if (!outer.length)
			return null;
		for (const i of outer) {
			let node = up.root(this.frame[i]);
			for (let k = i; k > 0; k = this.parent[k]) {
				if (k !== i)
					node = up.child(node, this.frame[k], this.inlined[k]);
				up.add(node, 0, this.total[i], 0, this.baseTotal?.[i] ?? 0);
			}
		}
		return { callees: down.end(), callers: up.end() };
	}
}

function mixText(h, text) {
	for (let i = 0; i < text.length; i++)
		h = Math.imul(h ^ text.charCodeAt(i), 16777619);
	return Math.imul(h ^ 0x2f, 16777619) >>> 0;
}

// Builds a tree node by node, then sorts it into depth-first order, siblings by size. Node 0 is the function itself.
class TreeBuilder {
	constructor(model) {
		this.model = model;
		this.nodes = [];
		this.known = new Map();
	}

	root(frame) {
		if (!this.nodes.length)
			this.nodes.push({ parent: -1, frame, inlined: 0, self: 0, total: 0, baseSelf: 0, baseTotal: 0, kids: [] });
		return 0;
	}

	child(parent, frame, inlined) {
		const key = parent * this.model.nFrames + frame;
		let node = this.known.get(key);
		if (node === undefined) {
			node = this.nodes.length;
			this.known.set(key, node);
			this.nodes.push({ parent, frame, inlined, self: 0, total: 0, baseSelf: 0, baseTotal: 0, kids: [] });
			this.nodes[parent].kids.push(node);
		}
		return node;
	}

	add(node, self, total, baseSelf, baseTotal) {
		const to = this.nodes[node];
		to.self += self;
		to.total += total;
		to.baseSelf += baseSelf;
		to.baseTotal += baseTotal;
	}

	end() {
		const { nodes, model } = this, n = nodes.length, order = [], place = new Int32Array(n), stack = [0];
		const size = (i) => nodes[i].total + nodes[i].baseTotal;
		while (stack.length) {
			const i = stack.pop();
			place[i] = order.length;
			order.push(i);
			// One at a time: a call takes some 100 000 arguments at most.
			for (const kid of nodes[i].kids.sort((a, b) => size(a) - size(b)))
				stack.push(kid);
		}
		const floats = (key) => Float64Array.from(order, (i) => nodes[i][key]);
		const tree = {
			n, parent: Int32Array.from(order, (i) => i ? place[nodes[i].parent] : -1), frame: Int32Array.from(order, (i) => nodes[i].frame),
			inlined: Uint8Array.from(order, (i) => nodes[i].inlined), self: floats("self"), total: floats("total"),
			baseSelf: model.compares ? floats("baseSelf") : null, baseTotal: model.compares ? floats("baseTotal") : null,
		};
		const made = new FlameModel(tree, model.frames, model.unit, model.type);
		made.rooted = true;
		made.byAddress = model.byAddress;
		return made;
	}
}

// The model of an answer of /api/flamegraph. @by: what its frames are.
export function modelOf(answer, by) {
	const { nodes, frames, strings } = answer, text = (list) => list.map((i) => strings[i] ?? "");
	const compares = answer.base_total !== null && answer.base_total !== undefined;
	const tree = {
		n: nodes.parent.length, parent: new Int32Array(nodes.parent), frame: new Int32Array(nodes.frame),
		self: new Float64Array(nodes.self), total: new Float64Array(nodes.total), inlined: new Uint8Array(nodes.inlined),
		baseSelf: compares ? new Float64Array(nodes.base_self) : null, baseTotal: compares ? new Float64Array(nodes.base_total) : null,
	};
	const model = new FlameModel(tree, {
		name: text(frames.name), file: text(frames.file), line: frames.line, binary: text(frames.binary), buildId: text(frames.build_id),
		address: frames.address,
	}, answer.unit, answer.type);
	// Nodes that are too small to be sent: sums over nodes lack them.
	model.leftOut = answer.left_out ?? 0;
	model.byAddress = by === "address";
	return model;
}
