/* SPDX-License-Identifier: Apache-2.0 */
/* Advice to a client of this server about addresses without names. */
#include "local/distro.h"
#include "server/internal.h"

/* "/pool/liblzma5_5.4.1-0.2_amd64.deb: usr/lib/liblzma.so.5" */
struct str server_origin_package(struct str origin)
{
	const char *end = origin.size ? memmem(origin.p, origin.size, ": ", 2) : NULL;

	return end ? (struct str){ origin.p, (size_t)(end - origin.p) } : STR("");
}

/* This machine's distribution is only a guess: profiles and build IDs are of others. */
static struct local_distro this_distro;
static pthread_once_t distro_once = PTHREAD_ONCE_INIT;

static void read_this_distro(void)
{
	local_distro_read("", &this_distro);
}

void server_advice(const struct server *s, const struct server_case *c, struct buf *out)
{
	AUTO(buf_done) struct buf asked = { 0 }, package = { 0 };
	struct frame_case f = { .reason = c->reason,
				.at_server = true,
				.asks_nobody = !s->opts.n_upstreams,
				.file = c->file,
				.missing = s->opts.hide_archive ? STR("") : c->missing };

	pthread_once(&distro_once, read_this_distro);
	f.server = str_of(this_distro.server);
	for (size_t i = 0; i < s->opts.n_upstreams; i++)
		buf_printf(&asked, "%s%s", i ? " " : "", s->opts.upstreams[i]);
	f.asked = buf_str(&asked);
	if (local_package_beside(c->package, &package) || local_package_by_rule(c->file, &package))
		f.package = buf_str(&package);
	frame_advice(&f, out);
}
