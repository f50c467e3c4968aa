/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names that a service answers to, compared with the Host of a request.
 *
 * A page of a site whose DNS answers are changed to this service's address (DNS rebinding) is, for the browser, a
 * page of this service: no other header differs. Its Host is still the name of that site. No page can have an IP
 * address or "localhost" as its name unless it comes from there.
 */
#pragma once

#include "base/base.h"

enum host_kind {
	HOST_NONE,  /* no Host */
	HOST_LOCAL, /* localhost, a name below it, or a loopback address */
	HOST_OURS, /* another IP address, this machine's name, a name that is listened on, or a given URL's */
	HOST_FOREIGN, /* another name */
};

struct hosts;

/*
 * @listen: "ADDR:PORT" as for listen_open(); @urls: "https://name:port/path" or "name". ERR_INVALID: an URL has no
 * name. This machine's name is that of gethostname(), whole and up to its first dot; DNS is not asked.
 */
int hosts_new(const struct str *listen, size_t n_listen, const struct str *urls, size_t n_urls,
	      struct hosts **ret, struct err *err);
void hosts_free(struct hosts *h); /* takes NULL */
/* @host: the value of the header, with or without a port; NULL: there is none. Safe for many threads. */
enum host_kind hosts_judge(const struct hosts *h, const char *host);
/* The text of a 421 for @host, in @text; logs it, at most once a minute. */
void hosts_refuse(struct hosts *h, const char *host, char *text, size_t size);
