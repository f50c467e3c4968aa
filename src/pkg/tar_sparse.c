/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The map of a sparse tar member: the stored parts of the expanded file. All of GNU tar's formats are
 * converted to it.
 */
#include "base/vec.h"
#include "pkg/internal.h"

#include <stdlib.h>

void sparse_reset(struct sparse *m)
{
	m->n = m->i = 0;
	m->real_size = m->stored = m->pos = 0;
}

void sparse_done(struct sparse *m)
{
	free(m->parts);
	*m = (struct sparse){ 0 };
}

int sparse_add(struct sparse *m, uint64_t off, uint64_t size, struct err *err)
{
	struct sparse_part *last = m->n ? &m->parts[m->n - 1] : NULL;
	uint64_t end;

	if (add_overflows(off, size, &end) || end > PKG_MAX_SPARSE)
		return err_set(err, ERR_LIMIT, "sparse map: a part at %llu", (unsigned long long)off);
	if (last && off < last->off + last->size)
		return err_set(err, ERR_INVALID,
			       "sparse map: the part at %llu begins before the last one's end",
			       (unsigned long long)off);
	/* An empty part only marks the file's end. */
	if (!size)
		return 0;
	if (last && off == last->off + last->size) {
		last->size += size;
		m->stored += size;
		return 0;
	}
	if (m->n >= SPARSE_MAX_PARTS)
		return err_set(err, ERR_LIMIT, "sparse map: more than %u parts", SPARSE_MAX_PARTS);
	VEC_PUSH(m->parts, m->n, m->room) = (struct sparse_part){ off, size };
	m->stored += size;
	return 0;
}

int sparse_parse_list(struct sparse *m, struct str list, struct err *err)
{
	uint64_t off, size;

	while (list.size) {
		struct str off_text = str_cut(&list, ','), size_text = str_cut(&list, ',');

		if (!str_to_u64(off_text, &off) || !str_to_u64(size_text, &size))
			return err_set(err, ERR_INVALID, "sparse map: not a list of pairs of numbers");
		if (sparse_add(m, off, size, err) < 0)
			return -1;
	}
	return 0;
}

int sparse_begin(struct sparse *m, uint64_t real_size, uint64_t stored, struct err *err)
{
	const struct sparse_part *last = m->n ? &m->parts[m->n - 1] : NULL;

	if (real_size > PKG_MAX_SPARSE)
		return err_set(err, ERR_LIMIT, "sparse member of %llu bytes", (unsigned long long)real_size);
	if (last && last->off + last->size > real_size)
		return err_set(err, ERR_INVALID,
			       "sparse map: ends at %llu, after the end of a file of %llu bytes",
			       (unsigned long long)(last->off + last->size), (unsigned long long)real_size);
	if (m->stored > stored)
		return err_set(err, ERR_INVALID, "sparse map: names %llu bytes, but %llu are stored",
			       (unsigned long long)m->stored, (unsigned long long)stored);
	m->real_size = real_size;
	m->pos = 0;
	m->i = 0;
	return 0;
}

void sparse_at(struct sparse *m, bool *ret_hole, uint64_t *ret_n)
{
	while (m->i < m->n && m->pos >= m->parts[m->i].off + m->parts[m->i].size)
		m->i++;
	*ret_hole = m->i == m->n || m->pos < m->parts[m->i].off;
	if (m->i == m->n)
		*ret_n = m->real_size - m->pos;
	else if (*ret_hole)
		*ret_n = m->parts[m->i].off - m->pos;
	else
		*ret_n = m->parts[m->i].off + m->parts[m->i].size - m->pos;
}
