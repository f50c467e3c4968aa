// SPDX-License-Identifier: Apache-2.0
// Formats values of profiles by their unit.

const SCALES = {
	nanoseconds: [["ns", 1000], ["µs", 1000], ["ms", 1000], ["s", 60], ["min", 60], ["h", 0]],
	microseconds: [["µs", 1000], ["ms", 1000], ["s", 60], ["min", 60], ["h", 0]],
	milliseconds: [["ms", 1000], ["s", 60], ["min", 60], ["h", 0]],
	seconds: [["s", 60], ["min", 60], ["h", 0]],
	bytes: [["B", 1024], ["kB", 1024], ["MB", 1024], ["GB", 1024], ["TB", 0]],
};

// "1.25 s", "3.4 MB", "1,234".
export function valueText(v, unit) {
	// Profiles have any units, also "constructor".
	const steps = Object.hasOwn(SCALES, unit) ? SCALES[unit] : null;
	if (!steps)
		return v.toLocaleString("en-US");
	let i = 0;
	while (steps[i][1] && Math.abs(v) >= steps[i][1])
		v /= steps[i++][1];
	return `${Number.isInteger(v) ? v : v.toFixed(2)} ${steps[i][0]}`;
}

// The share of @v in @whole, with two decimals: "12.34 %".
export function shareText(v, whole) {
	return `${whole ? (100 * v / whole).toFixed(2) : "0.00"} %`;
}
