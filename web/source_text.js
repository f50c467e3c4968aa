// SPDX-License-Identifier: Apache-2.0
// The text of a source file, as this server has it for a build ID.
import { visible } from "./dom.js";

const SIZE_MAX = 8 << 20, LINE_MAX = 400;

// { lines } or { why }.
export async function fetchSource(id, path, signal) {
	const url = `buildid/${id}/source/${path.replace(/^\/+/, "").split("/").map(encodeURIComponent).join("/")}`;
	const reply = await fetch(url, { signal, headers: { "X-DEBUGINFOD-MAXSIZE": SIZE_MAX } });
	if (!reply.ok)
		return { why: reply.status === 404 ? "The source is not here." : (await reply.text()).trim() };
	return { lines: (await reply.text()).split("\n") };
}

export const lineText = (text) => visible(text.replaceAll("\t", "        ").slice(0, LINE_MAX));
