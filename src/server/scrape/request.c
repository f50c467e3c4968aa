/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The request for a profile: its URL, and the header with the password or token.
 */
#include "server/scrape/internal.h"

void scrape_url(const struct scrape_target *t, const struct scrape_profile *p, bool shown, struct buf *out)
{
	buf_printf(out, "%s%s", shown ? t->shown : t->base, p->path);
	if (p->timed)
		buf_printf(out, "%cseconds=%lld", strchr(p->path, '?') ? '&' : '?', (long long)p->seconds);
}

/* The content of the file, without white space at its ends. It becomes a header: one line. */
static int secret_read(const char *path, struct buf *ret, struct err *err)
{
	int r = file_read(path, SCRAPE_MAX_SECRET, ret, err);
	struct str s;

	if (r == FILE_MISSING)
		return err_set(err, ERR_IO, "%s: no such file", path);
	if (r < 0)
		return -1;
	s = str_trim(buf_str(ret));
	for (size_t i = 0; i < s.size; i++)
		if ((uint8_t)s.p[i] < ' ' || s.p[i] == 0x7f)
			return err_set(err, ERR_INVALID, "%s: more than one line, or control characters",
				       path);
	if (!s.size)
		return err_set(err, ERR_INVALID, "%s: it is empty", path);
	if (s.p != (const char *)ret->p)
		memmove(ret->p, s.p, s.size);
	ret->size = s.size;
	return 0;
}

int scrape_authorization(const struct scrape_group *g, struct buf *out, struct err *err)
{
	AUTO(buf_done) struct buf secret = { 0 }, pair = { 0 };
	const char *path = g->auth_file ? g->auth_file : g->password_file;

	if (path && secret_read(path, &secret, err) < 0)
		return -1;
	if (g->auth_file) {
		buf_printf(out, "Authorization: %s ", g->auth_type);
		buf_add_str(out, buf_str(&secret));
	} else if (g->user) {
		buf_printf(&pair, "%s:", g->user);
		buf_add_str(&pair, buf_str(&secret));
		buf_printf(out, "Authorization: Basic ");
		base64_encode(buf_bytes(&pair), out);
	}
	return 0;
}
