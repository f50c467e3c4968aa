// SPDX-License-Identifier: Apache-2.0
// The panel "Object storage": whether the server of the buckets answers, and what is kept of its objects.
import { $, el, setText, swap, visible } from "../dom.js";
import { bytes, count, duration, number } from "../format.js";

function stateOf(bucket) {
	if (bucket.failing)
		return ["bad", `failing for ${duration(bucket.failing_s * 1000)}`, bucket.said];
	return bucket.done ? ["good", "answers", null] : ["unknown", "no request yet", null];
}

export function showBucket(status) {
	const { bucket } = status;
	$("bucket").hidden = !bucket;
	if (!bucket)
		return;
	const [is, text, why] = stateOf(bucket);
	setText($("bucket-aside"), "packages and debug files in buckets");
	swap($("bucket-body"),
		el("div", { class: "state", "data-is": is }, el("span", { class: "dot", "aria-hidden": "true" }), el("strong", {}, text),
			" ", el("bdi", { class: "path" }, visible(bucket.endpoint))),
		why ? el("p", { class: "from" }, el("bdi", {}, visible(why))) : null,
		bucket.failing ? el("p", {}, "What is cached is served; other requests for its files get 503.") : null,
		el("p", { class: "dim" }, `${count(bucket.done + bucket.missing + bucket.failed, "request")}, ${number(bucket.failed)} failed; ` +
			`${bytes(bucket.received)} received; ${bytes(bucket.memory)} kept in memory, ${bytes(bucket.disk)} on disk.`));
}
