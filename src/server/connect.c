/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of protobuf services that this server does not have.
 */
#include "server/internal.h"

static void connect_other_begin(struct request *req)
{
	AUTO(buf_done) struct buf b = { 0 };

	buf_printf(&b, "this server has no call " STR_FMT, STR_ARG(req->path));
	request_refuse_connect(req, 404, CONNECT_UNIMPLEMENTED, buf_cstr(&b));
}

const struct http_handler connect_other = { .begin = connect_other_begin };
