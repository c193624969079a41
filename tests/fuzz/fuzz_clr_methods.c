/* SPDX-License-Identifier: MIT */
/* fuzz_clr_methods.c: any payloads as method, module and assembly events, with wishes and look-ups between them: no
 * crash, the cap held, what is found lies around the address and its text in valid UTF-8, and what was taken, dropped
 * or passed over adds up. Input: records of a command byte, a time byte, a length and so many bytes. */
#include <stdlib.h>

#include "base/utf.h"
#include "clr/methods.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(cond)                                                                                                  \
    do {                                                                                                               \
        if (!(cond)) abort();                                                                                          \
    } while (0)

static const uint8_t runtime_ids[] = {137, 140, 141, 142, 143, 144, 149, 152, 153, 154, 159};
static const uint8_t rundown_ids[] = {141, 142, 143, 144, 153, 154, 155, 156};

/* Command: 0..10 a runtime event, 11..18 a rundown event, 19 wanted addresses, 20 all are wanted, else look up. */
enum { WANT = sizeof runtime_ids + sizeof rundown_ids, WANT_ALL, COMMANDS = 32 };

static void check_text(slice s) { REQUIRE(utf8_valid(s) && s.n <= CLR_METHOD_NAME_MAX); }

static void look_up(clr_methods *m, slice bytes, int64_t ts)
{
    cursor c = cursor_of(bytes, 0);
    while (cursor_left(&c) >= 8) {
        clr_method f;
        uint64_t ip = cursor_u64(&c);
        (void)clr_methods_reused(m, ip);
        if (clr_methods_entry(m, ip, &f)) {
            REQUIRE(f.start <= ip && ip - f.start < CLR_ENTRY_REACH && f.module_index == UINT32_MAX && f.tier);
            check_text(f.name);
        }
        if (!clr_methods_find(m, ip, ts, &f)) continue;
        REQUIRE(f.start <= ip && ip - f.start < f.size && f.size <= CLR_METHOD_SIZE_MAX && f.tier);
        check_text(f.namespace_);
        check_text(f.name);
        check_text(f.signature);
        check_text(f.module);
        buf b;
        buf_init(&b, 0);
        REQUIRE(clr_method_name(&f, &b));
        buf_fini(&b);
    }
}

static void want(clr_methods *m, slice bytes)
{
    uint64_t ips[32];
    size_t n = bytes.n / 8 < 32 ? bytes.n / 8 : 32;
    if (n) memcpy(ips, bytes.p, n * 8);
    clr_methods_want(m, ips, n);
}

static void one_event(clr_methods *m, unsigned command, uint32_t version, int64_t ts, slice payload)
{
    bool rundown = command >= sizeof runtime_ids;
    nt_kind k = {.provider =
                     slice_str(rundown ? "Microsoft-Windows-DotNETRuntimeRundown" : "Microsoft-Windows-DotNETRuntime"),
                 .id = rundown ? rundown_ids[command - sizeof runtime_ids] : runtime_ids[command],
                 .version = version};
    nt_event ev = {.kind = &k, .payload = payload, .ts = ts};
    int code = clr_methods_kind(&k);
    REQUIRE(code > 0);
    uint64_t rows = clr_methods_count(m), dropped = clr_methods_dropped(m);
    int rc = clr_methods_event(m, code, &ev);
    REQUIRE(rc == 0 || rc == -ERR_LIMIT);
    rows = clr_methods_count(m) - rows;
    dropped = clr_methods_dropped(m) - dropped;
    REQUIRE(rows + dropped <= 1 && (rc == 0 || dropped == 1));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) return 0;
    size_t cap = (size_t)4096 << (data[0] & 7);
    clr_methods *m = clr_methods_new(cap);
    REQUIRE(m);
    cursor c = cursor_of(slice_of(data + 1, size - 1), 0);
    while (cursor_left(&c) >= 3) {
        unsigned command = cursor_u8(&c);
        int64_t ts = (int64_t)cursor_u8(&c) - 128; /* 255: the latest */
        size_t n = cursor_u8(&c);
        slice bytes = cursor_bytes(&c, n < cursor_left(&c) ? n : cursor_left(&c));
        uint32_t version = command / COMMANDS;
        command %= COMMANDS;
        if (command < WANT)
            one_event(m, command, version, ts, bytes);
        else if (command == WANT)
            want(m, bytes);
        else if (command == WANT_ALL)
            clr_methods_want(m, NULL, 0);
        else
            look_up(m, bytes, ts == 127 ? INT64_MAX : ts);
        /* the scratch buffer for names grows with the longest, within its own cap */
        REQUIRE(clr_methods_memory(m) <= cap + 4 * CLR_METHOD_NAME_MAX);
    }
    clr_methods_free(m);
    return 0;
}
