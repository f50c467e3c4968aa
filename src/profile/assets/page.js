/* SPDX-License-Identifier: Apache-2.0 */
/* The flame graph page: the tree in #data, drawn on a canvas; a table of its functions. Names only become text. */
'use strict';
(function () {
	const data = JSON.parse(document.getElementById('data').textContent);
	const $ = (id) => document.getElementById(id);
	const PARENT = 0, FRAME = 1, TOTAL = 2, SELF = 3, FLAGS = 4, BASE = 5, BASE_SELF = 6;
	const ROW = 18, LETTER = 6.7, PAGE = 200;
	const nodes = data.nodes, all = nodes[0];
	const dark = matchMedia('(prefers-color-scheme: dark)');
	const n = nodes.length, depth = new Uint32Array(n), left = new Float64Array(n), kids = new Array(n);
	let deepest = 0, zoomed = 0, hits = null, boxes = [], sort = 'self', shown = PAGE;

	/* ---- values ---- */

	const units = {
		nanoseconds: [['ns', 1000], ['us', 1000], ['ms', 1000], ['s', 60], ['min', 60], ['h', 0]],
		microseconds: [['us', 1000], ['ms', 1000], ['s', 60], ['min', 60], ['h', 0]],
		milliseconds: [['ms', 1000], ['s', 60], ['min', 60], ['h', 0]],
		seconds: [['s', 60], ['min', 60], ['h', 0]],
		bytes: [['B', 1024], ['kB', 1024], ['MB', 1024], ['GB', 1024], ['TB', 0]],
	};
	function value(v) {
		const steps = units[data.unit];
		let i = 0;

		if (!steps)
			return v.toLocaleString('en');
		while (steps[i][1] && Math.abs(v) >= steps[i][1])
			v /= steps[i++][1];
		return (i ? v.toFixed(2) : v) + steps[i][0];
	}
	const part = (v, of) => (of ? (100 * v / of).toFixed(2) : '0.00') + '%';
	const frame = (i) => i ? data.frames[nodes[i][FRAME]] : [data.title, '', 0, ''];

	/* ---- layout: parents come before their children ---- */

	for (let i = 0; i < n; i++)
		kids[i] = [];
	for (let i = 1; i < n; i++) {
		const p = nodes[i][PARENT];

		kids[p].push(i);
		depth[i] = depth[p] + 1;
		deepest = Math.max(deepest, depth[i]);
	}
	for (let i = 0; i < n; i++) {
		let x = left[i];

		for (const k of kids[i]) {
			left[k] = x;
			x += Math.max(0, nodes[k][TOTAL]);
		}
	}

	/* ---- drawing ---- */

	function hash(s) {
		let h = 2166136261;

		for (let i = 0; i < s.length; i++)
			h = Math.imul(h ^ s.charCodeAt(i), 16777619);
		return h >>> 0;
	}
	function color(i) {
		const f = frame(i), by = $('color').value;

		if (hits && hits[i])
			return '#d63bf0';
		if (data.compares) {
			const now = all[TOTAL] ? nodes[i][TOTAL] / all[TOTAL] : 0, was = all[BASE] ? nodes[i][BASE] / all[BASE] : 0;
			const change = now + was > 0 ? (now - was) / (now + was) : 0, a = Math.abs(change);

			return `hsl(${change >= 0 ? 0 : 220}, ${a < 0.01 ? 0 : 75}%, ${dark.matches ? 30 + 25 * a : 92 - 38 * a}%)`;
		}
		const key = by === 'name' ? f[0] : by === 'binary' ? f[3] : f[1], h = hash(key);
		const hue = by === 'name' ? (nodes[i][FLAGS] ? 80 + h % 40 : 18 + h % 40) : h % 360;

		return `hsl(${hue}, ${by === 'name' && nodes[i][FLAGS] ? 45 : 68}%, ${(dark.matches ? 38 : 64) + h / 7 % 9}%)`;
	}
	function draw() {
		const canvas = $('canvas'), box = $('graph'), ratio = devicePixelRatio || 1;
		const width = Math.max(200, box.clientWidth), height = (deepest + 1) * ROW, down = $('invert').checked;
		const c = canvas.getContext('2d'), x0 = left[zoomed], w0 = Math.max(1, nodes[zoomed][TOTAL]), scale = width / w0;
		const path = new Set();

		canvas.width = width * ratio;
		canvas.height = height * ratio;
		canvas.style.width = width + 'px';
		canvas.style.height = height + 'px';
		c.scale(ratio, ratio);
		c.font = '12px ui-monospace, Menlo, Consolas, monospace';
		c.textBaseline = 'middle';
		for (let i = zoomed; i > 0; i = nodes[i][PARENT])
			path.add(nodes[i][PARENT]);
		boxes = [];
		const stack = [0];
		while (stack.length) {
			const i = stack.pop(), above = path.has(i);
			const x = above ? 0 : (left[i] - x0) * scale, w = above ? width : nodes[i][TOTAL] * scale;

			if (!above && (x + w <= 0 || x >= width || w < 0.3))
				continue;
			const y = (down ? depth[i] : deepest - depth[i]) * ROW;

			c.globalAlpha = above ? 0.45 : 1;
			c.fillStyle = color(i);
			c.fillRect(x, y, Math.max(0.3, w - 0.7), ROW - 1);
			if (w > 3 * LETTER) {
				const f = frame(i)[0], room = Math.floor((w - 6) / 7.25);

				c.fillStyle = dark.matches ? '#f4f4f0' : '#14140f';
				c.fillText(f.length > room ? f.slice(0, Math.max(0, room - 1)) + '\u2026' : f, x + 3, y + ROW / 2);
			}
			boxes.push([x, y, w, i]);
			for (const k of kids[i])
				if (!above || k === zoomed || path.has(k))
					stack.push(k);
		}
		$('reset').hidden = !zoomed;
	}
	function at(e) {
		const r = $('canvas').getBoundingClientRect(), x = e.clientX - r.left, y = e.clientY - r.top;

		for (const b of boxes)
			if (x >= b[0] && x < b[0] + b[2] && y >= b[1] && y < b[1] + ROW)
				return b[3];
		return -1;
	}
	function say(i) {
		if (i < 0) {
			$('said').textContent = '';
			return;
		}
		const f = frame(i), node = nodes[i];
		let text = `${f[0]}: ${value(node[TOTAL])}, ${part(node[TOTAL], all[TOTAL])}; itself ${value(node[SELF])}`;

		if (data.compares)
			text += `; before ${value(node[BASE])}, ${part(node[BASE], all[BASE])}`;
		if (node[FLAGS])
			text += '; inlined';
		if (f[1])
			text += ` \u2014 ${f[1]}${f[2] ? ':' + f[2] : ''}`;
		if (f[3] && f[3] !== f[0])
			text += ` [${f[3]}]`;
		$('said').textContent = text;
	}
	function zoom(i) {
		zoomed = Math.max(0, i);
		draw();
		say(zoomed);
	}

	/* ---- search ---- */

	function search() {
		const text = $('search').value;
		let re = null, sum = 0;

		hits = null;
		$('found').textContent = '';
		try {
			re = text ? new RegExp(text, 'i') : null;
		} catch (e) {
			$('found').textContent = 'not a regular expression';
		}
		if (re) {
			const yes = data.frames.map((f) => f !== 0 && (re.test(f[0]) || re.test(f[1]) || re.test(f[3])));
			const inside = new Uint8Array(n);

			hits = new Uint8Array(n);
			for (let i = 1; i < n; i++) {
				hits[i] = yes[nodes[i][FRAME]] ? 1 : 0;
				inside[i] = inside[nodes[i][PARENT]] | hits[i];
				if (hits[i] && !inside[nodes[i][PARENT]])
					sum += nodes[i][TOTAL];
			}
			$('found').textContent = part(sum, all[TOTAL]) + ' in what was found';
		}
		draw();
		table();
	}

	/* ---- table ---- */

	const rows = [];
	function collect() {
		const of = new Map();

		/* A frame that is below itself counts once: `seen` is what the path to a node has. Nodes are in the order of a walk. */
		const on = new Map(), path = [];
		for (let i = 1; i < n; i++) {
			while (path.length && depth[path[path.length - 1]] >= depth[i]) {
				const f = nodes[path.pop()][FRAME];

				on.set(f, on.get(f) - 1);
			}
			const node = nodes[i], f = node[FRAME];
			let row = of.get(f);

			if (!row)
				of.set(f, row = { f, self: 0, total: 0, base: 0 });
			row.self += node[SELF];
			if (data.compares)
				row.base += node[BASE_SELF];
			if (!on.get(f))
				row.total += node[TOTAL];
			on.set(f, (on.get(f) || 0) + 1);
			path.push(i);
		}
		rows.push(...of.values());
	}
	function cell(tr, text, name) {
		const td = document.createElement('td');

		td.textContent = text;
		if (name)
			td.className = name;
		tr.append(td);
	}
	function table() {
		const re = hits ? new RegExp($('search').value, 'i') : null;
		const list = rows.filter((r) => !re || data.frames[r.f].some((t) => re.test(String(t))));

		list.sort((a, b) => b[sort] - a[sort]);
		$('rows').replaceChildren(...list.slice(0, shown).map((r) => {
			const tr = document.createElement('tr'), f = data.frames[r.f];

			cell(tr, value(r.self));
			cell(tr, part(r.self, all[TOTAL]));
			cell(tr, value(r.total));
			cell(tr, part(r.total, all[TOTAL]));
			cell(tr, value(r.base), 'base');
			cell(tr, f[0]);
			cell(tr, f[1] ? f[1] + (f[2] ? ':' + f[2] : '') : f[3]);
			return tr;
		}));
		$('more').hidden = list.length <= shown;
		for (const b of document.querySelectorAll('[data-sort]'))
			if (b.dataset.sort === sort)
				b.parentNode.setAttribute('aria-sort', 'descending');
			else
				b.parentNode.removeAttribute('aria-sort');
	}

	/* ---- all ---- */

	$('title').textContent = data.title;
	$('total').textContent = `${data.type}: ${value(all[TOTAL])}` + (data.compares ? `, before ${value(all[BASE])}` : '');
	document.body.classList.toggle('compares', data.compares);
	$('controls').addEventListener('submit', (e) => e.preventDefault());
	$('search').addEventListener('input', search);
	$('invert').addEventListener('change', draw);
	$('color').addEventListener('change', draw);
	$('reset').addEventListener('click', () => zoom(0));
	$('more').addEventListener('click', () => { shown += 1000; table(); });
	$('canvas').addEventListener('mousemove', (e) => say(at(e)));
	$('canvas').addEventListener('mouseleave', () => say(-1));
	$('canvas').addEventListener('click', (e) => { const i = at(e); if (i >= 0) zoom(i); });
	for (const b of document.querySelectorAll('[data-sort]'))
		b.addEventListener('click', () => { sort = b.dataset.sort; table(); });
	/* Up and down the tree by the keys, between siblings by left and right. */
	$('graph').addEventListener('keydown', (e) => {
		const siblings = zoomed ? kids[nodes[zoomed][PARENT]] : [0], i = siblings.indexOf(zoomed);
		const outward = $('invert').checked ? 'ArrowUp' : 'ArrowDown', inward = $('invert').checked ? 'ArrowDown' : 'ArrowUp';
		const to = e.key === inward ? kids[zoomed][0] : e.key === outward ? nodes[zoomed][PARENT] :
			e.key === 'ArrowLeft' ? siblings[i - 1] : e.key === 'ArrowRight' ? siblings[i + 1] :
			e.key === 'Escape' ? 0 : undefined;

		if (to !== undefined && to >= 0) {
			e.preventDefault();
			zoom(to);
		}
	});
	addEventListener('resize', draw);
	dark.addEventListener('change', draw);
	collect();
	draw();
	table();
	$('graph').scrollTop = $('graph').scrollHeight;
})();
