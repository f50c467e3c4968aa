/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transfers of file://. libcurl has them too, but reads the whole file within one call, and buffers all of it
 * while paused; here it is read in turns like other transfers.
 */
#include "net/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE KIB(16) /* the size of libcurl's */
#define TURN  MIB(1)

struct file_xfer {
	const struct xfer_events *events;
	void *arg;
	struct head *head;
	int fd;
	uint64_t at, size, n_read;
	bool paused, ended;
	struct fault fault;
	uint8_t piece[PIECE];
};

/* The path of "file:///a%20b" or "file://localhost/a". NULL: it has bytes that no path has. Heap. */
static char *file_url_path(const char *url)
{
	const char *p = strchr(url + strlen("file://"), '/');
	struct buf out = { 0 };

	for (; p && *p; p++) {
		uint8_t byte;
		size_t n;

		if (*p != '%') {
			buf_add_char(&out, *p);
		} else if (strlen(p) < 3 || !hex_decode((struct str){ p + 1, 2 }, true, &byte, 1, &n) ||
			   !byte) {
			buf_done(&out);
			return NULL;
		} else {
			buf_add_char(&out, (char)byte);
			p += 2;
		}
	}
	buf_cstr(&out);
	return (char *)out.p;
}

static void file_xfer_open(struct file_xfer *f, const char *path, uint64_t from)
{
	struct stat st;

	f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (f->fd < 0 && (errno == ENOENT || errno == ENOTDIR)) {
		f->head->status = 404;
	} else if (f->fd < 0 || fstat(f->fd, &st) < 0) {
		fault_set(&f->fault, FAULT_KIND_STATUS, errno, "%s: %s", path, strerror(errno));
	} else if (!S_ISREG(st.st_mode)) {
		f->head->status = 404;
	} else if (from && from >= (uint64_t)st.st_size) {
		f->head->status = 416;
	} else {
		f->head->status = from ? 206 : 200;
		f->head->has_length = true;
		f->head->length = (uint64_t)st.st_size - from;
		f->head->has_range = f->head->has_total = from > 0;
		f->head->from = from;
		f->head->total = (uint64_t)st.st_size;
		f->head->mtime = st.st_mtime;
		f->at = from;
		f->size = (uint64_t)st.st_size;
		return;
	}
	f->ended = true;
}

struct file_xfer *file_xfer_new(const struct xfer_request *req, struct head *h, struct fault *fault)
{
	AUTO(mem_freep) char *path = file_url_path(req->url);
	struct file_xfer *f;

	if (!path || (req->method && strcmp(req->method, "GET") != 0)) {
		fault_set(fault, FAULT_KIND_STATUS, EINVAL, path ? "file:// can only be read" : "not a path");
		return NULL;
	}
	f = NEW(struct file_xfer);
	f->events = req->events;
	f->arg = req->arg;
	f->head = h;
	file_xfer_open(f, path, req->from);
	return f;
}

void file_xfer_free(struct file_xfer *f)
{
	if (!f)
		return;
	if (f->fd >= 0)
		close(f->fd);
	free(f);
}

/* true: call again. */
static bool file_xfer_piece(struct file_xfer *f)
{
	ssize_t n = f->at < f->size ? pread(f->fd, f->piece, PIECE, (off_t)f->at) : 0;
	int r;

	if (n < 0 || (!n && f->at < f->size))
		fault_set(&f->fault, FAULT_KIND_BROKEN, n < 0 ? errno : EIO, "%s",
			  n < 0 ? strerror(errno) : "it got shorter while it was read");
	if (n <= 0) {
		f->ended = true;
		return false;
	}
	r = f->events->data(f->arg, bytes_of(f->piece, (size_t)n));
	if (r == XFER_PAUSE) {
		f->paused = true;
		return false;
	}
	if (r < 0) {
		fault_set(&f->fault, FAULT_KIND_BROKEN, ECANCELED, "broken off");
		f->ended = true;
		return false;
	}
	f->at += (uint64_t)n;
	f->n_read += (uint64_t)n;
	return true;
}

bool file_xfer_turn(struct file_xfer *f)
{
	size_t n = 0;

	if (f->ended || f->paused)
		return false;
	while (n < TURN && file_xfer_piece(f))
		n += PIECE;
	return !f->paused;
}

bool file_xfer_ended(struct file_xfer *f, struct fault *ret)
{
	if (f->ended)
		*ret = f->fault;
	return f->ended;
}

uint64_t file_xfer_bytes(struct file_xfer *f)
{
	return f->n_read;
}
