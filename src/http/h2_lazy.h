/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of libnghttp2 that h2*.c use, loaded when a server listens for HTTP/2.
 */
#pragma once

#include <nghttp2/nghttp2.h>
#include "base/lazy.h"

#define H2_FUNCTIONS(X)                                              \
	X(nghttp2_option_del)                                        \
	X(nghttp2_option_new)                                        \
	X(nghttp2_option_set_no_auto_window_update)                  \
	X(nghttp2_option_set_no_closed_streams)                      \
	X(nghttp2_session_callbacks_del)                             \
	X(nghttp2_session_callbacks_new)                             \
	X(nghttp2_session_callbacks_set_on_begin_frame_callback)     \
	X(nghttp2_session_callbacks_set_on_begin_headers_callback)   \
	X(nghttp2_session_callbacks_set_on_data_chunk_recv_callback) \
	X(nghttp2_session_callbacks_set_on_frame_recv_callback)      \
	X(nghttp2_session_callbacks_set_on_frame_send_callback)      \
	X(nghttp2_session_callbacks_set_on_header_callback)          \
	X(nghttp2_session_callbacks_set_on_stream_close_callback)    \
	X(nghttp2_session_consume)                                   \
	X(nghttp2_session_consume_connection)                        \
	X(nghttp2_session_del)                                       \
	X(nghttp2_session_get_last_proc_stream_id)                   \
	X(nghttp2_session_get_stream_user_data)                      \
	X(nghttp2_session_mem_recv)                                  \
	X(nghttp2_session_mem_send)                                  \
	X(nghttp2_session_resume_data)                               \
	X(nghttp2_session_server_new3)                               \
	X(nghttp2_session_set_local_window_size)                     \
	X(nghttp2_session_set_stream_user_data)                      \
	X(nghttp2_session_terminate_session)                         \
	X(nghttp2_session_want_read)                                 \
	X(nghttp2_session_want_write)                                \
	X(nghttp2_submit_goaway)                                     \
	X(nghttp2_submit_response)                                   \
	X(nghttp2_submit_rst_stream)                                 \
	X(nghttp2_submit_settings)                                   \
	X(nghttp2_submit_trailer)

struct h2_functions {
	H2_FUNCTIONS(LAZY_FIELD)
};
extern struct h2_functions h2_functions;

/* After h2_load(). */

#define nghttp2_option_del                       h2_functions.nghttp2_option_del
#define nghttp2_option_new                       h2_functions.nghttp2_option_new
#define nghttp2_option_set_no_auto_window_update h2_functions.nghttp2_option_set_no_auto_window_update
#define nghttp2_option_set_no_closed_streams     h2_functions.nghttp2_option_set_no_closed_streams
#define nghttp2_session_callbacks_del            h2_functions.nghttp2_session_callbacks_del
#define nghttp2_session_callbacks_new            h2_functions.nghttp2_session_callbacks_new
#define nghttp2_session_callbacks_set_on_begin_frame_callback \
	h2_functions.nghttp2_session_callbacks_set_on_begin_frame_callback
#define nghttp2_session_callbacks_set_on_begin_headers_callback \
	h2_functions.nghttp2_session_callbacks_set_on_begin_headers_callback
#define nghttp2_session_callbacks_set_on_data_chunk_recv_callback \
	h2_functions.nghttp2_session_callbacks_set_on_data_chunk_recv_callback
#define nghttp2_session_callbacks_set_on_frame_recv_callback \
	h2_functions.nghttp2_session_callbacks_set_on_frame_recv_callback
#define nghttp2_session_callbacks_set_on_frame_send_callback \
	h2_functions.nghttp2_session_callbacks_set_on_frame_send_callback
#define nghttp2_session_callbacks_set_on_header_callback \
	h2_functions.nghttp2_session_callbacks_set_on_header_callback
#define nghttp2_session_callbacks_set_on_stream_close_callback \
	h2_functions.nghttp2_session_callbacks_set_on_stream_close_callback
#define nghttp2_session_consume                 h2_functions.nghttp2_session_consume
#define nghttp2_session_consume_connection      h2_functions.nghttp2_session_consume_connection
#define nghttp2_session_del                     h2_functions.nghttp2_session_del
#define nghttp2_session_get_last_proc_stream_id h2_functions.nghttp2_session_get_last_proc_stream_id
#define nghttp2_session_get_stream_user_data    h2_functions.nghttp2_session_get_stream_user_data
#define nghttp2_session_mem_recv                h2_functions.nghttp2_session_mem_recv
#define nghttp2_session_mem_send                h2_functions.nghttp2_session_mem_send
#define nghttp2_session_resume_data             h2_functions.nghttp2_session_resume_data
#define nghttp2_session_server_new3             h2_functions.nghttp2_session_server_new3
#define nghttp2_session_set_local_window_size   h2_functions.nghttp2_session_set_local_window_size
#define nghttp2_session_set_stream_user_data    h2_functions.nghttp2_session_set_stream_user_data
#define nghttp2_session_terminate_session       h2_functions.nghttp2_session_terminate_session
#define nghttp2_session_want_read               h2_functions.nghttp2_session_want_read
#define nghttp2_session_want_write              h2_functions.nghttp2_session_want_write
#define nghttp2_submit_goaway                   h2_functions.nghttp2_submit_goaway
#define nghttp2_submit_response                 h2_functions.nghttp2_submit_response
#define nghttp2_submit_rst_stream               h2_functions.nghttp2_submit_rst_stream
#define nghttp2_submit_settings                 h2_functions.nghttp2_submit_settings
#define nghttp2_submit_trailer                  h2_functions.nghttp2_submit_trailer
