/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uploads in parts. The answer to the completion may be an error although its status is 200, since the server begins it
 * before it has joined the parts.
 */
#include "s3/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include "base/sha256.h"
#include "s3/xml.h"

#define PARTS_BYTES MIB(4) /* of one answer that lists parts */
#define PAGES_MAX   1000u
/* A server may copy the parts before it answers their completion, without a byte meanwhile. */
#define JOIN_PART_MS    250u
#define JOIN_BYTES_A_MS KIB(16)
#define JOIN_MAX_MS     UINT64_C(780000) /* the signature is valid for 15 minutes */

static int upload_missing(struct s3_name name, struct err *err)
{
	return err_set(err, ERR_IO, "s3://" STR_FMT "/" STR_FMT ": the upload is not there any more",
		       STR_ARG(name.bucket), STR_ARG(name.key));
}

/* The text of the element @path in @body, in @ret. false: none, or too long. */
static bool xml_text_of(struct bytes body, const char *path, char *ret, size_t room)
{
	struct err ignored = { 0 };
	struct xml x;
	bool found = false;
	int r;

	xml_init(&x, body);
	while ((r = xml_next(&x, &ignored)) > 0)
		if (r == XML_CLOSE && xml_is(&x, path)) {
			struct str text = str_trim(buf_str(&x.text));

			found = text.size && text.size < room && !memchr(text.p, 0, text.size);
			if (found)
				snprintf(ret, room, STR_FMT, STR_ARG(text));
		}
	xml_done(&x);
	return found;
}

int s3_upload_begin(struct s3 *s, struct s3_name name, struct s3_upload *ret, struct err *err)
{
	const struct sign_field query = { STR("uploads"), { "", 0 } };
	const struct bytes none = { (const uint8_t *)"", 0 };
	const struct call_request req = { .method = "POST",
					  .what = "upload",
					  .name = name,
					  .query = &query,
					  .n_query = 1,
					  .body = &none,
					  .root = "InitiateMultipartUploadResult" };
	struct call_answer a;
	int r = call_run(s, &req, &a, err);

	if (r)
		return r < 0 ? -1 : upload_missing(name, err);
	*ret = (struct s3_upload){ .name = name };
	if (!xml_text_of(buf_bytes(&a.body), "InitiateMultipartUploadResult/UploadId", ret->id,
			 sizeof(ret->id)))
		r = err_set(err, ERR_INVALID, "s3://" STR_FMT "/" STR_FMT ": the server names no upload",
			    STR_ARG(name.bucket), STR_ARG(name.key));
	call_answer_done(&a);
	return r;
}

int s3_upload_part(struct s3 *s, const struct s3_upload *u, unsigned number, const struct file_range *body,
		   struct s3_part *ret, struct err *err)
{
	char text[16];
	struct sign_field query[] = { { STR("partNumber"), { 0 } }, { STR("uploadId"), str_of(u->id) } };
	uint8_t sha256[SHA256_SIZE];
	const struct call_request req = { .method = "PUT",
					  .what = "part",
					  .name = u->name,
					  .query = query,
					  .n_query = 2,
					  .file = body,
					  .file_sha256 = sha256 };
	struct s3_info info;
	struct call_answer a;
	int r;

	if (!number || number > S3_PARTS_MAX)
		return err_set(err, ERR_LIMIT, "an upload has 1 to %u parts", S3_PARTS_MAX);
	snprintf(text, sizeof(text), "%u", number);
	query[0].value = str_of(text);
	if (sha256_of_file(body, NULL, NULL, sha256, err) < 0)
		return -1;
	r = call_run(s, &req, &a, err);
	if (r)
		return r < 0 ? -1 : upload_missing(u->name, err);
	object_info(buf_str(&a.headers), &info);
	call_answer_done(&a);
	*ret = (struct s3_part){ .number = number, .size = body->size };
	memcpy(ret->sha256, sha256, sizeof(ret->sha256));
	memcpy(ret->etag, info.etag, sizeof(ret->etag));
	if (!ret->etag[0])
		return err_set(err, ERR_INVALID, "s3://" STR_FMT "/" STR_FMT ": part %u got no ETag",
			       STR_ARG(u->name.bucket), STR_ARG(u->name.key), number);
	return 0;
}

/* ---- the parts that are there ---- */

struct part_list {
	struct s3_part *v;
	size_t n, room;
	bool truncated;
	unsigned next; /* after this number */
};

static int parts_field(struct part_list *l, struct s3_part *now, struct xml *x, struct err *err)
{
	struct str text = str_trim(buf_str(&x->text));
	uint64_t n;

	if (xml_is(x, "ListPartsResult/Part/PartNumber")) {
		now->number = str_to_u64(text, &n) && n <= S3_PARTS_MAX ? (unsigned)n : 0;
	} else if (xml_is(x, "ListPartsResult/Part/Size")) {
		if (!str_to_u64(text, &now->size))
			now->number = 0;
	} else if (xml_is(x, "ListPartsResult/Part/ETag")) {
		object_etag(text, now->etag);
	} else if (xml_is(x, "ListPartsResult/Part")) {
		/* In rising order: so the list is bounded. */
		if (!now->number || !now->etag[0] || (l->n && l->v[l->n - 1].number >= now->number))
			return err_set(err, ERR_INVALID, "the list of parts makes no sense");
		VEC_PUSH(l->v, l->n, l->room) = *now;
		*now = (struct s3_part){ 0 };
	} else if (xml_is(x, "ListPartsResult/IsTruncated")) {
		l->truncated = str_eq(text, STR("true"));
	} else if (xml_is(x, "ListPartsResult/NextPartNumberMarker")) {
		l->next = str_to_u64(text, &n) && n <= S3_PARTS_MAX ? (unsigned)n : 0;
	}
	return 0;
}

