/* SPDX-License-Identifier: MIT */
/* test_answer.c: what runtimes answer, whole, cut and hostile. */
#include <stdlib.h>
#include <unistd.h>

#include "base/guid.h"
#include "ipc/fake.h"

static void set_answer(ipc_answer *a, bool ok, const void *payload, size_t n)
{
    uint8_t m[4096];
    size_t size = fake_answer(m, ok, payload, n);
    buf_reset(&a->b);
    buf_put(&a->b, m, size);
}

static void an_ok_answer_gives_its_payload(void **state)
{
    (void)state;
    ipc_answer a = {0};
    set_answer(&a, true, "abcd", 4);
    assert_int_equal(ipc_answer_parse(&a, NULL), 0);
    assert_true(a.ok);
    assert_true(slice_eq_str(a.payload, "abcd"));
    ipc_answer_fini(&a);
}

static void an_error_answer_of_24_or_28_bytes_gives_its_code(void **state)
{
    (void)state;
    ipc_answer a = {0};
    uint8_t payload[8] = {0x85, 0x13, 0x13, 0x80, 9, 9, 9, 9};
    for (size_t n = 4; n <= 8; n += 4) {
        set_answer(&a, false, payload, n);
        assert_int_equal(ipc_answer_parse(&a, NULL), 0);
        assert_false(a.ok);
        assert_int_equal(a.hresult, IPC_E_UNKNOWN_COMMAND);
    }
    err e = {0};
    set_answer(&a, false, payload, 3);
    assert_int_equal(ipc_answer_parse(&a, &e), -ERR_PROTOCOL);
    ipc_answer_fini(&a);
}

static void what_is_no_answer_is_refused(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        uint8_t value;
    } damage[] = {{0, 'd'}, {13, 1}, {14, 19}, {14, 200}, {15, 1}, {16, 0x04}, {17, 0x01}};
    for (size_t i = 0; i < sizeof damage / sizeof *damage; i++) {
        ipc_answer a = {0};
        err e = {0};
        set_answer(&a, true, "abcd", 4);
        a.b.p[damage[i].at] = damage[i].value;
        assert_int_equal(ipc_answer_parse(&a, &e), -ERR_PROTOCOL);
        assert_true(e.message[0] != 0);
        ipc_answer_fini(&a);
    }
}

static void every_hresult_has_a_kind_a_name_and_advice(void **state)
{
    (void)state;
    static const struct {
        uint32_t code;
        err_kind kind;
        const char *name;
    } table[] = {
        {0x80131384, ERR_PROTOCOL, "CORDIAGIPC_E_BAD_ENCODING"},
        {0x80131385, ERR_UNSUPPORTED_RUNTIME, "CORDIAGIPC_E_UNKNOWN_COMMAND"},
        {0x80131386, ERR_PROTOCOL, "CORDIAGIPC_E_UNKNOWN_MAGIC"},
        {0x80131387, ERR_PROTOCOL, "CORDIAGIPC_E_UNKNOWN_ERROR"},
        {0x80131515, ERR_NOT_SUPPORTED, "COR_E_NOTSUPPORTED"},
        {0x80004005, ERR_BUSY, "E_FAIL"},
        {0x8013135B, ERR_BUSY, "CORPROF_E_NOT_YET_AVAILABLE"},
        {0x80131371, ERR_BUSY, "CORPROF_E_RUNTIME_UNINITIALIZED"},
        {0x8013136A, ERR_CONFLICT, "CORPROF_E_PROFILER_ALREADY_ACTIVE"},
        {0x80070057, ERR_INVALID_ARGUMENT, "E_INVALIDARG"},
        {0x8007007A, ERR_LIMIT, "ERROR_INSUFFICIENT_BUFFER"},
        {0x800700CB, ERR_NOT_FOUND, "ERROR_ENVVAR_NOT_FOUND"},
        {0x8007007E, ERR_NOT_FOUND, "ERROR_MOD_NOT_FOUND"},
        {0x80070005, ERR_PROTOCOL, NULL},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        err e = {0};
        assert_int_equal(ipc_hresult_err(&e, IPC_COLLECT5, table[i].code), -(int)table[i].kind);
        assert_int_equal(e.kind, table[i].kind);
        assert_int_equal(e.hresult, table[i].code);
        assert_non_null(strstr(e.message, "CollectTracing5"));
        assert_true(e.hint[0] != 0);
        const char *name = ipc_hresult_name(table[i].code);
        if (table[i].name) {
            assert_string_equal(name, table[i].name);
            assert_non_null(strstr(e.message, name));
        } else {
            assert_null(name);
            assert_non_null(strstr(e.message, "0x80070005"));
        }
    }
}

static void process_info_reads_its_three_layouts(void **state)
{
    (void)state;
    uint8_t p[1024];
    for (int form = 1; form <= 3; form++) {
        size_t n = fake_info(p, form);
        ipc_info i;
        assert_int_equal(ipc_info_parse(slice_of(p, n), form, &i, NULL), 0);
        assert_int_equal(i.command_version, form);
        assert_int_equal(i.process_id, getpid());
        assert_string_equal(i.command_line, "/app/target --x");
        assert_string_equal(i.os, "Linux");
        assert_string_equal(i.arch, "x64");
        char guid[37];
        guid_text(i.cookie, guid);
        assert_string_equal(guid, "04030201-0605-0807-090a-0b0c0d0e0f10");
        if (form == 1)
            assert_null(i.entrypoint);
        else
            assert_string_equal(i.entrypoint, "target");
        if (form == 1)
            assert_null(i.runtime_version);
        else
            assert_string_equal(i.runtime_version, "10.0.9");
        if (form == 3)
            assert_string_equal(i.rid, "linux-x64");
        else
            assert_null(i.rid);
        assert_int_equal(i.version, form == 3);
        ipc_info_fini(&i);
    }
}

