// SPDX-License-Identifier: Apache-2.0
// Numbers, sizes and times in words.

export const number = (n) => n.toLocaleString("en-US");

export function count(n, one, many = one + "s") {
	return `${number(n)} ${n === 1 ? one : many}`;
}

export function bytes(n) {
	const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
	let unit = 0;
	while (n >= 1023.5 && unit < units.length - 1) {
		n /= 1024;
		unit++;
	}
	return `${unit && n < 99.95 ? n.toFixed(1) : Math.round(n)} ${units[unit]}`;
}

export function percent(part, whole) {
	if (!whole)
		return "0 %";
	const p = 100 * part / whole;
	if (p > 0 && p < 0.1)
		return "< 0.1 %";
	// 100 % only if the part is the whole.
	return `${p >= 99.5 && part < whole ? "99" : p < 10 && p > 0 ? p.toFixed(1) : Math.round(p)} %`;
}

// Milliseconds as "12 s", "3 min", "5 h 20 min", "4 days".
export function duration(ms) {
	const s = Math.round(ms / 1000);
	if (s < 100)
		return `${s} s`;
	const min = Math.round(s / 60);
	if (min < 100)
		return `${min} min`;
	const h = Math.floor(min / 60);
	if (h < 48)
		return `${h} h${h < 10 && min % 60 ? ` ${min % 60} min` : ""}`;
	return `${Math.round(min / 60 / 24)} days`;
}

export function rate(perSecond) {
	if (perSecond === 0)
		return "0/s";
	if (perSecond < 0.095)
		return perSecond * 60 < 0.095 ? "< 0.1/min" : `${(perSecond * 60).toFixed(1)}/min`;
	return `${perSecond < 10 ? perSecond.toFixed(1) : number(Math.round(perSecond))}/s`;
}

// The time of day, with the date if that is not today, and with the year if that is not this year. @parts: those of the time.
function dated(then, parts) {
	const time = then.toLocaleTimeString([], parts), today = new Date(), date = { day: "numeric", month: "short" };
	if (then.toDateString() === today.toDateString())
		return time;
	if (then.getFullYear() !== today.getFullYear())
		date.year = "numeric";
	return `${then.toLocaleDateString([], date)}, ${time}`;
}

// A time in ms since 1970, to the second.
export const timeText = (ms) => dated(new Date(ms), { hour: "2-digit", minute: "2-digit", second: "2-digit" });

// The time @msAgo ago, to the minute.
export const clock = (msAgo) => dated(new Date(Date.now() - msAgo), { hour: "2-digit", minute: "2-digit" });

// Quoted for a POSIX shell.
export function shellWord(text) {
	return /^[A-Za-z0-9_@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

// The URL at which the browser reaches this server, with a slash at the end.
export const base = () => new URL(".", location.href).href;
