/* SPDX-License-Identifier: MIT */
/* Kept answers. Keys are compared whole, but only where a hash with a secret seed agrees: the time a lookup takes tells
 * nothing of a token in a kept key. */
#include "transport/kept.h"

#include <stdlib.h>
#include <strings.h>
#include <sys/random.h>

#include "base/json.h"

typedef struct entry {
    uint64_t hash, used;
    slice key;
    kept_answer answer;
    arena memory;
} entry;

struct kept {
    uint64_t seed, generation, clock;
    size_t n;
    entry entries[KEPT_ENTRIES_MAX];
};

kept *kept_new(void)
{
    kept *k = mem_calloc(1, sizeof *k);
    if (k && getrandom(&k->seed, sizeof k->seed, 0) != (ssize_t)sizeof k->seed) k->seed = (uint64_t)(uintptr_t)k;
    return k;
}

void kept_forget(kept *k)
{
    for (size_t i = 0; i < k->n; i++)
        arena_free(&k->entries[i].memory);
    k->n = 0;
    k->generation++;
}

void kept_free(kept *k)
{
    if (k) kept_forget(k);
    free(k);
}

uint64_t kept_generation(const kept *k) { return k->generation; }
bool kept_any(const kept *k) { return k->n > 0; }

static slice trimmed(const uint8_t *from, const uint8_t *to)
{
    while (from < to && (*from == ' ' || *from == '\t' || *from == '\r' || *from == '\n' || *from == ':'))
        from++;
    return slice_of(from, (size_t)(to - from));
}

/* One member: its key was read. */
static bool take_member(jsonr *r, slice *id)
{
    if (!slice_eq(r->str, SLICE_LIT("id"))) return jsonr_skip(r);
    const uint8_t *from = r->p;
    json_tok t = jsonr_next(r);
    if (id->p || (t != JSON_STR && t != JSON_INT)) return false;
    *id = trimmed(from, r->p);
    return true;
}

bool kept_id(slice body, slice *id)
{
    jsonr r;
    jsonr_init(&r, body);
    *id = (slice){0};
    bool good = jsonr_next(&r) == JSON_OBJECT;
    json_tok t = JSON_KEY;
    while (good && (t = jsonr_next(&r)) == JSON_KEY)
        good = take_member(&r, id);
    good = good && t == JSON_OBJECT_END && jsonr_next(&r) == JSON_END && id->p;
    jsonr_fini(&r);
    return good;
}

static void put_part(buf *key, slice s)
{
    buf_u32(key, (uint32_t)s.n);
    buf_slice(key, s);
}

bool kept_key(buf *key, const http_req *r, slice body, slice id)
{
    http_kv h[HTTP_HEADERS_MAX];
    size_t n = http_req_headers(r, h, HTTP_HEADERS_MAX), before = (size_t)(id.p - body.p);
    buf_reset(key);
    put_part(key, slice_str(http_req_method(r)));
    put_part(key, http_req_path(r));
    put_part(key, http_req_query(r));
    for (size_t i = 0; i < n; i++) {
        /* The length of the body differs with that of the id. */
        if (h[i].name.n == 14 && strncasecmp((const char *)h[i].name.p, "Content-Length", 14) == 0) continue;
        put_part(key, h[i].name);
        put_part(key, h[i].value);
    }
    put_part(key, slice_of(body.p, before));
    put_part(key, slice_of(id.p + id.n, body.n - before - id.n));
    return !key->failed && key->n <= KEPT_KEY_MAX;
}

static entry *lookup(kept *k, uint64_t hash, slice key)
{
    for (size_t i = 0; i < k->n; i++)
        if (k->entries[i].hash == hash && slice_eq(k->entries[i].key, key)) return &k->entries[i];
    return NULL;
}

const kept_answer *kept_find(kept *k, slice key)
{
    entry *found = k->n ? lookup(k, hash_bytes(key, k->seed), key) : NULL;
    if (!found) return NULL;
    found->used = ++k->clock;
    return &found->answer;
}

static entry *place(kept *k)
{
    entry *oldest = &k->entries[0];
    if (k->n < KEPT_ENTRIES_MAX) return &k->entries[k->n++];
    for (size_t i = 1; i < k->n; i++)
        if (k->entries[i].used < oldest->used) oldest = &k->entries[i];
    arena_free(&oldest->memory);
    return oldest;
}

static slice copy(arena *a, slice s) { return slice_of(arena_dup(a, s.p, s.n), s.n); }

static bool fill(entry *e, slice key, const kept_answer *answer)
{
    e->key = copy(&e->memory, key);
    e->answer = (kept_answer){.status = answer->status, .n_headers = answer->n_headers};
    e->answer.head = copy(&e->memory, answer->head);
    e->answer.tail = copy(&e->memory, answer->tail);
    e->answer.headers = arena_alloc(&e->memory, (answer->n_headers + 1) * sizeof *answer->headers);
    for (size_t i = 0; i < answer->n_headers && e->answer.headers; i++)
        e->answer.headers[i] =
            (http_kv){copy(&e->memory, answer->headers[i].name), copy(&e->memory, answer->headers[i].value)};
    return !e->memory.failed && e->key.p && e->answer.head.p && e->answer.tail.p && e->answer.headers;
}

void kept_put(kept *k, uint64_t generation, slice key, const kept_answer *answer)
{
    uint64_t hash = hash_bytes(key, k->seed);
    if (generation != k->generation || answer->head.n + answer->tail.n > KEPT_BODY_MAX || lookup(k, hash, key)) return;
    entry *e = place(k);
    *e = (entry){.hash = hash, .used = ++k->clock};
    if (fill(e, key, answer)) return;
    arena_free(&e->memory);
    *e = k->entries[--k->n];
}
