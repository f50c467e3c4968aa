/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host against the names of a service. The input is lines: an address that is listened on, a public URL, then values
 * of Host.
 */
#include "fuzz.h"

#include <ctype.h>
#include <stdlib.h>
#include "http/host.h"

#define TEXT_SIZE 400u

/* The name has neither port nor bracket nor a dot at the end. */
static bool is_plain(const char *host)
{
	return *host && !strpbrk(host, ":[]") && host[strlen(host) - 1] != '.';
}

static void check_refusal(struct hosts *h, const char *host)
{
	char text[TEXT_SIZE];

	memset(text, 1, sizeof(text));
	hosts_refuse(h, host, text, sizeof(text));
	FUZZ_CHECK(memchr(text, '\0', sizeof(text)));
	for (const char *p = text; *p; p++)
		FUZZ_CHECK((unsigned char)*p >= ' ' && (unsigned char)*p < 0x7f);
}

static void check_host(struct hosts *h, const char *host)
{
	enum host_kind kind = hosts_judge(h, host);
	AUTO(mem_freep) char *upper = mem_strdup(host);
	AUTO(mem_freep) char *port = mem_printf("%s:8002", host);
	AUTO(mem_freep) char *dot = mem_printf("%s.", host);
	AUTO(mem_freep) char *below = mem_printf("%s.example.com", host);

	FUZZ_CHECK(kind == HOST_LOCAL || kind == HOST_OURS || kind == HOST_FOREIGN);
	for (char *p = upper; *p; p++)
		*p = (char)toupper((unsigned char)*p);
	FUZZ_CHECK(hosts_judge(h, upper) == kind);
	if (is_plain(host)) {
		FUZZ_CHECK(hosts_judge(h, port) == kind);
		FUZZ_CHECK(hosts_judge(h, dot) == kind);
	}
	/* A name of someone's domain is never local, whatever it begins with. */
	if (is_plain(host))
		FUZZ_CHECK(hosts_judge(h, below) != HOST_LOCAL);
	if (kind == HOST_FOREIGN)
		check_refusal(h, host);
}

/* A listened or given name is ours. */
static void check_own(struct hosts *h, struct str name)
{
	AUTO(mem_freep) char *text = mem_strndup(name.p, name.size);

	if (is_plain(text) && strlen(text) == name.size && name.size <= 255)
		FUZZ_CHECK(hosts_judge(h, text) != HOST_FOREIGN);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* Texts of lode's own end in a NUL, as these do. */
	AUTO(mem_freep) char *copy = mem_strndup(size ? (const char *)data : "", size);
	struct str rest = str_of(copy), listen = str_cut(&rest, '\n'), url = str_cut(&rest, '\n');
	struct hosts *h;
	struct err err = { 0 };

	if (hosts_new(&listen, 1, &url, url.size ? 1 : 0, &h, &err) < 0) {
		FUZZ_CHECK(err.kind == ERR_INVALID);
		return 0;
	}
	FUZZ_CHECK(hosts_judge(h, NULL) == HOST_NONE);
	if (!str_starts(listen, STR("unix:")))
		check_own(h, listen);
	if (url.size && !memchr(url.p, '/', url.size))
		check_own(h, url);
	while (rest.size) {
		struct str line = str_cut(&rest, '\n');
		AUTO(mem_freep) char *host = mem_strndup(line.p, line.size);

		check_host(h, host);
	}
	hosts_free(h);
	return 0;
}
