// SPDX-License-Identifier: Apache-2.0
// Reads the identities of a local ELF file: the build IDs in its notes (GNU's, Go's), and the hash of both its ends, which OpenTelemetry's
// agent has. Only the parts of the file that this needs are read. Every length is checked, since a dropped file may have any content.
import { APPLE, kindOf } from "./foreign.js";

const HEAD_SIZE = 1024, NOTES_MAX = 1 << 20, HEADERS_MAX = 64 << 20, SHT_SYMTAB = 2, SHT_NOTE = 7, PT_NOTE = 4, NT_GNU_BUILD_ID = 3, NT_GO_BUILD_ID = 4;
const HASH_END = 4096, HASH_DIGITS = 32, ET_EXEC = 2, ET_DYN = 3;
// Two or four hashes in base64 for URLs. The words that build systems write in its place identify no file.
const GO_TEXT = /^(?=.*\/)[A-Za-z0-9_/-]{32,84}$/;

export class NotUsable extends Error {}

async function bytesAt(file, offset, size, what) {
	if (offset + size > file.size)
		throw new NotUsable(`${file.name} ends within ${what}: it is damaged or incomplete.`);
	return new DataView(await file.slice(offset, offset + size).arrayBuffer());
}

const hex = (bytes) => Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");

// Note the first build ID of each kind in @found.
function readNotes(view, little, align, found) {
	const up = (n) => Math.ceil(n / align) * align;
	for (let at = 0; at + 12 <= view.byteLength;) {
		const nameSize = view.getUint32(at, little), size = view.getUint32(at + 4, little), type = view.getUint32(at + 8, little);
		const name = at + 12, desc = name + up(nameSize), next = desc + up(size);
		if (desc + size > view.byteLength)
			return;
		const owner = nameSize === 4 && size ? view.getUint32(name, false) : 0, bytes = () => new Uint8Array(view.buffer, view.byteOffset + desc, size);
		if (type === NT_GNU_BUILD_ID && owner === 0x474e5500)
			found.gnu ??= hex(bytes());
		else if (type === NT_GO_BUILD_ID && owner === 0x476f0000 && GO_TEXT.test(String.fromCharCode(...bytes().slice(0, 100))))
			found.go ??= hex(bytes());
		at = next;
	}
}

// Undefined where the browser has no hashes: in a page without TLS that is not of this machine.
async function hashOf(file) {
	const n = Math.min(HASH_END, file.size), bytes = new Uint8Array(2 * n + 8);
	bytes.set(new Uint8Array(await file.slice(0, n).arrayBuffer()));
	bytes.set(new Uint8Array(await file.slice(file.size - n).arrayBuffer()), n);
	new DataView(bytes.buffer).setBigUint64(2 * n, BigInt(file.size));
	const sum = await globalThis.crypto?.subtle?.digest("SHA-256", bytes);
	return sum && hex(new Uint8Array(sum)).slice(0, HASH_DIGITS);
}

// The first bytes. A browser lists a dropped folder as a file that cannot be read.
async function headOf(file) {
	try {
		return await bytesAt(file, 0, Math.min(HEAD_SIZE, file.size), "its header");
	} catch (error) {
		if (file.name.endsWith(".dSYM"))
			throw new NotUsable(`${file.name} is a .dSYM folder, debug information of Apple's systems (Mach-O): ${APPLE}.`);
		throw new NotUsable(`${file.name} cannot be read (${error.message}). If it is a folder, drop the files in it.`);
	}
}

// Whether sections have symbols or debug information. A stripped program has neither; Go's have a table of their own.
async function hasSymbols(file, names, types) {
	if (types.includes(SHT_SYMTAB))
		return true;
	if (!names || names.length > NOTES_MAX || names.offset + names.length > file.size)
		return false;
	const view = await bytesAt(file, names.offset, names.length, "its section names");
	return /\0\.z?debug_/.test(new TextDecoder("latin1").decode(view));
}

// Return { ids, kind }: the identities in hexadecimal, in lower case, of which the first one is the build ID; and "debuginfo" or "executable".
// NotUsable has a sentence with the reason if there is none.
export async function identify(file) {
	const found = {}, head = await headOf(file), foreign = kindOf(head);
	if (foreign)
		throw new NotUsable(`${file.name} is not an ELF file, but ${foreign.name}: ${foreign.help}.`);
	if (file.size < 52)
		throw new NotUsable(`${file.name} ends within its header: it is damaged or incomplete.`);
	const wide = head.getUint8(4) === 2, little = head.getUint8(5) === 1, sized = wide ? 64 : 52;
	if (![1, 2].includes(head.getUint8(4)) || ![1, 2].includes(head.getUint8(5)) || file.size < sized)
		throw new NotUsable(`${file.name} has an invalid ELF header.`);
	const word = (view, at) => wide ? Number(view.getBigUint64(at, little)) : view.getUint32(at, little);
	const tables = [
		{ what: "its section headers", offset: word(head, wide ? 40 : 32), size: head.getUint16(wide ? 58 : 46, little), n: head.getUint16(wide ? 60 : 48, little), is: SHT_NOTE,
			type: 4, place: wide ? 24 : 16, length: wide ? 32 : 20, align: wide ? 48 : 32 },
		{ what: "its program headers", offset: word(head, wide ? 32 : 28), size: head.getUint16(wide ? 54 : 42, little), n: head.getUint16(wide ? 56 : 44, little), is: PT_NOTE,
			type: 0, place: wide ? 8 : 4, length: wide ? 32 : 16, align: wide ? 48 : 28 },
	];
	let symbols = false;
	for (const t of tables) {
		const least = Math.max(t.type + 4, t.align + (wide ? 8 : 4));
		if (!t.offset || !t.n || t.size < least || t.size * t.n > HEADERS_MAX)
			continue;
		const view = await bytesAt(file, t.offset, t.size * t.n, t.what);
		if (t.is === SHT_NOTE) {
			const i = head.getUint16(wide ? 62 : 50, little), at = i * t.size;
			symbols = await hasSymbols(file, i < t.n ? { offset: word(view, at + t.place), length: word(view, at + t.length) } : null,
				Array.from({ length: t.n }, (_, k) => view.getUint32(k * t.size + t.type, little)));
		}
		for (let i = 0; i < t.n; i++) {
			const at = i * t.size, length = word(view, at + t.length), offset = word(view, at + t.place);
			if (view.getUint32(at + t.type, little) !== t.is || length > NOTES_MAX || offset + length > file.size)
				continue;
			readNotes(await bytesAt(file, offset, length, "its notes"), little, word(view, at + t.align) === 8 ? 8 : 4, found);
		}
	}
	const mapped = [ET_EXEC, ET_DYN].includes(head.getUint16(16, little));
	if (mapped)
		found.hash = await hashOf(file);
	const ids = [found.gnu, found.go, found.hash].filter((id) => id);
	if (ids.length)
		return { ids, kind: symbols || !mapped ? "debuginfo" : "executable" };
	throw new NotUsable(`${file.name} has no build ID, so it could not be found. Link with --build-id.`);
}
