/* SPDX-License-Identifier: MIT */
/* fetch.h: one file from a symbol server, over HTTP or HTTPS. Protocol: dotnet/symstore, docs/specs,
 * "Simple Symbol Query Protocol". Blocks: call it on a worker thread. */
#ifndef LUNETTE_SYMBOLS_FETCH_H
#define LUNETTE_SYMBOLS_FETCH_H

#include "symbols/path_internal.h"

#define SYM_FETCH_MAX_BYTES  ((uint64_t)256 << 20)
#define SYM_FETCH_CONNECT_MS 5000
#define SYM_FETCH_TOTAL_MS   60000
#define SYM_FETCH_REDIRECTS  5
/* A server that did not answer is not asked again for so long. */
#define SYM_FETCH_REST_MS 60000

/* Gets SERVER/NAME/KEY/FILE (file NULL: NAME again) into a new file (mode 0600) below the path's cache folder; temp
 * gets its name (yours to rename or unlink). checksum: "SHA256:…", or "": sent with the question, as some servers want.
 * NotFound: the server has none; Timeout, IoError, LimitExceeded; PermissionDenied: it pointed to a host that is not
 * allowed, which was not asked. Any thread. */
int sym_fetch(const sym_path *p, const char *server, const char *name, const char *key, const char *file,
              const char *checksum, int64_t deadline_ns, char *temp, size_t temp_size, err *e);

#endif
