/* SPDX-License-Identifier: MIT */
/* kept.h: answers that are given again without asking a script. A script may keep the answer of a JSON-RPC request that
 * depends on nothing but the request's bytes; a later request that equals it in method, target, every header and the
 * whole body, but for the value of "id", gets it with its own id put in. Loop thread only. */
#ifndef LUNETTE_TRANSPORT_KEPT_H
#define LUNETTE_TRANSPORT_KEPT_H

#include "base/mem.h"
#include "transport/http.h"

#define KEPT_ENTRIES_MAX 32                  /* then the one that was used longest ago goes */
#define KEPT_KEY_MAX     ((size_t)16 << 10)  /* bytes; a longer request is not kept */
#define KEPT_BODY_MAX    ((size_t)256 << 10) /* bytes; likewise an answer */

typedef struct kept kept;

typedef struct kept_answer {
    unsigned status;
    http_kv *headers;
    size_t n_headers;
    slice head, tail; /* the id goes between */
} kept_answer;

kept *kept_new(void); /* NULL: no memory */
void kept_free(kept *k);
/* Drops all answers; those made for an earlier generation are not taken any more. */
void kept_forget(kept *k);
uint64_t kept_generation(const kept *k);
bool kept_any(const kept *k); /* is there any answer at all */

/* Finds the value of the one top-level "id", a text or an integer, of a JSON object. False when there is no such, or
 * the text is no JSON. */
bool kept_id(slice body, slice *id);
/* Writes what tells this request from others into key (emptied first). False when it is too long. */
bool kept_key(buf *key, const http_req *r, slice body, slice id);
/* Keeps a copy, unless generation has passed or a limit is reached: then the answer is just not kept. */
void kept_put(kept *k, uint64_t generation, slice key, const kept_answer *answer);
/* Borrowed until the next kept_put or kept_forget; NULL when there is none. */
const kept_answer *kept_find(kept *k, slice key);

#endif
