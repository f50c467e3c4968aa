/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The manifest of a snapshot: lines of text, each a word and its values. Anything that is not as it is written here is an
 * error: it is not ours, or damaged.
 */
#include "facts/internal.h"

#include <inttypes.h>
#include <stdlib.h>

#define HEAD           "lode-index 1"
#define SIZE_MAX_TAKEN ((uint64_t)PIECES_MAX * PIECE_SIZE)

void manifest_write(const struct manifest *m, struct buf *ret)
{
	char hex[2 * SHA256_SIZE + 1];

	buf_printf(ret, HEAD "\nsize %" PRIu64 "\nrows %" PRIu64 "\nfingerprint %016" PRIx64 "\n", m->size,
		   m->n_rows, m->fingerprint);
	for (size_t i = 0; i < m->n_pieces; i++) {
		hex_encode(bytes_of(m->pieces[i].sha256, SHA256_SIZE), hex);
		buf_printf(ret, "piece %" PRIu32 " %s\n", m->pieces[i].packed, hex);
	}
	buf_printf(ret, "end\n");
}

void manifest_done(struct manifest *m)
{
	free(m->pieces);
	*m = (struct manifest){ 0 };
}

/* The next line is "<word> <value>": the value. Each line has an end. */
static bool next_manifest_value(struct str *rest, struct str word, struct str *ret)
{
	struct str line = str_cut(rest, '\n');

	if (!rest->p || !str_eq(str_cut(&line, ' '), word) || !line.size)
		return false;
	*ret = line;
	return true;
}

/* Exactly @size bytes. */
static bool read_hex(struct str hex, uint8_t *ret, size_t size)
{
	size_t got;

	return hex_decode(hex, false, ret, size, &got) && got == size;
}

static bool next_number(struct str *rest, struct str word, uint64_t *ret)
{
	struct str v;

	return next_manifest_value(rest, word, &v) && str_to_u64(v, ret);
}

static bool next_fingerprint(struct str *rest, uint64_t *ret)
{
	uint8_t raw[8];
	struct str v;

	if (!next_manifest_value(rest, STR("fingerprint"), &v) || !read_hex(v, raw, sizeof(raw)))
		return false;
	*ret = 0;
	for (size_t i = 0; i < sizeof(raw); i++)
		*ret = *ret << 8 | raw[i];
	return true;
}

static bool next_piece(struct str *rest, struct piece *ret)
{
	struct str v;
	uint64_t packed;

	if (!next_manifest_value(rest, STR("piece"), &v) || !str_to_u64(str_cut(&v, ' '), &packed) ||
	    !packed || packed > PACKED_MAX || !read_hex(v, ret->sha256, SHA256_SIZE))
		return false;
	ret->packed = (uint32_t)packed;
	return true;
}

static bool read_all(struct str rest, struct manifest *m)
{
	if (!str_eq(str_cut(&rest, '\n'), STR(HEAD)) || !next_number(&rest, STR("size"), &m->size) ||
	    !m->size || m->size > SIZE_MAX_TAKEN || !next_number(&rest, STR("rows"), &m->n_rows) ||
	    !next_fingerprint(&rest, &m->fingerprint))
		return false;
	m->n_pieces = (size_t)((m->size + PIECE_SIZE - 1) / PIECE_SIZE);
	m->pieces = NEW_N(struct piece, m->n_pieces);
	for (size_t i = 0; i < m->n_pieces; i++)
		if (!next_piece(&rest, &m->pieces[i]))
			return false;
	return str_eq(rest, STR("end\n"));
}

int manifest_read(struct bytes text, struct manifest *ret, struct err *err)
{
	*ret = (struct manifest){ 0 };
	if (read_all((struct str){ (const char *)text.p, text.size }, ret))
		return 0;
	manifest_done(ret);
	return err_set(err, ERR_INVALID, "no manifest of a snapshot of this version, or a damaged one");
}
