// SPDX-License-Identifier: Apache-2.0
// Reads the build ID of a local ELF file from its notes, and only the parts of the file that this needs. Every length is checked, since a
// dropped file may have any content.
import { APPLE, kindOf } from "./foreign.js";

const HEAD_SIZE = 1024, NOTES_MAX = 1 << 20, HEADERS_MAX = 64 << 20, SHT_NOTE = 7, PT_NOTE = 4, NT_GNU_BUILD_ID = 3;

export class NotUsable extends Error {}

async function bytesAt(file, offset, size, what) {
	if (offset + size > file.size)
		throw new NotUsable(`${file.name} ends within ${what}: it is damaged or incomplete.`);
	return new DataView(await file.slice(offset, offset + size).arrayBuffer());
}

function idInNotes(view, little, align) {
	const up = (n) => Math.ceil(n / align) * align;
	for (let at = 0; at + 12 <= view.byteLength;) {
		const nameSize = view.getUint32(at, little), size = view.getUint32(at + 4, little), type = view.getUint32(at + 8, little);
		const name = at + 12, desc = name + up(nameSize), next = desc + up(size);
		if (desc + size > view.byteLength)
			return null;
		if (type === NT_GNU_BUILD_ID && nameSize === 4 && view.getUint32(name, false) === 0x474e5500 && size)
			return Array.from({ length: size }, (_, i) => view.getUint8(desc + i).toString(16).padStart(2, "0")).join("");
		at = next;
	}
	return null;
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

// Return the build ID in lower case. NotUsable has a sentence with the reason if there is none.
export async function buildIdOf(file) {
	const head = await headOf(file), foreign = kindOf(head);
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
	for (const t of tables) {
		const least = Math.max(t.type + 4, t.align + (wide ? 8 : 4));
		if (!t.offset || !t.n || t.size < least || t.size * t.n > HEADERS_MAX)
			continue;
		const view = await bytesAt(file, t.offset, t.size * t.n, t.what);
		for (let i = 0; i < t.n; i++) {
			const at = i * t.size, length = word(view, at + t.length), offset = word(view, at + t.place);
			if (view.getUint32(at + t.type, little) !== t.is || length > NOTES_MAX || offset + length > file.size)
				continue;
			const notes = await bytesAt(file, offset, length, "its notes"), id = idInNotes(notes, little, word(view, at + t.align) === 8 ? 8 : 4);
			if (id)
				return id;
		}
	}
	throw new NotUsable(`${file.name} has no build ID, so it could not be found. Link with --build-id.`);
}
