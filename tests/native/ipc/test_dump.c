/* SPDX-License-Identifier: MIT */
/* test_dump.c: GenerateCoreDump against runtimes of each age, and what their refusals become. */
#include <stdio.h>
#include <stdlib.h>

#include "ipc/fake.h"

typedef struct runtime {
    int newest;       /* form of the command that it knows */
    uint32_t hresult; /* 0: it does it */
    const char *said; /* createdump's words; NULL: none; Dump3 only */
    uint32_t ok_code; /* of an OK */
    unsigned seen;    /* requests */
    char path[128];   /* of the last one, and its numbers */
    uint32_t type, flags;
} runtime;

static size_t put_text(uint8_t *p, const char *s)
{
    uint32_t units = s ? (uint32_t)strlen(s) + 1 : 0;
    memcpy(p, &units, 4);
    for (uint32_t i = 0; i < units; i++) {
        p[4 + 2 * i] = (uint8_t)s[i];
        p[5 + 2 * i] = 0;
    }
    return 4 + 2 * (size_t)units;
}

static void read_request(runtime *rt, slice raw)
{
    uint32_t units;
    memcpy(&units, raw.p + IPC_HEADER_SIZE, 4);
    for (uint32_t i = 0; i < units && i < sizeof rt->path; i++)
        rt->path[i] = (char)raw.p[IPC_HEADER_SIZE + 4 + 2 * i];
    memcpy(&rt->type, raw.p + IPC_HEADER_SIZE + 4 + 2 * (size_t)units, 4);
    memcpy(&rt->flags, raw.p + IPC_HEADER_SIZE + 8 + 2 * (size_t)units, 4);
}

static void serve(fake *f, int fd, const ipc_request *r, slice raw)
{
    runtime *rt = f->arg;
    int form = r->command == IPC_DUMP3 ? 3 : r->command == IPC_DUMP2 ? 2 : 1;
    uint8_t p[1024], m[1100];
    rt->seen++;
    if (form > rt->newest) {
        fake_error(fd, IPC_E_UNKNOWN_COMMAND);
        return;
    }
    read_request(rt, raw);
    if (rt->hresult == 0) {
        fake_ok(fd, &rt->ok_code, 4);
        return;
    }
    memcpy(p, &rt->hresult, 4);
    size_t n = 4 + (form == 3 ? put_text(p + 4, rt->said) : 0);
    fake_write(fd, m, fake_answer(m, false, p, n));
}

static int ask(runtime *rt, bool crash_report, int *version, err *e)
{
    fake f = {0};
    fake_start(&f, serve, rt, 0);
    ipc_endpoint ep = fake_endpoint(&f);
    const ipc_dump_cfg cfg = {.path = "/tmp/a b.dmp", .type = 2, .crash_report = crash_report};
    int rc = ipc_dump(&ep, &cfg, deadline_in_ms(10000), NULL, version, e);
    ipc_endpoint_fini(&ep);
    fake_stop(&f);
    return rc;
}

static void the_newest_form_that_is_known_is_used(void **state)
{
    (void)state;
    for (int newest = 1; newest <= 3; newest++) {
        runtime rt = {.newest = newest};
        err e = {0};
        int version = 0;
        assert_int_equal(ask(&rt, true, &version, &e), 0);
        assert_int_equal(version, newest);
        assert_int_equal(rt.seen, 4 - newest);
        assert_string_equal(rt.path, "/tmp/a b.dmp");
        assert_int_equal(rt.type, 2);
        assert_int_equal(rt.flags, newest > 1 ? 4 : 0); /* the oldest knows no crash report */
    }
}

static void a_refusal_says_what_createdump_said(void **state)
{
    (void)state;
    static const struct {
        int newest;
        uint32_t hresult;
        const char *said, *told, *hint;
        err_kind kind;
    } cases[] = {
        {3, IPC_E_FAIL, "Only full dumps are supported by single file apps.\nChange the type\n",
         "single file apps. Change the type", "Full", ERR_NOT_SUPPORTED},
        {3, IPC_E_FAIL, "execve() FAILED Permission denied (13)\n", "Permission denied (13)", "standard error", ERR_IO},
        {3, IPC_E_FAIL, NULL, "did not tell why", "standard error", ERR_IO},
        {3, IPC_E_FAIL, "", "did not tell why", "standard error", ERR_IO},
        {2, IPC_E_FAIL, NULL, "did not tell why", "standard error", ERR_IO},
        {3, IPC_E_NOT_SUPPORTED, NULL, "no createdump", "", ERR_NOT_SUPPORTED},
        {0, 0, NULL, "does not know this command", "newer runtime", ERR_UNSUPPORTED_RUNTIME},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        runtime rt = {.newest = cases[i].newest, .hresult = cases[i].hresult, .said = cases[i].said};
        err e = {0};
        int version;
        assert_int_equal(ask(&rt, false, &version, &e), -(int)cases[i].kind);
        if (!strstr(e.message, cases[i].told) || !strstr(e.hint, cases[i].hint))
            print_error("case %zu: %s (%s)\n", i, e.message, e.hint);
        assert_non_null(strstr(e.message, cases[i].told));
        assert_non_null(strstr(e.hint, cases[i].hint));
        assert_null(strchr(e.message, '\n'));
    }
}

static void an_ok_with_a_code_is_none(void **state)
{
    (void)state;
    runtime rt = {.newest = 3, .ok_code = IPC_E_FAIL};
    err e = {0};
    int version;
    assert_true(ask(&rt, false, &version, &e) < 0);
    assert_int_equal(e.hresult, IPC_E_FAIL);
}

static void bad_arguments_are_never_sent(void **state)
{
    (void)state;
    runtime rt = {.newest = 3};
    fake f = {0};
    err e = {0};
    int version;
    fake_start(&f, serve, &rt, 0);
    ipc_endpoint ep = fake_endpoint(&f);
    static const ipc_dump_cfg bad[] = {{"relative", 1, false}, {"", 1, false}, {"/a", 0, false}, {"/a", 5, false}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        err_clear(&e);
        assert_int_equal(ipc_dump(&ep, &bad[i], deadline_in_ms(1000), NULL, &version, &e), -ERR_INVALID_ARGUMENT);
    }
    ipc_endpoint_fini(&ep);
    fake_stop(&f);
    assert_int_equal(rt.seen, 0);
}

int main(void)
{
    fake_warm_up();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_form_that_is_known_is_used),
        cmocka_unit_test(a_refusal_says_what_createdump_said),
        cmocka_unit_test(an_ok_with_a_code_is_none),
        cmocka_unit_test(bad_arguments_are_never_sent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
