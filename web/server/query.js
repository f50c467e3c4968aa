// SPDX-License-Identifier: Apache-2.0
// Parses the text of the search box.
//
//   { kind: "id", id }             a build ID
//   { kind: "file" | "glob", value }
//   { kind: "word", value }        neither; `value` is used for suggestions
//   { kind: "bad", why }

const DIGITS_MAX = 128; // the server's limit
const DIGITS_MIN = 8;   // shorter ones are more likely words: "cafe", "dead"

function idOf(digits) {
	const id = digits.replace(/[\s:-]/g, "").replace(/^0x/i, "").toLowerCase();
	if (id.length % 2)
		return { kind: "bad", why: `A build ID has an even number of digits; this one has ${id.length}.` };
	if (id.length > DIGITS_MAX)
		return { kind: "bad", why: `A build ID has at most ${DIGITS_MAX} digits; this one has ${id.length}.` };
	return { kind: "id", id };
}

// Texts that contain a build ID: output of readelf, file and eu-unstrip, a debuginfod URL, the path of a .build-id file.
const idTexts = [
	// A browser pastes a newline as a blank: "Displaying" in the next line is no digit.
	/build[ -]?id(?:\[\w+\])?\s*[:=]\s*((?:0x)?[0-9a-f]+(?: [0-9a-f]{2,}\b)*)/i,
	/\/buildid\/([0-9a-f]+)/i,
	/\.build-id\/([0-9a-f]{2}\/[0-9a-f]+)(?:\.debug)?$/i,
];

export function understand(typed) {
	const text = typed.trim();
	if (!text)
		return null;
	for (const pattern of idTexts) {
		const found = pattern.exec(text);
		if (found)
			return idOf(found[1].replace("/", ""));
	}
	const prefixed = /^0x/i.test(text);
	if (/^(0x)?[0-9a-f][0-9a-f\s:-]*$/i.test(text) && (prefixed || text.replace(/[^0-9a-f]/gi, "").length >= DIGITS_MIN))
		return idOf(text);
	if (!text.includes("/"))
		return { kind: "word", value: text };
	return { kind: /[*?[]/.test(text) ? "glob" : "file", value: text.startsWith("/") ? text : `/${text}` };
}

// Patterns for paths of a file with this name.
export function guesses(word) {
	const name = word.replace(/\s+/g, "*"), stars = /[*?[]/.test(name) ? name : `${name}*`;
	// A file that was pushed without a path is listed in "/".
	return [`/usr/bin/${name}`, `/usr/sbin/${name}`, `/usr/lib/*/${stars}`, `/usr/lib64/${stars}`, `/${stars}`];
}

// Other paths and patterns to try if nothing has this path.
export function alternatives(path) {
	const list = [], cut = path.lastIndexOf("/") + 1, folder = path.slice(0, cut), name = path.slice(cut);
	const merged = /^\/(bin|sbin|lib|lib32|lib64)\//;
	if (merged.test(path))
		list.push(`/usr${path}`);
	else if (/^\/usr\/(bin|sbin|lib|lib32|lib64)\//.test(path))
		list.push(path.slice("/usr".length));
	if (name && !/[*?[]/.test(name))
		list.push(`${folder}*${name}*`);
	if (!path.startsWith("/usr/lib/debug/"))
		list.push(`/usr/lib/debug${folder}${name.replace(/\*+$/, "")}*`);
	return list;
}
