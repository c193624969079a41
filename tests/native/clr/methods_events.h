/* SPDX-License-Identifier: MIT */
/* methods_events.h: method, module and assembly events with synthetic payloads, for the tests of the method map. */
#ifndef LUNETTE_TESTS_CLR_METHODS_EVENTS_H
#define LUNETTE_TESTS_CLR_METHODS_EVENTS_H

#include "base/utf.h"
#include "check.h"
#include "clr/methods.h"

#define RUNTIME "Microsoft-Windows-DotNETRuntime"
#define RUNDOWN "Microsoft-Windows-DotNETRuntimeRundown"

enum { LOAD = 141, UNLOAD = 142, LOAD_NAMED = 143, UNLOAD_NAMED = 144, ALIVE = -144 /* of the rundown */ };

/* A body as a test thinks of it; zeros are filled in: size 0x100, flags of tier 1, module 0x10. */
typedef struct body {
    uint64_t start;
    const char *name; /* of method and, in the namespace "N.T", of the event; NULL where the event has none */
    uint64_t id, module;
    uint32_t size, token, flags;
    const char *namespace_, *signature;
    uint64_t rejit;
} body;

static inline void put_utf16z(buf *b, const char *s)
{
    assert_true(utf8_to_utf16le(slice_str(s), b));
    assert_true(buf_u16(b, 0));
}

/* Gives one event of the id (negative: of the rundown provider) to the map. Returns what the map does, or -1000 when it
 * does not read the kind. */
static inline int give(clr_methods *m, int id, uint32_t version, int64_t ts, slice payload)
{
    nt_kind k = {.provider = slice_str(id < 0 ? RUNDOWN : RUNTIME), .id = (uint32_t)abs(id), .version = version};
    nt_event ev = {.kind = &k, .payload = payload, .ts = ts};
    int code = clr_methods_kind(&k);
    return code > 0 ? clr_methods_event(m, code, &ev) : -1000;
}

static inline bool has_names(int id) { return abs(id) == 143 || abs(id) == 144; }

static inline void method_payload(buf *p, int id, body b)
{
    buf_u64(p, b.id ? b.id : b.start * 3);
    buf_u64(p, b.module ? b.module : 0x10);
    buf_u64(p, b.start);
    buf_u32(p, b.size ? b.size : 0x100);
    buf_u32(p, b.token);
    buf_u32(p, b.flags ? b.flags : 0x208);
    if (has_names(id)) {
        put_utf16z(p, b.namespace_ ? b.namespace_ : "N.T");
        put_utf16z(p, b.name);
        put_utf16z(p, b.signature ? b.signature : "void  ()");
    }
    buf_u16(p, 9);
    buf_u64(p, b.rejit);
}

static inline int method(clr_methods *m, int id, int64_t ts, body b)
{
    buf p;
    buf_init(&p, 0);
    method_payload(&p, id, b);
    int rc = give(m, id, 2, ts, buf_view(&p));
    buf_fini(&p);
    return rc;
}

static inline int module(clr_methods *m, int id, uint64_t module, uint64_t assembly, const char *path)
{
    buf p;
    buf_init(&p, 0);
    buf_u64(&p, module);
    buf_u64(&p, assembly);
    buf_u64(&p, 0);
    put_utf16z(&p, path);
    put_utf16z(&p, "");
    buf_u16(&p, 9);
    int rc = give(m, id, 2, 1, buf_view(&p));
    buf_fini(&p);
    return rc;
}

/* A module with its managed PDB, in version 2 of the event. */
static inline int module_with_pdb(clr_methods *m, uint64_t module, const char *path, const char *guid, uint32_t age,
                                  const char *pdb)
{
    buf p;
    buf_init(&p, 0);
    buf_u64(&p, module);
    buf_u64(&p, 1);
    buf_u64(&p, 0);
    put_utf16z(&p, path);
    put_utf16z(&p, "");
    buf_u16(&p, 9);
    buf_put(&p, guid, 16);
    buf_u32(&p, age);
    put_utf16z(&p, pdb);
    int rc = give(m, -154, 2, 1, buf_view(&p));
    buf_fini(&p);
    return rc;
}

static inline int assembly(clr_methods *m, int id, uint32_t version, uint64_t assembly, const char *name)
{
    buf p;
    buf_init(&p, 0);
    buf_u64(&p, assembly);
    buf_u64(&p, 1);
    if (version > 0) buf_u64(&p, 0);
    buf_u32(&p, 0);
    put_utf16z(&p, name);
    int rc = give(m, id, version, 1, buf_view(&p));
    buf_fini(&p);
    return rc;
}

/* The method's own name at an address and a time; NULL: unknown. Borrowed from the map. */
static inline const char *name_at(const clr_methods *m, uint64_t ip, int64_t ts)
{
    clr_method f;
    return clr_methods_find(m, ip, ts, &f) ? (const char *)f.name.p : NULL;
}
#define assert_name(m, ip, ts, want)                                                                                   \
    do {                                                                                                               \
        const char *got_ = name_at((m), (ip), (ts));                                                                   \
        assert_string_equal(got_ ? got_ : "(unknown)", (want));                                                        \
    } while (0)
#define UNKNOWN "(unknown)"

#endif
