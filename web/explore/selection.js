// SPDX-License-Identifier: Apache-2.0
// The selection in the URL (selector, time range, filters) as parameters of the API, which have the same names.
import { timeText } from "../format.js";
import { param } from "../url.js";

export const DEFAULT_FROM = "now-1h", DEFAULT_TO = "now";
export const presets = [
	["now-15m", "Last 15 minutes"], ["now-1h", "Last hour"], ["now-6h", "Last 6 hours"], ["now-24h", "Last 24 hours"], ["now-7d", "Last 7 days"], ["now-30d", "Last 30 days"],
];

const VIEW = ["by", "label", "focus", "ignore", "hide", "show", "invert", "no_inlines"];
const BASE = ["base", "base_from", "base_to", "base_profile", "normalise"];

// Split 'TYPE{MATCHERS}'.
export function cutSelector(text) {
	const brace = text.indexOf("{");
	return brace < 0 ? { type: text.trim(), matchers: "" }
		: { type: text.slice(0, brace).trim(), matchers: text.slice(brace + 1).replace(/\}\s*$/, "").trim() };
}
export const joinSelector = (type, matchers) => matchers ? `${type}{${matchers}}` : type;

// Quote a value for a selector.
export const quoted = (value) => `"${value.replace(/[\\"]/g, "\\$&").replaceAll("\n", "\\n")}"`;

export const compares = () => param("compare") === "1";

const range = (prefix = "") => ({ [`${prefix}from`]: param(`${prefix}from`) || DEFAULT_FROM, [`${prefix}to`]: param(`${prefix}to`) || DEFAULT_TO });

// The parameters that select profiles.
export const profilesAsked = () => ({ query: param("query"), ...range(), profile: param("profile") });
export const baseAsked = () => ({ query: param("base") || param("query"), from: param("base_from") || baseDefault().base_from, to: param("base_to") || baseDefault().base_to });

// The parameters that select profiles, and those of the view: grouping, filters, comparison.
export function viewAsked() {
	const asked = profilesAsked();
	for (const name of VIEW)
		asked[name] = param(name);
	if (compares()) {
		for (const name of BASE)
			asked[name] = param(name);
		Object.assign(asked, { base_from: baseAsked().from, base_to: baseAsked().to });
		asked.base ||= asked.query;
	}
	return asked;
}

/* ---- times ---- */

const UNITS = { ms: 1, s: 1000, m: 60e3, h: 3600e3, d: 86400e3, w: 7 * 86400e3 };
const RELATIVE = /^now(?:([-+])((?:\d+(?:ms|[smhdw]))+))?$/;

// "1h30m" in milliseconds.
const lengthOf = (text) => [...text.matchAll(/(\d+)(ms|[smhdw])/g)].reduce((sum, [, n, unit]) => sum + n * UNITS[unit], 0);

// A time of the URL in milliseconds since 1970; NaN if it is malformed.
export function timeOf(text, now = Date.now()) {
	const relative = RELATIVE.exec(text);
	if (relative)
		return now + (relative[1] === "-" ? -1 : 1) * lengthOf(relative[2] ?? "");
	return /^\d+$/.test(text) ? Number(text) : Date.parse(text);
}

// The default base of a comparison: the range before the selected one, of the same length.
function baseDefault() {
	const from = param("from") || DEFAULT_FROM, to = param("to") || DEFAULT_TO, ago = RELATIVE.exec(from);
	if (ago?.[1] === "-" && to === "now")
		return { base_from: from.replace(/\d+/g, (n) => 2 * n), base_to: from };
	const a = timeOf(from), b = timeOf(to);
	return { base_from: String(a - (b - a)), base_to: String(a) };
}

export function rangeText(from, to) {
	const preset = to === "now" && presets.find(([value]) => value === from);
	return preset ? preset[1] : `${timeText(timeOf(from))} – ${to === "now" ? "now" : timeText(timeOf(to))}`;
}
