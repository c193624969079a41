/* SPDX-License-Identifier: MIT */
/* artifacts.h: files below the artifact root: dumps, traces, exports, method bytes. A name below the root is walked one
 * part at a time without following links, so that nobody who swaps a part for a link leads us out of it; files are 0600
 * in folders of 0700. Every function may wait for the disk: call them off the loop's thread. */
#ifndef LUNETTE_ARTIFACTS_ARTIFACTS_H
#define LUNETTE_ARTIFACTS_ARTIFACTS_H

#include <limits.h>
#include <sys/types.h>

#include "base/mem.h"

#define ART_DEPTH_MAX 32                   /* folders below the root */
#define ART_LIST_MAX  20000                /* files listed; the rest is counted */
#define ART_FILE_MAX  ((int64_t)256 << 20) /* bytes of a file that is handed out */
#define ART_CHUNK_MAX ((size_t)16 << 20)   /* bytes of one piece of it */

typedef struct art_info {
    int64_t size, mtime_ns; /* bytes; since 1970 */
} art_info;

/* ---- paths (path.c) ---------------------------------------------------------------------------------------------- */
/* The root folder as a descriptor, made (0700) when it is not there. The root itself may lie behind links. */
int art_root(const char *root, err *e);
/* The name below the root that `path` means, without links, "." and "..": relative to the root or, when absolute is
 * allowed, any path that resolves below it. ERR_INVALID_ARTIFACT_PATH for one that leaves the root (told apart from
 * ERR_ARTIFACT_NOT_FOUND only for names below it). out is NUL-terminated. */
int art_name(const char *root, const char *path, bool absolute, char out[PATH_MAX], err *e);
/* Opens the regular file `name` below the folder, for reading. ERR_INVALID_ARTIFACT_PATH when a part is a link or "..",
 * or when it is no regular file; ERR_ARTIFACT_NOT_FOUND. */
int art_open(int root, const char *name, err *e);
/* Opens the folder `name` below the root ("" is the root itself), makes what lacks of it. */
int art_folder(int root, const char *name, err *e);
/* Writes a file of n bytes (0600), in the place of one that is there; folders that lack are made. A reader sees the old
 * or the new one, whole. */
int art_write(int root, const char *name, const void *p, size_t n, err *e);
/* Removes the regular file `name`; *out tells what it was. */
int art_remove(int root, const char *name, art_info *out, err *e);

/* ---- the inventory (list.c) -------------------------------------------------------------------------------------- */
typedef struct art_entry {
    char *name; /* below the root, on the heap; bytes as they are on the disk */
    art_info info;
} art_entry;
typedef struct art_list {
    art_entry *items; /* newest first */
    size_t n, cap, dropped;
} art_list;
/* Every regular file below the root; links are not followed. */
int art_list_files(int root, art_list *out, err *e);
void art_list_fini(art_list *l);

/* ---- pieces (piece.c) -------------------------------------------------------------------------------------------- */
typedef struct art_piece {
    int64_t size;    /* of the whole file */
    char sha256[65]; /* of the whole file, lower-case hex */
    buf bytes;       /* from the offset on */
} art_piece;
/* Reads at most max bytes at offset of an open regular file, and the digest of all of it, which is remembered as long
 * as the file stays as it is. ERR_INVALID_ARGUMENT when the file has more than `limit` bytes or the offset is past its
 * end (detail "offset"); ERR_CONFLICT when it changed meanwhile. */
int art_read(int fd, int64_t offset, size_t max, int64_t limit, art_piece *out, err *e);
void art_piece_fini(art_piece *p);

/* Opens a regular file of a process by the path that its mappings show (absolute, no part of it a link), for reading.
 */
int art_open_of(pid_t pid, const char *path, err *e);

/* ---- a folder in which a process may write (stage.c) ------------------------------------------------------------- */
#define ART_STAGE_NAME 48
typedef struct art_stage {
    int parent, dir;           /* descriptors; -1 */
    char name[ART_STAGE_NAME]; /* of dir in parent */
    char path[PATH_MAX];       /* of dir, as the process sees it */
    bool direct;               /* it lies in the folder below the root to which its files go */
    int64_t free_bytes;        /* of its file system, for who is not root */
} art_stage;
/* Removes private folders (their names begin with prefix) that servers which were killed have left in the open folder
 * parent: whoever uses one holds a lock on it, which ends with him. Only those of uid or of our own user, 0700, and
 * unchanged for more than older_s seconds: of one just made the lock may not be taken yet. Opening a stage does it. */
void art_stage_sweep(int parent, const char *prefix, uid_t uid, int older_s);
/* Makes a private folder (0700, owned by uid) in the first of the folders (as the process sees them; NULL-terminated)
 * that will do, through /proc/PID/root. ERR_PERMISSION_DENIED with the cure when that cannot be looked into. */
int art_stage_open(pid_t pid, uid_t uid, const char *const *folders, art_stage *out, err *e);
/* The same in the folder `name` below the root itself, when the process sees that folder under the same path and may
 * write there: 1; else 0. What is removed with its folder cannot be made anew by who is late: a createdump that still
 * gathers finds no place to write. */
int art_stage_direct(pid_t pid, uid_t uid, const char *root, int root_fd, const char *name, art_stage *out, err *e);
/* Bytes that `file` in the stage has now; -1 when it is not there, or no regular file. */
int64_t art_stage_size(const art_stage *s, const char *file);
/* Moves `file` of the stage to the new name `to` (0600, ours) in the folder `dest`; copies when it must. Never replaces
 * a file. *copied tells which. ERR_NOT_FOUND when there is no such file, ERR_CONFLICT when `to` is there. */
int art_stage_take(const art_stage *s, const char *file, int dest, const char *to, art_info *out, bool *copied, err *e);
/* Removes the files named in the NULL-terminated list, and the folder. NULLs and absent files are fine. */
void art_stage_close(art_stage *s, const char *const *files);
/* Bytes free on the file system of a folder; negative: not known. */
int64_t art_free_bytes(int fd);

#endif
