/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transfers of file://. libcurl has them too, but reads the whole file within one call, and buffers all of it
 * while paused; here it is read in turns like other transfers.
 */
#include "net/internal.h"

#include <errno.h>
#include <stdlib.h>
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

/* Decode the path of a URL. false: it has bytes that no path has, or a slash that is not a separator. */
static bool decode_path(struct str s, struct buf *out)
{
	for (size_t i = 0; i < s.size; i++) {
		uint8_t byte = (uint8_t)s.p[i];
		size_t n;

		if (byte == '%') {
			if (s.size - i < 3 ||
			    !hex_decode((struct str){ s.p + i + 1, 2 }, true, &byte, 1, &n) || byte == '/')
				return false;
			i += 2;
		}
		if (!byte)
			return false;
		buf_add_char(out, (char)byte);
	}
	return true;
}

/* The path of "file:///a%20b" or "file://localhost/a"; heap, or NULL. *ret_folder: that of the first @base_size
 * bytes, or NULL. */
static char *file_url_path(const char *url, size_t base_size, char **ret_folder)
{
	const char *p = strchr(url + strlen("file://"), '/');
	AUTO(buf_done) struct buf path = { 0 }, folder = { 0 };
	size_t n_base = p && base_size > (size_t)(p - url) ? base_size - (size_t)(p - url) : 0;

	if (!p || n_base > strlen(p) || !decode_path(str_of(p), &path) ||
	    !decode_path((struct str){ p, n_base }, &folder))
		return NULL;
	*ret_folder = n_base ? mem_strdup(buf_cstr(&folder)) : NULL;
	return mem_strdup(buf_cstr(&path));
}

static void file_xfer_found(struct file_xfer *f, const struct stat *st, uint64_t from)
{
	uint64_t size = (uint64_t)st->st_size;

	if (from && from >= size) {
		f->head->status = 416;
		f->ended = true;
		return;
	}
	f->head->status = from ? 206 : 200;
	f->head->has_length = true;
	f->head->length = size - from;
	f->head->has_range = f->head->has_total = from > 0;
	f->head->from = from;
	f->head->total = size;
	f->head->mtime = st->st_mtime;
	f->at = from;
	f->size = size;
}

static bool is_folder(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/*
 * A file outside of the folder, or a special one, is reported as missing. Without the folder itself no file is known to be
 * missing: the file system with it may not be mounted, and a miss would be cached here and by clients.
 */
static void file_xfer_open(struct file_xfer *f, const char *path, const char *folder, uint64_t from)
{
	struct err err = { 0 };
	struct stat st;
	int r = folder ? file_open_below(path, &folder, 1, &f->fd, &st, &err)
		       : file_open(path, &f->fd, &st, &err);

	if (r == 0) {
		file_xfer_found(f, &st, from);
		return;
	}
	f->ended = true;
	if (r > 0 && folder && !is_folder(folder))
		fault_set(&f->fault, FAULT_KIND_STATUS, EIO,
			  "its folder is not there: mount its file system, or correct the path");
	else if (r > 0 || err.kind == ERR_INVALID)
		f->head->status = 404;
	else
		fault_set(&f->fault, FAULT_KIND_STATUS, err.os, "%s", err.text);
}

struct file_xfer *file_xfer_new(const struct xfer_request *req, struct head *h, struct fault *fault)
{
	AUTO(mem_freep) char *folder = NULL;
	AUTO(mem_freep) char *path = file_url_path(req->url, req->base_size, &folder);
	struct file_xfer *f;

	if (!path || (req->method && strcmp(req->method, "GET") != 0)) {
		fault_set(fault, FAULT_KIND_STATUS, EINVAL, path ? "file:// can only be read" : "not a path");
		return NULL;
	}
	f = NEW(struct file_xfer);
	f->events = req->events;
	f->arg = req->arg;
	f->head = h;
	f->fd = -1;
	file_xfer_open(f, path, folder, req->from);
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
