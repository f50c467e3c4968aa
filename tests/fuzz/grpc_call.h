/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call of gRPC to a server of this process, without a socket: for handlers that take the body as it comes. The calls of
 * the receiver come in the order of a transport, a suspended request waits for its worker, and the reply is read.
 */
#pragma once

#include "http/conn.h"
#include "server/internal.h"

/*
 * The server: one for all inputs, with a store in memory and a budget of 64 MiB. It ends with the process.
 */
struct server *grpc_call_server(void);
struct budget *grpc_call_budget(void);

struct grpc_call {
	struct http_conn conn; /* first */
	struct http_request hr;
	void *ctx; /* the request */
	const char *type;
	bool wants;      /* the body goes on */
	bool has_reply;  /* the reply was sent, or is being sent */
	bool reads;      /* the client reads the reply as it comes; else at its end */
	unsigned status; /* as in the access log, after grpc_call_end(); 0: none */
	struct http_reply *reply;
	struct buf out; /* bytes of the reply */
	bool out_ended;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool resumed; /* under the lock */
};

/* @web: gRPC-Web over HTTP/1.1, else gRPC over HTTP/2. */
void grpc_call_begin(struct grpc_call *c, const char *path, bool web, bool reads);
/* The next bytes of the body. After a refusal they are ignored, as a transport does. */
void grpc_call_feed(struct grpc_call *c, struct bytes b);
/* @whole: the body has ended, and the reply is read; else the client hangs up. The request is gone after it. */
void grpc_call_end(struct grpc_call *c, bool whole);
void grpc_call_done(struct grpc_call *c);
