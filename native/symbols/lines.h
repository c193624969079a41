/* SPDX-License-Identifier: MIT */
/* lines.h: from a method of a module (metadata token) and an IL offset to the file and line of its source, and to the
 * address of that source where SourceLink tells it. Reads portable PDBs (beside the module, inside it, or found by a
 * symbol path) and Windows PDBs (MSF 7); a PDB counts only when its id is the one that the module names.
 *
 *     sym_store *s = sym_store_new(0);                                      one for the process: any thread
 *     sym_wanted w = {.path = "/app/Shop.dll", .search = path};
 *     sym_module *m;
 *     if (sym_module_open(s, &w, &m, &e) == 0) {                            waits for files (and servers): a worker's
 * job sym_line at; if (sym_module_line(m, 0x06000012, il_offset, &at)) ...           quick, no files
 *         sym_module_release(m);
 *     }
 *
 * An instruction pointer becomes an IL offset by clr/il_map.h. For every frame but the innermost look up ip - 1: a
 * return address is behind its call. */
#ifndef LUNETTE_SYMBOLS_LINES_H
#define LUNETTE_SYMBOLS_LINES_H

#include "base/bytes.h"
#include "base/err.h"

typedef struct sym_store sym_store;
typedef struct sym_module sym_module;
typedef struct sym_path sym_path; /* path.h */

#define SYM_STORE_MAX_BYTES ((size_t)128 << 20)
/* For a body without an IL map (code that was compiled ahead of time): the method's first line. */
#define SYM_IL_UNKNOWN UINT32_MAX

/* Keeps modules that were opened, the last used ones, up to max_bytes (0: SYM_STORE_MAX_BYTES) beside those in use; a
 * file that changed on disk is read anew, and a module without lines is looked for again. Any thread. NULL: no memory.
 */
sym_store *sym_store_new(size_t max_bytes);
/* Every module must have been released. NULL is fine. */
void sym_store_free(sym_store *s);
size_t sym_store_memory(sym_store *s); /* bytes kept, estimate */

/* The id of a PDB as a module names it. */
typedef struct sym_pdb_id {
    uint8_t guid[16]; /* as it lies in the file: the first three groups are little-endian */
    uint32_t age;     /* of a Windows PDB; of a portable one the stamp that the module carries, which is not compared */
} sym_pdb_id;

/* Which module. path or pdb must be there; the rest may be NULL. Nothing is kept of the pointers. */
typedef struct sym_wanted {
    const char *path;         /* the module's file as this process can open it (/proc/PID/root/… for a container's) */
    const uint8_t *mvid;      /* 16 bytes: a file with another one is no match (NotFound) */
    const sym_pdb_id *pdb;    /* from the runtime's module events: used where the file cannot be read */
    const char *pdb_path;     /* ManagedPdbBuildPath of these events: its last part is the PDB's file name */
    const sym_path *search;   /* where else to look for the PDB; NULL: beside the module and inside it only */
    const sym_path *search_2; /* after that: the operator's */
    int64_t deadline_ns;      /* monotonic: no server is asked after it; 0: only each fetch has its limit */
} sym_wanted;

typedef enum sym_format {
    SYM_FORMAT_NONE, /* no PDB: sym_module_why tells */
    SYM_FORMAT_PORTABLE,
    SYM_FORMAT_EMBEDDED, /* a portable one inside the module */
    SYM_FORMAT_WINDOWS,
} sym_format;

typedef struct sym_module_info {
    bool has_mvid;
    uint8_t mvid[16];
    bool has_pdb_id;
    sym_pdb_id pdb;
    const char *pdb_file; /* where it was found; the module for an embedded one; NULL: nowhere. Borrowed */
    sym_format format;
} sym_module_info;

/* A module, shared with everybody who opened it. One without a PDB is a success, too (its info has the MVID). Fails
 * with NotFound, PermissionDenied, MalformedInput, TruncatedInput, LimitExceeded, IoError or OutOfMemory when nothing
 * is known of it. */
int sym_module_open(sym_store *s, const sym_wanted *w, sym_module **out, err *e);
void sym_module_release(sym_module *m); /* NULL is fine */
const sym_module_info *sym_module_info_of(const sym_module *m);
/* Why there are no lines: one sentence with what to do about it; "" when there are. Borrowed. */
const char *sym_module_why(const sym_module *m);

/* Text is UTF-8, borrowed until the module is released. */
typedef struct sym_line {
    slice file; /* as the compiler was given it: "/src/Shop/Cart.cs" or "C:\src\Cart.cs"; never empty */
    slice url;  /* of that file in the repository, by SourceLink; may be empty */
    uint32_t line, column, end_line, end_column; /* from 1; columns 0: not known */
    uint32_t il_offset;                          /* where the sequence point begins */
    bool exact; /* false: the IL offset was unknown or hidden, and this is the nearest line */
} sym_line;

/* The line of an IL offset of a method (token 0x06……): that of the sequence point it lies in, or, where that one is
 * hidden, the nearest real one before it, or else after it. False: the method has no lines, or there is no PDB. Any
 * thread; the first look-up of a method in a Windows PDB reads its file. */
bool sym_module_line(sym_module *m, uint32_t token, uint32_t il_offset, sym_line *out);

#endif
