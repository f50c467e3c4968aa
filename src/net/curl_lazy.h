/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of libcurl that net uses, loaded with the first struct net, since libcurl brings some thirty
 * libraries with it. Included by the one file that calls them.
 */
#pragma once

/* Its type checks are macros that would call the functions by name. */
#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>
#include "base/lazy.h"

#undef curl_easy_setopt
#undef curl_easy_getinfo
#undef curl_multi_setopt

#define CURL_FUNCTIONS(X)           \
	X(curl_easy_cleanup)        \
	X(curl_easy_getinfo)        \
	X(curl_easy_init)           \
	X(curl_easy_setopt)         \
	X(curl_easy_strerror)       \
	X(curl_global_init)         \
	X(curl_multi_add_handle)    \
	X(curl_multi_cleanup)       \
	X(curl_multi_info_read)     \
	X(curl_multi_init)          \
	X(curl_multi_perform)       \
	X(curl_multi_poll)          \
	X(curl_multi_remove_handle) \
	X(curl_multi_setopt)        \
	X(curl_multi_wakeup)        \
	X(curl_slist_append)        \
	X(curl_slist_free_all)      \
	X(curl_free)                \
	X(curl_url)                 \
	X(curl_url_cleanup)         \
	X(curl_url_get)             \
	X(curl_url_set)

static struct {
	CURL_FUNCTIONS(LAZY_FIELD)
} curl;

static int curl_load(struct err *err)
{
	static const char *const names[] = { CURL_FUNCTIONS(LAZY_NAME) };
	static struct lazy lib = LAZY_INIT;

	return lazy_load(&lib, "libcurl.so.4", "libcurl4", names, &curl, ARRAY_SIZE(names), err);
}

#define curl_easy_cleanup        curl.curl_easy_cleanup
#define curl_easy_getinfo        curl.curl_easy_getinfo
#define curl_easy_init           curl.curl_easy_init
#define curl_easy_setopt         curl.curl_easy_setopt
#define curl_easy_strerror       curl.curl_easy_strerror
#define curl_global_init         curl.curl_global_init
#define curl_multi_add_handle    curl.curl_multi_add_handle
#define curl_multi_cleanup       curl.curl_multi_cleanup
#define curl_multi_info_read     curl.curl_multi_info_read
#define curl_multi_init          curl.curl_multi_init
#define curl_multi_perform       curl.curl_multi_perform
#define curl_multi_poll          curl.curl_multi_poll
#define curl_multi_remove_handle curl.curl_multi_remove_handle
#define curl_multi_setopt        curl.curl_multi_setopt
#define curl_multi_wakeup        curl.curl_multi_wakeup
#define curl_slist_append        curl.curl_slist_append
#define curl_slist_free_all      curl.curl_slist_free_all
#define curl_free                curl.curl_free
#define curl_url                 curl.curl_url
#define curl_url_cleanup         curl.curl_url_cleanup
#define curl_url_get             curl.curl_url_get
#define curl_url_set             curl.curl_url_set
