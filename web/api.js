// SPDX-License-Identifier: Apache-2.0
// Requests to the server's API. An error has the sentence that the server sent.
import { visible } from "./dom.js";

export class Refused extends Error {
	constructor(status, text) {
		super(text);
		this.status = status;
	}
}

async function whyOf(reply) {
	const text = (await reply.text()).trim();
	try {
		return visible(JSON.parse(text).error ?? text);
	} catch {
		return visible(text) || `status ${reply.status}`;
	}
}

export function apiUrl(path, query = {}) {
	const search = new URLSearchParams();
	for (const [name, value] of Object.entries(query))
		if (value !== null && value !== undefined && value !== "" && value !== false)
			search.set(name, value === true ? "1" : String(value));
	const text = search.toString();
	return text ? `${path}?${text}` : path;
}

export async function ask(path, query, signal) {
	let reply;
	try {
		reply = await fetch(apiUrl(path, query), { signal });
	} catch (error) {
		if (signal?.aborted)
			throw error;
		throw new Refused(0, `The server does not answer: ${error.message}`);
	}
	if (!reply.ok)
		throw new Refused(reply.status, await whyOf(reply));
	return reply.json();
}

export async function callServer(method, path) {
	const reply = await fetch(path, { method });
	if (!reply.ok)
		throw new Refused(reply.status, await whyOf(reply));
}

// At most one request at a time: a new one aborts the one before.
export class Latest {
	next() {
		this.controller?.abort();
		this.controller = new AbortController();
		return this.controller.signal;
	}
	stop() {
		this.controller?.abort();
	}
}
