// SPDX-License-Identifier: Apache-2.0
// Fetches the text of a source file by build ID and path.
import { visible } from "./dom.js";

const SIZE_MAX = 8 << 20, LINE_MAX = 400;

// { lines } or { why }.
export async function fetchSource(id, path, signal) {
	const url = `buildid/${id}/source/${path.replace(/^\/+/, "").split("/").map(encodeURIComponent).join("/")}`;
	const reply = await fetch(url, { signal, headers: { "X-DEBUGINFOD-MAXSIZE": SIZE_MAX } });
	if (!reply.ok)
		return { why: reply.status === 404 ? "This server does not have the source file." : (await reply.text()).trim() };
	const lines = (await reply.text()).split(/\r?\n/);
	// The last line ends with a newline, too.
	if (lines.at(-1) === "")
		lines.pop();
	return { lines };
}

export const lineText = (text) => visible(text.replaceAll("\t", "        ").slice(0, LINE_MAX));
