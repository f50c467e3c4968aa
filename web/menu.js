// SPDX-License-Identifier: Apache-2.0
// Menus: details elements that close on a click outside, and on Escape.

export function startMenus() {
	document.addEventListener("click", (event) => {
		for (const menu of document.querySelectorAll("details.menu[open]"))
			if (!menu.contains(event.target))
				menu.open = false;
	});
	document.addEventListener("keydown", (event) => {
		const menu = event.key === "Escape" && event.target.closest("details.menu[open]");
		if (menu) {
			menu.open = false;
			menu.firstElementChild.focus();
		}
	});
}
