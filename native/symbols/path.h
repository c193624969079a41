/* SPDX-License-Identifier: MIT */
/* path.h: a symbol path as _NT_SYMBOL_PATH writes it: parts separated by ";", each a folder, "cache*FOLDER",
 * "srv*FOLDER*…*URL" or "symsrv*symsrv.dll*…". Folders are looked into as they are and by the layout of a symbol server
 * (NAME/ID/NAME). Nothing is fetched from a host that the path was not allowed. */
#ifndef LUNETTE_SYMBOLS_PATH_H
#define LUNETTE_SYMBOLS_PATH_H

#include "base/bytes.h"
#include "base/err.h"

typedef struct sym_path sym_path;

#define SYM_PATH_MAX_BYTES ((size_t)32 << 10)
#define SYM_PATH_MAX_PARTS 64

/* Which servers may be asked, whatever text says. */
typedef struct sym_gate {
    const char *const *hosts; /* compared without case; NULL when n_hosts is 0 */
    size_t n_hosts;
    bool any_host;     /* the caller may ask any server */
    bool trusted;      /* the operator's own path: the hosts that it names are allowed */
    const char *cache; /* folder for what is fetched, made with mode 0700; NULL: nothing is fetched */
} sym_gate;

/* Reads text. A server that is not allowed: PermissionDenied with the part in detail, and nothing of the path can be
 * used. A copy of everything is kept; the caller holds
 * it once. InvalidArgument: too long, or too many parts. */
int sym_path_new(slice text, const sym_gate *gate, sym_path **out, err *e);
/* One more holder, of any thread; each lets go once. The last one frees. */
sym_path *sym_path_ref(sym_path *p);
void sym_path_unref(sym_path *p); /* NULL is fine */
/* Whether a server is allowed by the list of hosts alone. */
bool sym_path_by_hosts(const sym_path *p);
size_t sym_path_servers(const sym_path *p);

#endif