static int parts_read(struct part_list *l, struct bytes body, struct err *err)
{
	struct s3_part now = { 0 };
	struct xml x;
	int r, res = 0;

	l->truncated = false;
	xml_init(&x, body);
	while (!res && (r = xml_next(&x, err)) != XML_END) {
		if (r < 0)
			res = -1;
		else if (r == XML_CLOSE)
			res = parts_field(l, &now, &x, err);
	}
	xml_done(&x);
	return res;
}

int upload_read_parts(struct bytes body, struct s3_part **ret, size_t *ret_n, struct err *err)
{
	struct part_list l = { 0 };
	int r = parts_read(&l, body, err);

	*ret = l.v;
	*ret_n = l.n;
	return r;
}

static int parts_page(struct s3 *s, const struct s3_upload *u, struct part_list *l, struct err *err)
{
	char after[16];
	struct sign_field query[] = { { STR("uploadId"), str_of(u->id) },
				      { STR("part-number-marker"), { 0 } } };
	const struct call_request req = { .method = "GET",
					  .what = "parts",
					  .name = u->name,
					  .query = query,
					  .n_query = 2,
					  .max_answer = PARTS_BYTES,
					  .root = "ListPartsResult" };
	struct call_answer a;
	int r;

	snprintf(after, sizeof(after), "%u", l->next);
	query[1].value = str_of(after);
	r = call_run(s, &req, &a, err);
	if (r)
		return r;
	r = parts_read(l, buf_bytes(&a.body), err);
	call_answer_done(&a);
	return r;
}

int s3_upload_parts(struct s3 *s, const struct s3_upload *u, struct s3_part **ret, size_t *ret_n,
		    struct err *err)
{
	struct part_list l = { 0 };
	unsigned before = 0, n = 0;
	int r;

	do {
		before = l.next;
		r = parts_page(s, u, &l, err);
		if (r == 0 && l.truncated && (l.next <= before || ++n > PAGES_MAX))
			r = err_set(err, ERR_INVALID,
				    "s3://" STR_FMT "/" STR_FMT ": the list of parts does not end",
				    STR_ARG(u->name.bucket), STR_ARG(u->name.key));
	} while (r == 0 && l.truncated);
	if (r) {
		free(l.v);
		return r;
	}
	*ret = l.v;
	*ret_n = l.n;
	return 0;
}

/* ---- the end ---- */

static void xml_escape(struct buf *out, const char *s)
{
	for (; *s; s++) {
		if (strchr("<>&\"'", *s))
			buf_printf(out, "&#%u;", (unsigned)(uint8_t)*s);
		else
			buf_add_char(out, *s);
	}
}

/*
 * A completion that was carried out, but whose answer was lost, is answered by 404 the next time. Then the object is there,
 * with the size of the parts.
 */
static int completed_before(struct s3 *s, const struct s3_upload *u, uint64_t size, struct s3_info *ret,
			    struct err *err)
{
	int r = s3_head(s, u->name, ret, err);

	if (r < 0)
		return -1;
	return r == 0 && ret->size == size ? 0 : upload_missing(u->name, err);
}

static unsigned join_ms(uint64_t size, size_t n_parts)
{
	return (unsigned)MIN(n_parts * JOIN_PART_MS + size / JOIN_BYTES_A_MS, JOIN_MAX_MS);
}

int s3_upload_complete(struct s3 *s, const struct s3_upload *u, const struct s3_part *parts, size_t n,
		       struct s3_info *ret, struct err *err)
{
	const struct sign_field query = { STR("uploadId"), str_of(u->id) };
	AUTO(buf_done) struct buf text = { 0 };
	struct s3_info info = { 0 };
	struct call_answer a;
	struct bytes body;
	uint64_t size = 0;
	int r;

	buf_add_str(&text,
		    STR("<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"));
	for (size_t i = 0; i < n; i++) {
		buf_printf(&text, "<Part><PartNumber>%u</PartNumber><ETag>&quot;", parts[i].number);
		xml_escape(&text, parts[i].etag);
		buf_add_str(&text, STR("&quot;</ETag></Part>"));
		size += parts[i].size;
	}
	buf_add_str(&text, STR("</CompleteMultipartUpload>"));
	body = buf_bytes(&text);
	r = call_run(s,
		     &(struct call_request){ .method = "POST",
					     .what = "complete",
					     .name = u->name,
					     .query = &query,
					     .n_query = 1,
					     .body = &body,
					     .work_ms = join_ms(size, n),
					     .root = "CompleteMultipartUploadResult" },
		     &a, err);
	if (r < 0)
		return -1;
	if (r == S3_MISSING) {
		if (completed_before(s, u, size, &info, err) < 0)
			return -1;
	} else {
		char etag[S3_ETAG_MAX + 2];

		if (xml_text_of(buf_bytes(&a.body), "CompleteMultipartUploadResult/ETag", etag, sizeof(etag)))
			object_etag(str_of(etag), info.etag);
		info.size = size;
		call_answer_done(&a);
	}
	if (ret)
		*ret = info;
	return 0;
}

int s3_upload_abort(struct s3 *s, const struct s3_upload *u, struct err *err)
{
	const struct sign_field query = { STR("uploadId"), str_of(u->id) };
	const struct call_request req = {
		.method = "DELETE", .what = "abort", .name = u->name, .query = &query, .n_query = 1
	};
	struct call_answer a;
	int r = call_run(s, &req, &a, err);

	if (r == 0)
		call_answer_done(&a);
	return MIN(r, 0);
}
