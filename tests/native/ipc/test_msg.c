/* SPDX-License-Identifier: MIT */
/* test_msg.c: no builder can make a malformed request: for every command its exact bytes, and every limit refused. The
 * expected bytes are written by hand here, not with the code under test. */
#include <stdio.h>
#include <stdlib.h>

#include "ipc/fake.h"

static const uint8_t guid[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

/* ---- an independent writer of expected bytes --------------------------------------------------------------------- */
typedef struct bytes {
    uint8_t p[4096];
    size_t n;
} bytes;
static void put(bytes *b, uint64_t v, int size)
{
    for (int i = 0; i < size; i++)
        b->p[b->n++] = (uint8_t)(v >> (8 * i));
}
static void put_ascii(bytes *b, const char *s)
{
    put(b, strlen(s) + 1, 4);
    for (;; s++) {
        put(b, (uint8_t)*s, 2);
        if (!*s) return;
    }
}
static bytes head(unsigned command)
{
    bytes b = {0};
    memcpy(b.p, "\x44\x4F\x54\x4E\x45\x54\x5F\x49\x50\x43\x5F\x56\x31\x00", 14);
    b.n = 16;
    put(&b, command >> 8, 1);
    put(&b, command & 0xFF, 1);
    put(&b, 0, 2);
    return b;
}
static void expect(ipc_msg *m, int rc, bytes b)
{
    assert_int_equal(rc, 0);
    b.p[14] = (uint8_t)b.n;
    b.p[15] = (uint8_t)(b.n >> 8);
    assert_int_equal(m->b.n, b.n);
    assert_memory_equal(m->b.p, b.p, b.n);
    ipc_request r;
    assert_int_equal(ipc_request_parse(buf_view(&m->b), &r, NULL), 0);
    assert_int_equal(r.command, m->command);
}
static void refused(ipc_msg *m, int rc, err_kind kind, err *e)
{
    assert_int_equal(rc, -(int)kind);
    assert_int_equal(e->kind, kind);
    assert_true(e->message[0] != 0);
    assert_int_equal(m->b.n, 0); /* nothing left that could be sent */
    assert_int_equal(m->command, 0);
    err_clear(e);
}

/* ---- every command ----------------------------------------------------------------------------------------------- */
static void commands_without_payload_are_twenty_bytes(void **state)
{
    (void)state;
    static const ipc_command plain[] = {IPC_PROCESS_INFO, IPC_PROCESS_INFO2, IPC_PROCESS_INFO3,
                                        IPC_RESUME,       IPC_ENVIRONMENT,   IPC_DISABLE_PERF_MAP};
    ipc_msg m;
    ipc_msg_init(&m);
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        expect(&m, ipc_msg_plain(&m, plain[i], NULL), head(plain[i]));
    assert_int_equal(ipc_msg_plain(&m, IPC_RESUME, NULL), 0);
    assert_memory_equal(m.b.p, "DOTNET_IPC_V1\0\x14\x00\x04\x01\x00\x00", 20);
    ipc_msg_fini(&m);
}

static void commands_with_payload_cannot_be_sent_without(void **state)
{
    (void)state;
    static const ipc_command full[] = {IPC_DUMP1,           IPC_DUMP2,           IPC_DUMP3,
                                       IPC_STOP_TRACING,    IPC_COLLECT1,        IPC_COLLECT2,
                                       IPC_COLLECT3,        IPC_COLLECT4,        IPC_COLLECT5,
                                       IPC_COLLECT6,        IPC_ATTACH_PROFILER, IPC_STARTUP_PROFILER,
                                       IPC_SET_ENVIRONMENT, IPC_ENABLE_PERF_MAP, IPC_STARTUP_HOOK,
                                       (ipc_command)0x0499, (ipc_command)0};
    ipc_msg m;
    ipc_msg_init(&m);
    for (size_t i = 0; i < sizeof full / sizeof *full; i++) {
        err e = {0};
        refused(&m, ipc_msg_plain(&m, full[i], &e), ERR_INVALID_ARGUMENT, &e);
        bytes b = head(full[i]);
        b.p[14] = 20;
        if (full[i] == IPC_STOP_TRACING || full[i] > IPC_PROCESS_INFO3 || full[i] == 0) continue;
        ipc_request r; /* the last gate holds as well */
        assert_int_equal(ipc_request_parse(slice_of(b.p, b.n), &r, NULL), -ERR_MALFORMED);
    }
    ipc_msg_fini(&m);
}

static void dump_requests_are_exact_and_bounded(void **state)
{
    (void)state;
    ipc_msg m;
    ipc_msg_init(&m);
    err e = {0};
    for (int v = 1; v <= 3; v++) {
        uint32_t flags = v == 1 ? 1 : 7;
        bytes b = head(0x0100 + (unsigned)v);
        put_ascii(&b, "/t/core");
        put(&b, 4, 4);
        put(&b, flags, 4);
        expect(&m, ipc_msg_dump(&m, v, "/t/core", 4, flags, &e), b);
        refused(&m, ipc_msg_dump(&m, v, "/t/core", 0, 0, &e), ERR_INVALID_ARGUMENT, &e);
        refused(&m, ipc_msg_dump(&m, v, "/t/core", 5, 0, &e), ERR_INVALID_ARGUMENT, &e);
        refused(&m, ipc_msg_dump(&m, v, "/t/core", 1, flags + 1, &e), ERR_INVALID_ARGUMENT, &e);
        refused(&m, ipc_msg_dump(&m, v, "core", 1, 0, &e), ERR_INVALID_ARGUMENT, &e);
        refused(&m, ipc_msg_dump(&m, v, "", 1, 0, &e), ERR_INVALID_ARGUMENT, &e);
        refused(&m, ipc_msg_dump(&m, v, NULL, 1, 0, &e), ERR_INVALID_ARGUMENT, &e);
        refused(&m, ipc_msg_dump(&m, v, "/\xFF", 1, 0, &e), ERR_INVALID_ARGUMENT, &e);
    }
    refused(&m, ipc_msg_dump(&m, 0, "/t", 1, 0, &e), ERR_INVALID_ARGUMENT, &e);
    refused(&m, ipc_msg_dump(&m, 4, "/t", 1, 0, &e), ERR_INVALID_ARGUMENT, &e);
    ipc_msg_fini(&m);
}

static void stop_carries_an_id_that_is_not_zero(void **state)
{
    (void)state;
    ipc_msg m;
    ipc_msg_init(&m);
    err e = {0};
    bytes b = head(0x0201);
    put(&b, UINT64_C(0x7f0012345678abcd), 8);
    expect(&m, ipc_msg_stop(&m, UINT64_C(0x7f0012345678abcd), &e), b);
    refused(&m, ipc_msg_stop(&m, 0, &e), ERR_INVALID_ARGUMENT, &e);
    ipc_msg_fini(&m);
}

static void profiler_environment_and_other_requests_are_exact(void **state)
{
    (void)state;
    ipc_msg m;
    ipc_msg_init(&m);
    err e = {0};
    bytes b = head(0x0301);
    put(&b, 5000, 4);
    memcpy(b.p + b.n, guid, 16);
    b.n += 16;
    put_ascii(&b, "/p.so");
    put(&b, 3, 4);
    memcpy(b.p + b.n, "abc", 3);
    b.n += 3;
    expect(&m, ipc_msg_attach_profiler(&m, 5000, guid, "/p.so", SLICE_LIT("abc"), &e), b);
    refused(&m, ipc_msg_attach_profiler(&m, 0, guid, "/p.so", SLICE_LIT("abc"), &e), ERR_INVALID_ARGUMENT, &e);
    refused(&m, ipc_msg_attach_profiler(&m, 1, guid, "", (slice){0}, &e), ERR_INVALID_ARGUMENT, &e);

    b = head(0x0302);
    memcpy(b.p + b.n, guid, 16);
    b.n += 16;
    put_ascii(&b, "/p.so");
    expect(&m, ipc_msg_startup_profiler(&m, guid, "/p.so", &e), b);
    refused(&m, ipc_msg_startup_profiler(&m, guid, "p.so", &e), ERR_INVALID_ARGUMENT, &e);

    b = head(0x0403);
    put_ascii(&b, "N");
    put_ascii(&b, "");
    expect(&m, ipc_msg_set_environment(&m, "N", "", &e), b);
    b = head(0x0403);
    put_ascii(&b, "N");
    put(&b, 0, 4);
    expect(&m, ipc_msg_set_environment(&m, "N", NULL, &e), b);
    refused(&m, ipc_msg_set_environment(&m, "", "v", &e), ERR_INVALID_ARGUMENT, &e);
    refused(&m, ipc_msg_set_environment(&m, "a=b", "v", &e), ERR_INVALID_ARGUMENT, &e);

    for (uint32_t type = 0; type < 6; type++) {
        b = head(0x0405);
        put(&b, type, 4);
        int rc = ipc_msg_enable_perf_map(&m, type, &e);
        if (type >= 1 && type <= 3)
            expect(&m, rc, b);
        else
            refused(&m, rc, ERR_INVALID_ARGUMENT, &e);
    }
    b = head(0x0407);
    put_ascii(&b, "/h.dll");
    expect(&m, ipc_msg_startup_hook(&m, "/h.dll", &e), b);
    refused(&m, ipc_msg_startup_hook(&m, NULL, &e), ERR_INVALID_ARGUMENT, &e);
    ipc_msg_fini(&m);
}

/* ---- CollectTracing ---------------------------------------------------------------------------------------------- */
static const uint32_t ids[] = {1, 4};
static const ipc_filter filter = {.enable = true, .ids = ids, .n = 2};

static bytes expect_collect(int v, const char *name, const char *args, bool filtered)
{
    bytes b = head(0x0201 + (unsigned)v);
    if (v >= 5) put(&b, 0, 4);
    put(&b, 64, 4);
    put(&b, 1, 4);
    if (v == 2 || v == 3) put(&b, 0, 1);
    if (v >= 4) put(&b, 0, 8);
    if (v >= 3) put(&b, 0, 1);
    put(&b, 1, 4);
    put(&b, 0x8000000000000001u, 8);
    put(&b, 4, 4);
    put_ascii(&b, name);
    if (args)
        put_ascii(&b, args);
    else
        put(&b, 0, 4);
    if (v >= 5) {
        put(&b, filtered, 1);
        put(&b, filtered ? 2 : 0, 4);
        if (filtered) {
            put(&b, 1, 4);
            put(&b, 4, 4);
        }
    }
    if (v == 6) put(&b, 0, 4);
    return b;
}

static void collect_requests_are_exact_in_all_six_forms(void **state)
{
    (void)state;
    ipc_msg m;
    ipc_msg_init(&m);
    err e = {0};
    ipc_provider p = {
        .name = "System.Runtime", .args = "EventCounterIntervalSec=1", .keywords = 0x8000000000000001u, .level = 4};
    ipc_collect_cfg cfg = {.providers = &p, .n_providers = 1, .buffer_mb = 64, .format = 1};
    for (int v = 1; v <= 6; v++)
        expect(&m, ipc_msg_collect(&m, v, &cfg, &e), expect_collect(v, p.name, p.args, false));
    p.args = NULL;
    for (int v = 1; v <= 6; v++)
        expect(&m, ipc_msg_collect(&m, v, &cfg, &e), expect_collect(v, p.name, NULL, false));
    p.filter = &filter;
    for (int v = 1; v <= 6; v++) {
        int rc = ipc_msg_collect(&m, v, &cfg, &e);
        if (v >= 5)
            expect(&m, rc, expect_collect(v, p.name, NULL, true));
        else
            refused(&m, rc, ERR_NOT_SUPPORTED, &e);
    }
    ipc_msg_fini(&m);
}

static void collect_example_of_the_protocol_is_reproduced(void **state)
{
    (void)state;
    ipc_msg m;
    ipc_msg_init(&m);
    ipc_provider p = {.name = "System.Runtime", .args = "EventCounterIntervalSec=1", .level = 4};
    ipc_collect_cfg cfg = {.providers = &p, .n_providers = 1, .buffer_mb = 64, .format = 1};
    assert_int_equal(ipc_msg_collect(&m, 2, &cfg, NULL), 0);
    assert_int_equal(m.b.n, 135);
    assert_memory_equal(m.b.p + 14, "\x87\x00\x02\x03\x00\x00\x40\x00\x00\x00\x01\x00\x00\x00\x00\x01\x00\x00\x00", 19);
    ipc_msg_fini(&m);
}

static void rundown_and_stacks_are_said_as_nearly_as_each_form_can(void **state)
{
    (void)state;
    ipc_msg m;
    ipc_msg_init(&m);
    ipc_provider p = {.name = "P", .level = 0};
    ipc_collect_cfg cfg = {
        .providers = &p, .n_providers = 1, .buffer_mb = 1, .format = 1, .rundown_keywords = 0x138, .stacks = true};
    for (int v = 1; v <= 6; v++) {
        assert_int_equal(ipc_msg_collect(&m, v, &cfg, NULL), 0);
        ipc_request r;
        assert_int_equal(ipc_request_parse(buf_view(&m.b), &r, NULL), 0);
        assert_int_equal(r.rundown_keywords, v >= 4 ? 0x138 : IPC_RUNDOWN_DEFAULT);
        assert_true(r.stacks);
        assert_int_equal(r.buffer_mb, 1);
    }
    ipc_msg_fini(&m);
}

static void every_limit_of_collect_is_refused_in_every_form(void **state)
{
    (void)state;
    ipc_msg m;
    ipc_msg_init(&m);
    err e = {0};
    static ipc_provider many[IPC_PROVIDERS_MAX + 1];
    for (int i = 0; i <= IPC_PROVIDERS_MAX; i++)
        many[i] = (ipc_provider){.name = "P", .level = 5};
    for (int v = 1; v <= 6; v++) {
        ipc_provider p = {.name = "P", .level = 5};
        const ipc_collect_cfg good = {.providers = &p, .n_providers = 1, .buffer_mb = 1, .format = 1};
        ipc_collect_cfg c = good;
        c.buffer_mb = 0;
        refused(&m, ipc_msg_collect(&m, v, &c, &e), ERR_INVALID_ARGUMENT, &e);
        c.buffer_mb = IPC_BUFFER_MB_MAX + 1;
        refused(&m, ipc_msg_collect(&m, v, &c, &e), ERR_INVALID_ARGUMENT, &e);
        c = good;
        c.format = 2;
        refused(&m, ipc_msg_collect(&m, v, &c, &e), ERR_INVALID_ARGUMENT, &e);
        c = good;
        c.n_providers = 0;
        refused(&m, ipc_msg_collect(&m, v, &c, &e), ERR_INVALID_ARGUMENT, &e);
        c.providers = NULL;
        c.n_providers = 1;
        refused(&m, ipc_msg_collect(&m, v, &c, &e), ERR_INVALID_ARGUMENT, &e);
        c.providers = many;
        c.n_providers = IPC_PROVIDERS_MAX;
        assert_int_equal(ipc_msg_collect(&m, v, &c, &e), 0);
        c.n_providers = IPC_PROVIDERS_MAX + 1;
        refused(&m, ipc_msg_collect(&m, v, &c, &e), ERR_LIMIT, &e);
        p.level = 6;
        refused(&m, ipc_msg_collect(&m, v, &good, &e), ERR_INVALID_ARGUMENT, &e);
        p = (ipc_provider){.name = ""};
        refused(&m, ipc_msg_collect(&m, v, &good, &e), ERR_INVALID_ARGUMENT, &e);
        p.name = NULL;
        refused(&m, ipc_msg_collect(&m, v, &good, &e), ERR_INVALID_ARGUMENT, &e);
        p.name = "\xC0\x80";
        refused(&m, ipc_msg_collect(&m, v, &good, &e), ERR_INVALID_ARGUMENT, &e);
        p = (ipc_provider){.name = "P", .args = "\xFF"};
        refused(&m, ipc_msg_collect(&m, v, &good, &e), ERR_INVALID_ARGUMENT, &e);
        c = good;
        p = (ipc_provider){.name = "P"};
        c.block_writers = true;
        if (v == 6)
            assert_int_equal(ipc_msg_collect(&m, v, &c, &e), 0);
        else
            refused(&m, ipc_msg_collect(&m, v, &c, &e), ERR_NOT_SUPPORTED, &e);
    }
    ipc_collect_cfg none = {0};
    refused(&m, ipc_msg_collect(&m, 0, &none, &e), ERR_INVALID_ARGUMENT, &e);
    refused(&m, ipc_msg_collect(&m, 7, &none, &e), ERR_INVALID_ARGUMENT, &e);
    ipc_msg_fini(&m);
}

static void the_sixteen_bit_size_is_a_hard_limit(void **state)
{
    (void)state;
    ipc_msg m;
    ipc_msg_init(&m);
    err e = {0};
    const size_t overhead = IPC_HEADER_SIZE + 4 + 2; /* header, count, NUL of a start-up hook */
    size_t fits = (IPC_MESSAGE_MAX - overhead) / 2;
    char *path = malloc(IPC_MESSAGE_MAX + 2);
    memset(path, 'a', IPC_MESSAGE_MAX + 1);
    path[0] = '/';
    path[IPC_MESSAGE_MAX + 1] = 0;
    refused(&m, ipc_msg_startup_hook(&m, path, &e), ERR_LIMIT, &e);
    path[fits + 1] = 0;
    refused(&m, ipc_msg_startup_hook(&m, path, &e), ERR_LIMIT, &e);
    path[fits] = 0;
    assert_int_equal(ipc_msg_startup_hook(&m, path, &e), 0);
    assert_in_range(m.b.n, IPC_MESSAGE_MAX - 1, IPC_MESSAGE_MAX);

    ipc_provider p[3] = {{.name = "P", .args = path}, {.name = "P", .args = path}, {.name = "P"}};
    ipc_collect_cfg cfg = {.providers = p, .n_providers = 3, .buffer_mb = 1, .format = 1};
    refused(&m, ipc_msg_collect(&m, 5, &cfg, &e), ERR_LIMIT, &e);
    uint32_t *lots = calloc(IPC_MESSAGE_MAX, sizeof *lots);
    ipc_filter big = {.ids = lots, .n = IPC_MESSAGE_MAX / 4};
    ipc_provider q = {.name = "P", .filter = &big};
    cfg = (ipc_collect_cfg){.providers = &q, .n_providers = 1, .buffer_mb = 1, .format = 1};
    refused(&m, ipc_msg_collect(&m, 5, &cfg, &e), ERR_LIMIT, &e);
    big.n = UINT32_MAX;
    refused(&m, ipc_msg_collect(&m, 5, &cfg, &e), ERR_LIMIT, &e);
    big = (ipc_filter){.ids = NULL, .n = 1};
    refused(&m, ipc_msg_collect(&m, 5, &cfg, &e), ERR_INVALID_ARGUMENT, &e);
    free(lots);
    free(path);
    ipc_msg_fini(&m);
}

/* ---- the last gate, and the front door of a replay --------------------------------------------------------------- */
static void a_request_cut_anywhere_is_refused(void **state)
{
    (void)state;
    ipc_msg m;
    ipc_msg_init(&m);
    ipc_provider p = {.name = "P", .args = "a=b", .filter = &filter};
    ipc_collect_cfg cfg = {.providers = &p, .n_providers = 1, .buffer_mb = 1, .format = 1};
    for (int v = 2; v <= 6; v++) {
        p.filter = v >= 5 ? &filter : NULL;
        assert_int_equal(ipc_msg_collect(&m, v, &cfg, NULL), 0);
        for (size_t n = 0; n < m.b.n; n++) {
            uint8_t *cut = malloc(n + 1); /* exact, so that a sanitizer sees a read beyond */
            memcpy(cut, m.b.p, n);
            if (n >= 16) {
                cut[14] = (uint8_t)n;
                cut[15] = (uint8_t)(n >> 8);
            }
            ipc_request r;
            int rc = ipc_request_parse(slice_of(cut, n), &r, NULL);
            assert_int_equal(rc, n < IPC_HEADER_SIZE ? -ERR_PROTOCOL : -ERR_MALFORMED);
            free(cut);
        }
    }
    ipc_msg_fini(&m);
}

static void allocation_failures_leave_no_message(void **state)
{
    (void)state;
    ipc_provider p = {.name = "Provider", .args = "a=b"};
    ipc_collect_cfg cfg = {.providers = &p, .n_providers = 1, .buffer_mb = 1, .format = 1};
    bool fired = true;
    for (long n = 0; fired; n++) {
        ipc_msg m;
        ipc_msg_init(&m);
        err e = {0};
        mem_fail_at(n);
        int rc = ipc_msg_collect(&m, 5, &cfg, &e);
        fired = mem_failed();
        mem_fail_at(-1);
        if (fired)
            refused(&m, rc, ERR_NO_MEMORY, &e);
        else
            assert_int_equal(rc, 0);
        ipc_msg_fini(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commands_without_payload_are_twenty_bytes),
        cmocka_unit_test(commands_with_payload_cannot_be_sent_without),
        cmocka_unit_test(dump_requests_are_exact_and_bounded),
        cmocka_unit_test(stop_carries_an_id_that_is_not_zero),
        cmocka_unit_test(profiler_environment_and_other_requests_are_exact),
        cmocka_unit_test(collect_requests_are_exact_in_all_six_forms),
        cmocka_unit_test(collect_example_of_the_protocol_is_reproduced),
        cmocka_unit_test(rundown_and_stacks_are_said_as_nearly_as_each_form_can),
        cmocka_unit_test(every_limit_of_collect_is_refused_in_every_form),
        cmocka_unit_test(the_sixteen_bit_size_is_a_hard_limit),
        cmocka_unit_test(a_request_cut_anywhere_is_refused),
        cmocka_unit_test(allocation_failures_leave_no_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
