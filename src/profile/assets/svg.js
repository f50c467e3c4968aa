/* SPDX-License-Identifier: Apache-2.0 */
/* Zooming and searching in a flame graph. Each frame's place is in data-x, data-w (parts of all) and data-d. */
(function () {
	'use strict';
	var frames = Array.prototype.slice.call(document.querySelectorAll('#frames > g'));
	var said = document.getElementById('said'), found = document.getElementById('found');
	var reset = document.getElementById('reset'), search = document.getElementById('search');
	var width = 1180, left = 10, letter = 7.3;

	function name(g) {
		return g.querySelector('title').textContent;
	}
	function label(g, w) {
		var text = g.querySelector('text'), full = name(g).replace(/ \([^(]*%.*$/, ''), room = Math.floor((w - 6) / letter);
		text.textContent = w < 3 * letter ? '' : full.length > room ? full.slice(0, Math.max(0, room - 2)) + '..' : full;
	}
	function zoom(to) {
		var x0 = to ? +to.dataset.x : 0, w0 = to ? +to.dataset.w : 1, d0 = to ? +to.dataset.d : 0;
		frames.forEach(function (g) {
			var x = +g.dataset.x, w = +g.dataset.w, d = +g.dataset.d;
			var above = d < d0 && x <= x0 + 1e-6 && x + w >= x0 + w0 - 1e-6;
			var below = d >= d0 && x >= x0 - 1e-6 && x + w <= x0 + w0 + 1e-6;
			var rect = g.querySelector('rect'), px = above ? left : left + (x - x0) / w0 * width, pw = above ? width : w / w0 * width;
			g.style.display = above || below ? '' : 'none';
			g.classList.toggle('dim', above);
			if (!above && !below)
				return;
			rect.setAttribute('x', px.toFixed(1));
			rect.setAttribute('width', Math.max(pw, 0).toFixed(1));
			g.querySelector('text').setAttribute('x', (px + 3).toFixed(1));
			label(g, pw);
		});
		reset.setAttribute('visibility', d0 ? 'visible' : 'hidden');
	}
	function find(pattern) {
		var re = null, sum = 0;
		try {
			re = pattern ? new RegExp(pattern, 'i') : null;
		} catch (e) {
			found.textContent = 'not a pattern';
			return;
		}
		/* The outermost of those that are found in one another counts. */
		var ends = [];
		frames.forEach(function (g) {
			var hit = re !== null && re.test(name(g)), x = +g.dataset.x, w = +g.dataset.w;
			g.classList.toggle('hit', hit);
			if (hit)
				ends.push([x, x + w]);
		});
		ends.sort(function (a, b) { return a[0] - b[0] || b[1] - a[1]; });
		var to = -1;
		ends.forEach(function (e) {
			if (e[0] >= to - 1e-9) {
				sum += e[1] - e[0];
				to = e[1];
			}
		});
		found.textContent = re ? (100 * sum).toFixed(2) + '% found' : '';
		search.textContent = re ? 'Clear search' : 'Search';
	}
	frames.forEach(function (g) {
		g.addEventListener('click', function () { zoom(g); });
		g.addEventListener('mouseover', function () { said.textContent = name(g); });
		g.addEventListener('mouseout', function () { said.textContent = ' '; });
	});
	reset.addEventListener('click', function () { zoom(null); });
	search.addEventListener('click', function () {
		find(search.textContent === 'Search' ? window.prompt('Which frames? (a regular expression)') : '');
	});
	document.addEventListener('keydown', function (e) {
		if (e.key === 'Escape') {
			zoom(null);
			find('');
		}
	});
})();
