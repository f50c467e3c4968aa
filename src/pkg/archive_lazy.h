/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of libarchive that other.c calls, loaded with the first archive that needs them: libarchive
 * brings libxml2 and the tables of ICU with it.
 */
#pragma once

#include <archive.h>
#include <archive_entry.h>
#include "base/lazy.h"

#define ARCHIVE_FUNCTIONS(X)                    \
	X(archive_entry_filetype)               \
	X(archive_entry_hardlink)               \
	X(archive_entry_is_data_encrypted)      \
	X(archive_entry_mode)                   \
	X(archive_entry_mtime)                  \
	X(archive_entry_pathname)               \
	X(archive_entry_size)                   \
	X(archive_entry_size_is_set)            \
	X(archive_entry_symlink)                \
	X(archive_errno)                        \
	X(archive_error_string)                 \
	X(archive_format)                       \
	X(archive_read_data_block)              \
	X(archive_read_free)                    \
	X(archive_read_new)                     \
	X(archive_read_next_header)             \
	X(archive_read_open1)                   \
	X(archive_read_set_callback_data)       \
	X(archive_read_set_read_callback)       \
	X(archive_read_set_seek_callback)       \
	X(archive_read_set_skip_callback)       \
	X(archive_read_support_filter_bzip2)    \
	X(archive_read_support_filter_compress) \
	X(archive_read_support_filter_gzip)     \
	X(archive_read_support_filter_lz4)      \
	X(archive_read_support_filter_lzip)     \
	X(archive_read_support_filter_lzma)     \
	X(archive_read_support_filter_xz)       \
	X(archive_read_support_filter_zstd)     \
	X(archive_read_support_format_7zip)     \
	X(archive_read_support_format_ar)       \
	X(archive_read_support_format_cab)      \
	X(archive_read_support_format_cpio)     \
	X(archive_read_support_format_iso9660)  \
	X(archive_read_support_format_lha)      \
	X(archive_read_support_format_rar)      \
	X(archive_read_support_format_rar5)     \
	X(archive_read_support_format_tar)      \
	X(archive_read_support_format_warc)     \
	X(archive_read_support_format_xar)      \
	X(archive_read_support_format_zip)      \
	X(archive_set_error)

static struct {
	ARCHIVE_FUNCTIONS(LAZY_FIELD)
} libarchive;

static int archive_load(struct err *err)
{
	static const char *const names[] = { ARCHIVE_FUNCTIONS(LAZY_NAME) };
	static struct lazy lib = LAZY_INIT;

	return lazy_load(&lib, "libarchive.so.13", "libarchive13", names, &libarchive, ARRAY_SIZE(names),
			 err);
}

#define archive_entry_filetype               libarchive.archive_entry_filetype
#define archive_entry_hardlink               libarchive.archive_entry_hardlink
#define archive_entry_is_data_encrypted      libarchive.archive_entry_is_data_encrypted
#define archive_entry_mode                   libarchive.archive_entry_mode
#define archive_entry_mtime                  libarchive.archive_entry_mtime
#define archive_entry_pathname               libarchive.archive_entry_pathname
#define archive_entry_size                   libarchive.archive_entry_size
#define archive_entry_size_is_set            libarchive.archive_entry_size_is_set
#define archive_entry_symlink                libarchive.archive_entry_symlink
#define archive_errno                        libarchive.archive_errno
#define archive_error_string                 libarchive.archive_error_string
#define archive_format                       libarchive.archive_format
#define archive_read_data_block              libarchive.archive_read_data_block
#define archive_read_free                    libarchive.archive_read_free
#define archive_read_new                     libarchive.archive_read_new
#define archive_read_next_header             libarchive.archive_read_next_header
#define archive_read_open1                   libarchive.archive_read_open1
#define archive_read_set_callback_data       libarchive.archive_read_set_callback_data
#define archive_read_set_read_callback       libarchive.archive_read_set_read_callback
#define archive_read_set_seek_callback       libarchive.archive_read_set_seek_callback
#define archive_read_set_skip_callback       libarchive.archive_read_set_skip_callback
#define archive_read_support_filter_bzip2    libarchive.archive_read_support_filter_bzip2
#define archive_read_support_filter_compress libarchive.archive_read_support_filter_compress
#define archive_read_support_filter_gzip     libarchive.archive_read_support_filter_gzip
#define archive_read_support_filter_lz4      libarchive.archive_read_support_filter_lz4
#define archive_read_support_filter_lzip     libarchive.archive_read_support_filter_lzip
#define archive_read_support_filter_lzma     libarchive.archive_read_support_filter_lzma
#define archive_read_support_filter_xz       libarchive.archive_read_support_filter_xz
#define archive_read_support_filter_zstd     libarchive.archive_read_support_filter_zstd
#define archive_read_support_format_7zip     libarchive.archive_read_support_format_7zip
#define archive_read_support_format_ar       libarchive.archive_read_support_format_ar
#define archive_read_support_format_cab      libarchive.archive_read_support_format_cab
#define archive_read_support_format_cpio     libarchive.archive_read_support_format_cpio
#define archive_read_support_format_iso9660  libarchive.archive_read_support_format_iso9660
#define archive_read_support_format_lha      libarchive.archive_read_support_format_lha
#define archive_read_support_format_rar      libarchive.archive_read_support_format_rar
#define archive_read_support_format_rar5     libarchive.archive_read_support_format_rar5
#define archive_read_support_format_tar      libarchive.archive_read_support_format_tar
#define archive_read_support_format_warc     libarchive.archive_read_support_format_warc
#define archive_read_support_format_xar      libarchive.archive_read_support_format_xar
#define archive_read_support_format_zip      libarchive.archive_read_support_format_zip
#define archive_set_error                    libarchive.archive_set_error
