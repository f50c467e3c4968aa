/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of libmicrohttpd that mhd*.c use, loaded when a server starts: with GnuTLS
 * and its libraries they would cost every command 3 ms at its start.
 */
#pragma once

#include <microhttpd.h>
#include "base/lazy.h"

#define MHD_FUNCTIONS(X)                                          \
	X(MHD_add_response_header)                                \
	X(MHD_create_response_from_buffer)                        \
	X(MHD_create_response_from_buffer_with_free_callback_cls) \
	X(MHD_create_response_from_callback)                      \
	X(MHD_create_response_from_fd_at_offset64)                \
	X(MHD_destroy_response)                                   \
	X(MHD_get_connection_info)                                \
	X(MHD_get_connection_values_n)                            \
	X(MHD_get_daemon_info)                                    \
	X(MHD_get_response_headers)                               \
	X(MHD_get_timeout)                                        \
	X(MHD_get_version)                                        \
	X(MHD_lookup_connection_value)                            \
	X(MHD_queue_response)                                     \
	X(MHD_resume_connection)                                  \
	X(MHD_run)                                                \
	X(MHD_set_connection_value)                               \
	X(MHD_start_daemon)                                       \
	X(MHD_stop_daemon)                                        \
	X(MHD_suspend_connection)

struct mhd_functions {
	MHD_FUNCTIONS(LAZY_FIELD)
};
extern struct mhd_functions mhd_functions;

/* After http_load(). */

#define MHD_add_response_header         mhd_functions.MHD_add_response_header
#define MHD_create_response_from_buffer mhd_functions.MHD_create_response_from_buffer
#define MHD_create_response_from_buffer_with_free_callback_cls \
	mhd_functions.MHD_create_response_from_buffer_with_free_callback_cls
#define MHD_create_response_from_callback       mhd_functions.MHD_create_response_from_callback
#define MHD_create_response_from_fd_at_offset64 mhd_functions.MHD_create_response_from_fd_at_offset64
#define MHD_destroy_response                    mhd_functions.MHD_destroy_response
#define MHD_get_connection_info                 mhd_functions.MHD_get_connection_info
#define MHD_get_connection_values_n             mhd_functions.MHD_get_connection_values_n
#define MHD_get_daemon_info                     mhd_functions.MHD_get_daemon_info
#define MHD_get_response_headers                mhd_functions.MHD_get_response_headers
#define MHD_get_timeout                         mhd_functions.MHD_get_timeout
#define MHD_get_version                         mhd_functions.MHD_get_version
#define MHD_lookup_connection_value             mhd_functions.MHD_lookup_connection_value
#define MHD_queue_response                      mhd_functions.MHD_queue_response
#define MHD_resume_connection                   mhd_functions.MHD_resume_connection
#define MHD_run                                 mhd_functions.MHD_run
#define MHD_set_connection_value                mhd_functions.MHD_set_connection_value
#define MHD_start_daemon                        mhd_functions.MHD_start_daemon
#define MHD_stop_daemon                         mhd_functions.MHD_stop_daemon
#define MHD_suspend_connection                  mhd_functions.MHD_suspend_connection

/* ---- mhd_head.c ---- */

struct http_head;

/* The request line, as libmicrohttpd passes it. */
struct mhd_line {
	const char *method, *url, *version;
};
void mhd_read_head(struct MHD_Connection *c, const struct mhd_line *line, struct http_head *ret);
