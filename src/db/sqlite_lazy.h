/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of SQLite that db calls, loaded with the first database: most commands open none, and loading
 * takes 0.7 ms.
 */
#pragma once

#include <sqlite3.h>
#include "base/lazy.h"

#define SQLITE_FUNCTIONS(X)              \
	X(sqlite3_backup_finish)         \
	X(sqlite3_backup_init)           \
	X(sqlite3_backup_pagecount)      \
	X(sqlite3_backup_remaining)      \
	X(sqlite3_backup_step)           \
	X(sqlite3_bind_blob64)           \
	X(sqlite3_bind_int64)            \
	X(sqlite3_bind_null)             \
	X(sqlite3_bind_text64)           \
	X(sqlite3_busy_timeout)          \
	X(sqlite3_changes64)             \
	X(sqlite3_clear_bindings)        \
	X(sqlite3_close)                 \
	X(sqlite3_column_blob)           \
	X(sqlite3_column_bytes)          \
	X(sqlite3_column_int64)          \
	X(sqlite3_column_text)           \
	X(sqlite3_column_type)           \
	X(sqlite3_database_file_object)  \
	X(sqlite3_db_config)             \
	X(sqlite3_errmsg)                \
	X(sqlite3_errstr)                \
	X(sqlite3_exec)                  \
	X(sqlite3_extended_errcode)      \
	X(sqlite3_extended_result_codes) \
	X(sqlite3_file_control)          \
	X(sqlite3_finalize)              \
	X(sqlite3_get_autocommit)        \
	X(sqlite3_last_insert_rowid)     \
	X(sqlite3_open_v2)               \
	X(sqlite3_prepare_v2)            \
	X(sqlite3_prepare_v3)            \
	X(sqlite3_progress_handler)      \
	X(sqlite3_reset)                 \
	X(sqlite3_sql)                   \
	X(sqlite3_step)                  \
	X(sqlite3_system_errno)          \
	X(sqlite3_vfs_find)              \
	X(sqlite3_vfs_register)

struct sqlite_functions {
	SQLITE_FUNCTIONS(LAZY_FIELD)
};
extern struct sqlite_functions sqlite_functions;

#define sqlite3_backup_finish         sqlite_functions.sqlite3_backup_finish
#define sqlite3_backup_init           sqlite_functions.sqlite3_backup_init
#define sqlite3_backup_pagecount      sqlite_functions.sqlite3_backup_pagecount
#define sqlite3_backup_remaining      sqlite_functions.sqlite3_backup_remaining
#define sqlite3_backup_step           sqlite_functions.sqlite3_backup_step
#define sqlite3_bind_blob64           sqlite_functions.sqlite3_bind_blob64
#define sqlite3_bind_int64            sqlite_functions.sqlite3_bind_int64
#define sqlite3_bind_null             sqlite_functions.sqlite3_bind_null
#define sqlite3_bind_text64           sqlite_functions.sqlite3_bind_text64
#define sqlite3_busy_timeout          sqlite_functions.sqlite3_busy_timeout
#define sqlite3_changes64             sqlite_functions.sqlite3_changes64
#define sqlite3_clear_bindings        sqlite_functions.sqlite3_clear_bindings
#define sqlite3_close                 sqlite_functions.sqlite3_close
#define sqlite3_column_blob           sqlite_functions.sqlite3_column_blob
#define sqlite3_column_bytes          sqlite_functions.sqlite3_column_bytes
#define sqlite3_column_int64          sqlite_functions.sqlite3_column_int64
#define sqlite3_column_text           sqlite_functions.sqlite3_column_text
#define sqlite3_column_type           sqlite_functions.sqlite3_column_type
#define sqlite3_database_file_object  sqlite_functions.sqlite3_database_file_object
#define sqlite3_db_config             sqlite_functions.sqlite3_db_config
#define sqlite3_errmsg                sqlite_functions.sqlite3_errmsg
#define sqlite3_errstr                sqlite_functions.sqlite3_errstr
#define sqlite3_exec                  sqlite_functions.sqlite3_exec
#define sqlite3_extended_errcode      sqlite_functions.sqlite3_extended_errcode
#define sqlite3_extended_result_codes sqlite_functions.sqlite3_extended_result_codes
#define sqlite3_file_control          sqlite_functions.sqlite3_file_control
#define sqlite3_finalize              sqlite_functions.sqlite3_finalize
#define sqlite3_get_autocommit        sqlite_functions.sqlite3_get_autocommit
#define sqlite3_last_insert_rowid     sqlite_functions.sqlite3_last_insert_rowid
#define sqlite3_open_v2               sqlite_functions.sqlite3_open_v2
#define sqlite3_prepare_v2            sqlite_functions.sqlite3_prepare_v2
#define sqlite3_prepare_v3            sqlite_functions.sqlite3_prepare_v3
#define sqlite3_progress_handler      sqlite_functions.sqlite3_progress_handler
#define sqlite3_reset                 sqlite_functions.sqlite3_reset
#define sqlite3_sql                   sqlite_functions.sqlite3_sql
#define sqlite3_step                  sqlite_functions.sqlite3_step
#define sqlite3_system_errno          sqlite_functions.sqlite3_system_errno
#define sqlite3_vfs_find              sqlite_functions.sqlite3_vfs_find
#define sqlite3_vfs_register          sqlite_functions.sqlite3_vfs_register
