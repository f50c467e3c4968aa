/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder of a store: its marker says that it is one. It is written last, so a folder without it that has nothing but the
 * folders of a store was left by a process that was killed while it made one, or has lost it if there are records.
 */
#include "store/blob_dir.h"

#include "base/hash.h"

#define MARKER_HEAD "lode store "
#define MARKER_MAX  KIB(4)

static const char *const folders[] = { "tmp", "keys", "data" };
/* All that a store has, beside its marker: "past" since the first earlier version. */
static const char *const entries[] = { "tmp", "keys", "data", "past", "lock" };

bool blob_marker_is_newer(struct str text)
{
	uint64_t version;

	if (!str_starts(text, STR(MARKER_HEAD)) || !str_ends(text, STR("\n")))
		return false;
	text.p += sizeof(MARKER_HEAD) - 1;
	text.size -= sizeof(MARKER_HEAD);
	return str_to_u64(text, &version) && version > 1;
}

static bool is_of_store(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(entries); i++)
		if (strcmp(name, entries[i]) == 0)
			return true;
	return false;
}

/* Nothing but entries of a store: one whose creation was not finished, or whose marker is lost. */
static bool folder_is_of_store(const char *path)
{
	AUTO(folder_entries_done) struct folder_entries names = { 0 };

	if (folder_entries_read(path, &names, NULL) < 0)
		return false;
	for (size_t i = 0; i < names.n; i++)
		if (!is_of_store(names.v[i]))
			return false;
	return true;
}

/* Records are written after the marker: it was there. A folder "keys" with anything but their folders is another program's. */
static bool folder_has_records(const char *path)
{
	AUTO(folder_entries_done) struct folder_entries names = { 0 };
	AUTO(mem_freep) char *keys = mem_printf("%s/keys", path);

	if (!folder_is_of_store(path) || folder_entries_read(keys, &names, NULL) < 0)
		return false;
	for (size_t i = 0; i < names.n; i++)
		if (strlen(names.v[i]) != 2 || hex_digit(names.v[i][0], false) < 0 ||
		    hex_digit(names.v[i][1], false) < 0)
			return false;
	return names.n;
}

static int store_folder_create(const char *path, struct err *err)
{
	AUTO(mem_freep) char *marker = mem_printf("%s/" BLOB_MARKER, path);

	if (dir_make(path, 0755, err) < 0)
		return -1;
	if (!folder_is_of_store(path))
		return err_set(err, ERR_INVALID, "%s: not a store, and not empty: name another folder", path);
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		AUTO(mem_freep) char *p = mem_printf("%s/%s", path, folders[i]);

		if (dir_make(p, 0755, err) < 0)
			return -1;
	}
	return file_write_durable(marker, BLOB_MARKER_TEXT, sizeof(BLOB_MARKER_TEXT) - 1, 0644, err);
}

/* A file of that name has other bytes. Beside all folders of a store it was the marker, and is written again. */
static int folder_marker_mend(const char *path, const char *marker, bool create, struct err *err)
{
	struct err why = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		AUTO(mem_freep) char *p = mem_printf("%s/%s", path, folders[i]);
		struct stat st;

		if (stat(p, &st) < 0 || !S_ISDIR(st.st_mode))
			return err_set(err, ERR_INVALID,
				       "%s: not a store: its '" BLOB_MARKER "' is no marker, and there is no "
				       "folder '%s'",
				       path, folders[i]);
	}
	log_warn("store", "%s is damaged%s; check the disk", marker, create ? ", and is written again" : "");
	if (create &&
	    file_write_durable(marker, BLOB_MARKER_TEXT, sizeof(BLOB_MARKER_TEXT) - 1, 0644, &why) < 0)
		log_warn("store", "%s", why.text);
	return 0;
}

static int folder_marker_check(const char *path, bool create, struct err *err)
{
	AUTO(mem_freep) char *marker = mem_printf("%s/" BLOB_MARKER, path);
	AUTO(buf_done) struct buf text = { 0 };
	struct err why = { 0 };
	int r = file_read(marker, MARKER_MAX, &text, &why);

	/* Longer than any marker: @text is empty, so it is damaged. A lack of memory or descriptors has an errno. */
	if (r < 0 && why.kind == ERR_LIMIT && !why.os)
		r = 0;
	if (r < 0) {
		if (err)
			*err = why;
		return -1;
	}
	if (r == FILE_MISSING) {
		bool lost = folder_has_records(path);

		if (lost)
			log_warn("store", "%s is missing%s; check the disk", marker,
				 create ? ", and is written again" : "");
		else if (!create)
			return err_set(err, ERR_IO, "%s: there is no store", path);
		return create ? store_folder_create(path, err) : 0;
	}
	if (str_eq(buf_str(&text), STR(BLOB_MARKER_TEXT)))
		return 0;
	if (blob_marker_is_newer(buf_str(&text)))
		return err_set(err, ERR_INVALID, "%s: the store was made by a newer lode: '" STR_FMT "'",
			       path, STR_ARG(str_trim(buf_str(&text))));
	return folder_marker_mend(path, marker, create, err);
}

/* The process that created the store may have been killed before it synced the folder. */
static int store_folder_sync(const char *path, struct err *err)
{
	AUTO(mem_freep) char *above = mem_printf("%s/..", path);
	int r = dir_sync(path, err);

	/* The folder above may be one that this user may not open. */
	(void)dir_sync(above, NULL);
	return r;
}

int blob_folder_open(const char *path, bool create, struct err *err)
{
	if (folder_marker_check(path, create, err) < 0)
		return -1;
	return create ? store_folder_sync(path, err) : 0;
}
