/* SPDX-License-Identifier: Apache-2.0 */
/* Advice on how to get the names of addresses that a command could not name. */
#include <stdlib.h>
#include "cmd/symbolize/symbolize.h"
#include "local/distro.h"

void symbolize_print_advice(const struct lookup_options *places, enum frame_reason reason, struct str file)
{
	const char *urls = places->urls ? places->urls : getenv("DEBUGINFOD_URLS");
	AUTO(buf_done) struct buf package = { 0 }, install = { 0 }, advice = { 0 };
	struct frame_case c = { .reason = reason, .file = file };
	struct local_distro distro;

	local_distro_read("", &distro);
	c.server = str_of(distro.server);
	c.asked = str_of(places->local_only || !urls ? "" : urls);
	c.asks_nobody = !c.asked.size;
	/* Not for other reasons: all lists of dpkg are read. */
	if (frame_reason_lacks_file(reason) &&
	    (local_package_installed("", file, &package) || local_package_by_rule(file, &package)))
		c.package = buf_str(&package);
	local_install_advice(&distro, c.package, file, &install);
	c.install = buf_str(&install);
	frame_advice(&c, &advice);
	if (!advice.size)
		return;
	fprintf(stderr, "            ");
	print_text(stderr, buf_str(&advice));
	fputc('\n', stderr);
}