static void process_info_cut_anywhere_is_an_error(void **state)
{
    (void)state;
    uint8_t p[1024];
    for (int form = 1; form <= 3; form++) {
        size_t n = fake_info(p, form);
        for (size_t cut = 0; cut < n; cut++) {
            uint8_t *exact = malloc(cut + 1);
            memcpy(exact, p, cut);
            ipc_info i;
            err e = {0};
            assert_int_equal(ipc_info_parse(slice_of(exact, cut), form, &i, &e), -ERR_PROTOCOL);
            assert_true(e.has_offset);
            free(exact);
        }
    }
}

static void text_of_a_target_leaves_as_valid_utf8(void **state)
{
    (void)state;
    buf b;
    buf_init(&b, 0);
    buf_u64(&b, 7);
    for (int i = 0; i < 16; i++)
        buf_u8(&b, 0);
    buf_u32(&b, 5); /* a lone surrogate, a letter, a NUL inside, rubbish behind it, no NUL at the end */
    buf_put(&b, "\x00\xD8\x61\x00\x00\x00\x62\x00\x63\x00", 10);
    buf_u32(&b, 0); /* absent */
    buf_u32(&b, 1); /* empty */
    buf_u16(&b, 0);
    ipc_info i;
    assert_int_equal(ipc_info_parse(buf_view(&b), 1, &i, NULL), 0);
    assert_string_equal(i.command_line, "\xEF\xBF\xBD"
                                        "a");
    assert_null(i.os);
    assert_null(i.arch);
    ipc_info_fini(&i);
    buf_fini(&b);
}

static size_t environment(uint8_t *p, uint32_t count)
{
    memcpy(p, &count, 4);
    memcpy(p + 4,
           "\x04\x00\x00\x00"
           "A\0=\0b\0\0\0"
           "\x03\x00\x00\x00"
           "C\0=\0\0\0",
           22);
    return 26;
}

static void an_environment_is_a_list_of_texts(void **state)
{
    (void)state;
    uint8_t p[64];
    buf out;
    buf_init(&out, 1024);
    assert_int_equal(ipc_environment_parse(slice_of(p, environment(p, 2)), &out, NULL), 2);
    assert_int_equal(out.n, 7);
    assert_memory_equal(out.p, "A=b\0C=", 7);
    buf_reset(&out);
    uint8_t none[4] = {0};
    assert_int_equal(ipc_environment_parse(slice_of(none, 4), &out, NULL), 0);
    buf_fini(&out);
}

static void an_environment_that_lies_is_an_error(void **state)
{
    (void)state;
    uint8_t p[64];
    buf out;
    buf_init(&out, 1024);
    size_t n = environment(p, 3);
    assert_int_equal(ipc_environment_parse(slice_of(p, n), &out, NULL), -ERR_PROTOCOL);
    (void)environment(p, UINT32_MAX);
    assert_int_equal(ipc_environment_parse(slice_of(p, n), &out, NULL), -ERR_PROTOCOL);
    (void)environment(p, 2);
    for (size_t cut = 0; cut < n; cut++)
        assert_int_equal(ipc_environment_parse(slice_of(p, cut), &out, NULL), -ERR_PROTOCOL);
    buf_fini(&out);
    buf_init(&out, 3);
    assert_int_equal(ipc_environment_parse(slice_of(p, n), &out, NULL), -ERR_LIMIT);
    buf_fini(&out);
}

static void socket_names_are_read_strictly(void **state)
{
    (void)state;
    pid_t pid;
    uint64_t key;
    bool router;
    assert_true(ipc__socket_name("dotnet-diagnostic-12-34567-socket", &pid, &key, &router));
    assert_int_equal(pid, 12);
    assert_int_equal(key, 34567);
    assert_false(router);
    assert_true(ipc__socket_name("dotnet-diagnostic-dsrouter-7-18446744073709551615-socket", &pid, &key, &router));
    assert_true(router);
    assert_true(key == UINT64_MAX);
    static const char *const bad[] = {"dotnet-diagnostic-12-34567-socket2",
                                      "dotnet-diagnostic--34567-socket",
                                      "dotnet-diagnostic-12-socket",
                                      "dotnet-diagnostic-0-1-socket",
                                      "dotnet-diagnostic-4294967296-1-socket",
                                      "dotnet-diagnostic-1--1-socket",
                                      "dotnet-diagnostic-1-18446744073709551616-socket",
                                      "clr-debug-pipe-1-2-in",
                                      "",
                                      "dotnet-diagnostic- 1-1-socket"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(ipc__socket_name(bad[i], &pid, &key, &router));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_ok_answer_gives_its_payload),
        cmocka_unit_test(an_error_answer_of_24_or_28_bytes_gives_its_code),
        cmocka_unit_test(what_is_no_answer_is_refused),
        cmocka_unit_test(every_hresult_has_a_kind_a_name_and_advice),
        cmocka_unit_test(process_info_reads_its_three_layouts),
        cmocka_unit_test(process_info_cut_anywhere_is_an_error),
        cmocka_unit_test(text_of_a_target_leaves_as_valid_utf8),
        cmocka_unit_test(an_environment_is_a_list_of_texts),
        cmocka_unit_test(an_environment_that_lies_is_an_error),
        cmocka_unit_test(socket_names_are_read_strictly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
