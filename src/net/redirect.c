/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which redirects are followed, and which paths may be appended to the URL of a server. Pure functions: wire.c
 * has URLs taken apart by libcurl, so that the URL judged here is the one that libcurl will request.
 */
#include "net/internal.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <strings.h>

/* ---- addresses ---- */

static bool v4_is_private(uint32_t a)
{
	static const struct {
		uint32_t net;
		unsigned n_bits;
	} nets[] = {
		{ 0x00000000, 8 },  /* this host */
		{ 0x0a000000, 8 },  /* RFC 1918 */
		{ 0x64400000, 10 }, /* shared by customers of a provider */
		{ 0x7f000000, 8 },  /* loopback */
		{ 0xa9fe0000, 16 }, /* link-local; clouds have their metadata there */
		{ 0xac100000, 12 }, /* RFC 1918 */
		{ 0xc0000000, 24 }, /* protocol assignments */
		{ 0xc0a80000, 16 }, /* RFC 1918 */
		{ 0xc6120000, 15 }, /* benchmarks */
		{ 0xe0000000, 3 },  /* multicast, reserved, broadcast */
	};

	for (size_t i = 0; i < ARRAY_SIZE(nets); i++)
		if ((a ^ nets[i].net) >> (32 - nets[i].n_bits) == 0)
			return true;
	return false;
}

static uint32_t be32_at(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static bool v6_is_private(const uint8_t b[16])
{
	static const uint8_t zeros[12], nat64[12] = { 0x00, 0x64, 0xff, 0x9b };

	/* ::, ::1 and addresses of IPv4 in their three forms */
	if (memcmp(b, zeros, 12) == 0)
		return true;
	if (memcmp(b, zeros, 10) == 0 && b[10] == 0xff && b[11] == 0xff)
		return v4_is_private(be32_at(b + 12));
	if (memcmp(b, nat64, 12) == 0)
		return v4_is_private(be32_at(b + 12));
	if (b[0] == 0x20 && b[1] == 0x02)
		return v4_is_private(be32_at(b + 2));
	return (b[0] & 0xfe) == 0xfc || (b[0] == 0xfe && b[1] >= 0x80) || b[0] == 0xff;
}

bool address_is_private(const char *text)
{
	char bare[INET6_ADDRSTRLEN];
	uint8_t b[16];

	/* fe80::1%eth0 */
	snprintf(bare, sizeof(bare), "%.*s", (int)MIN(strcspn(text, "%"), sizeof(bare) - 1), text);
	if (inet_pton(AF_INET, bare, b) == 1)
		return v4_is_private(be32_at(b));
	return inet_pton(AF_INET6, bare, b) != 1 || v6_is_private(b);
}

/* ---- redirects ---- */

const char *redirect_fault(enum net_redirects allowed, const struct origin *from, const struct origin *to)
{
	bool was_tls = strcasecmp(from->scheme, "https") == 0, is_tls = strcasecmp(to->scheme, "https") == 0;

	if (!is_tls && strcasecmp(to->scheme, "http") != 0)
		return "to a scheme other than http and https";
	if (was_tls && !is_tls)
		return "from https to http";
	if (allowed == NET_REDIRECT_ANY_HOST)
		return NULL;
	if (strcasecmp(from->host, to->host) != 0)
		return "to another host: name that one as server, or allow redirects";
	if (from->port != to->port && !(!was_tls && is_tls && from->port == 80 && to->port == 443))
		return "to another port: name that one as server, or allow redirects";
	return NULL;
}

/* ---- paths ---- */

static bool hex_at(const char *p, uint8_t *ret)
{
	size_t n;

	return hex_decode((struct str){ p, 2 }, true, ret, 1, &n);
}

/*
 * Decode in place as often as there are escapes, in one pass: "%252525..." is decoded once for each "25", and rounds over the
 * whole text would take quadratic time. Escapes do not overlap, so the result is that of rounds. Returns its size.
 */
static size_t decode_fully(char *p, size_t size)
{
	size_t n = 0;

	for (size_t i = 0; i < size; i++) {
		uint8_t byte;

		p[n++] = p[i];
		/* A decoded byte may be the end of another escape. */
		while (n >= 3 && p[n - 3] == '%' && hex_at(p + n - 2, &byte)) {
			n -= 2;
			p[n - 1] = (char)byte;
		}
	}
	return n;
}

/* Some servers take a backslash for a slash, and cut a segment at ";". */
static bool has_parent_segment(const char *p, size_t size)
{
	for (size_t i = 0; i < size;) {
		size_t end = i, n;

		while (end < size && p[end] != '/' && p[end] != '\\')
			end++;
		for (n = 0; i + n < end && p[i + n] != ';'; n++)
			;
		if (n == 2 && p[i] == '.' && p[i + 1] == '.')
			return true;
		i = end + 1;
	}
	return false;
}

bool net_path_is_inside(struct str path)
{
	AUTO(mem_freep) char *p = mem_alloc(path.size + 1);
	size_t size;

	/* Dots, separators and NULs are in no escape: those that a server finds after fewer rounds are found here, too. */
	memcpy(p, path.p, path.size);
	size = decode_fully(p, path.size);
	return !memchr(p, '\0', size) && !has_parent_segment(p, size);
}
