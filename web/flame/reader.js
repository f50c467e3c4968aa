// SPDX-License-Identifier: Apache-2.0
// The flame graph for screen readers: a tree of real elements with the selected node, its callers, siblings and callees. It is made again
// for each selection, and stays small for a tree of any size.

const SHOWN = 40; // at most so many siblings, and so many callees

export class Reader {
	// @box: the element with the role of the tree, which has the focus.
	constructor(box) {
		this.box = box;
		this.list = document.createElement("div");
		this.list.className = "flame-reader";
		this.list.setAttribute("role", "presentation");
		box.append(this.list);
		this.prefix = `flame-${Reader.made = (Reader.made ?? 0) + 1}`;
	}

	item(model, node, text, place, size, chosen) {
		const item = document.createElement("div"), has = node >= 0 && model.children(node).length > 0;
		item.id = `${this.prefix}-${node}`;
		item.setAttribute("role", "treeitem");
		item.setAttribute("aria-level", model.depth[node] + 1);
		item.setAttribute("aria-posinset", place);
		item.setAttribute("aria-setsize", size);
		if (has)
			item.setAttribute("aria-expanded", String(node === chosen || this.open.has(node)));
		if (node === chosen)
			item.setAttribute("aria-selected", "true");
		item.textContent = text(node);
		return item;
	}

	show(model, chosen, text) {
		const path = model.path(chosen);
		this.open = new Set(path);
		const items = [], some = (list, keep) => {
			const at = Math.max(0, Math.min(list.indexOf(keep) - SHOWN / 2, list.length - SHOWN));
			return list.slice(at, at + SHOWN).map((node, i) => this.item(model, node, text, at + i + 1, list.length, chosen));
		};
		for (const node of path.slice(0, -1)) {
			const siblings = node ? model.children(model.parent[node]) : [0];
			items.push(this.item(model, node, text, siblings.indexOf(node) + 1, siblings.length, chosen));
		}
		const siblings = chosen ? model.children(model.parent[chosen]) : [0];
		for (const item of some(siblings, chosen)) {
			items.push(item);
			if (item.id === `${this.prefix}-${chosen}`)
				items.push(...some(model.children(chosen), -1));
		}
		this.list.replaceChildren(...items);
		this.box.setAttribute("aria-activedescendant", `${this.prefix}-${chosen}`);
	}
}
