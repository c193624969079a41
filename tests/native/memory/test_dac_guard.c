/* SPDX-License-Identifier: MIT */
/* Calls of the runtime's library that fault or do not return end as calls that failed (dac_guard.c). */
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "core_kit.h"
#include "memory/dac_internal.h"

static pid_t child;
static mem_target *target;
static uint8_t bytes[5 * 4096]; /* the child has a copy */

static int begin(void **state)
{
    err e = {0};
    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i / 7);
    child = fork();
    if (child == 0)
        for (;;)
            pause();
    return child < 0 || mem_open_live(child, 0, &target, &e) < 0;
}

static int end(void **state)
{
    (void)state;
    mem_close(target);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return 0;
}

/* A fault, without what a sanitizer would say of it. */
static int32_t faults(int sig)
{
    raise(sig);
    return DAC_S_OK;
}

static volatile bool for_ever = true;
static int32_t never_returns(void)
{
    while (for_ever)
        ;
    return DAC_S_OK;
}

static int32_t answers(int32_t hr) { return hr; }

static void a_call_that_faults_has_failed(void **state)
{
    (void)state;
    dac d = {.t = target};
    dac__guard(&d);
    for (int i = 0; i < 3; i++) {
        assert_false(dac__said(&d, DAC_GUARDED(&d, faults(i == 1 ? SIGBUS : SIGSEGV))));
        assert_int_equal(dac_hresult(&d), (uint32_t)DAC_E_FELL);
    }
    assert_int_equal(dac_falls(&d), 3);
    assert_true(dac__said(&d, DAC_GUARDED(&d, answers(DAC_S_OK))));
    assert_false(dac__said(&d, DAC_GUARDED(&d, answers(DAC_E_FAIL))));
    assert_int_equal(dac_falls(&d), 3);
}

static void a_call_that_does_not_return_has_failed(void **state)
{
    (void)state;
    dac d = {.t = target};
    dac__guard(&d);
    assert_false(dac__said(&d, DAC_GUARDED(&d, never_returns())));
    assert_int_equal(dac_falls(&d), 1);
    assert_true(dac__said(&d, DAC_GUARDED(&d, answers(DAC_S_OK))));
}

/* A damaged dump leads the library in circles. */
static void a_call_on_a_dump_that_does_not_return_has_failed(void **state)
{
    (void)state;
    static const core_piece pieces[] = {{.start = 0x1000, .memory = 4096, .held = 4096, .flags = PF_R}};
    static const int tids[] = {7};
    buf core = {0};
    err e = {0};
    mem_target *dump = NULL;
    core_make(&(core_plan){.pieces = pieces, .n_pieces = 1, .tids = tids, .n_tids = 1, .group = 7}, &core);
    int fd = memfd_create("core", MFD_CLOEXEC);
    assert_true(fd >= 0 && write(fd, core.p, core.n) == (ssize_t)core.n);
    assert_int_equal(mem_open_core_fd(fd, "core", NULL, &dump, &e), 0);
    dac d = {.t = dump};
    dac__guard(&d);
    assert_false(dac__said(&d, DAC_GUARDED(&d, never_returns())));
    assert_int_equal(dac_falls(&d), 1);
    mem_close(dump);
    buf_fini(&core);
}

/* A callback of ours asks on while the library is in a call. */
static int32_t calls_back(dac *d, int sig_inside, int sig_after)
{
    int32_t hr = DAC_GUARDED(d, faults(sig_inside));
    assert_int_equal(hr, DAC_E_FELL);
    return faults(sig_after);
}

static void a_call_in_a_callback_of_another_falls_alone(void **state)
{
    (void)state;
    dac d = {.t = target};
    dac__guard(&d);
    for (unsigned i = 1; i <= 3; i++) { /* the inner one, then the outer one, which is guarded still */
        assert_int_equal(DAC_GUARDED(&d, calls_back(&d, SIGSEGV, SIGBUS)), DAC_E_FELL);
        assert_int_equal(dac_falls(&d), 2 * i);
    }
    assert_true(dac__said(&d, DAC_GUARDED(&d, answers(DAC_S_OK))));
}

/* An object of the library that is none: its table of methods leads nowhere. */
static void an_object_that_is_none_has_failed_to_answer(void **state)
{
    (void)state;
    dac d = {.t = target};
    void *nowhere[1] = {(void *)(uintptr_t)0x10};
    dac__guard(&d);
#ifndef __SANITIZE_ADDRESS__ /* which would tell of it */
    dac__release(&d, nowhere);
    assert_int_equal(dac_falls(&d), 1);
    uint32_t il = 7;
    d.process = nowhere;
    assert_false(dac_il_offset(&d, 0x1000, &il));
    assert_int_equal(il, 7);
    buf name;
    buf_init(&name, 0);
    d.sos[1] = nowhere;
    assert_false(dac_register_name(&d, 0, &name));
    assert_false(dac_type_name_in_metadata(&d, 0x1000, 0x02000002, &name));
    dac_flush(&d);
    assert_in_range(dac_falls(&d), 5, 10);
    assert_int_equal(name.n, 0);
    buf_fini(&name);
#else
    (void)nowhere;
#endif
}

static void pages_fetched_beforehand_are_the_targets(void **state)
{
    (void)state;
    dac d = {.t = target};
    uint64_t base = (uint64_t)(uintptr_t)bytes;
    uint8_t got[sizeof bytes];
    const dac_addr v[] = {base, base + 4096, base + 2 * 4096, 0x1000, base + 2 * 4096, base + 8192 * 4096};
    dac_prefetch(&d, v,
                 sizeof v / sizeof *v); /* one has no page, one comes twice, one shares its place with the first */
    memset(bytes, 0xee, sizeof bytes);  /* ours; the child has the old ones */
    assert_true(dac_read(&d, base, got, sizeof got));
    for (size_t i = 0; i < sizeof got; i++)
        assert_int_equal(got[i], (uint8_t)(i / 7));
    assert_false(dac_read(&d, 0x1000, got, 1));
    dac_prefetch(&d, v, 3); /* there already */
    assert_true(dac_read(&d, base + 4096, got, 4096));
    assert_int_equal(got[0], (uint8_t)(4096 / 7));
    free(d.cache);
    free(d.cache_bytes);
}

static void a_fault_outside_of_calls_is_the_end(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        dac d = {.t = target};
        dac__guard(&d);
        (void)DAC_GUARDED(&d, answers(DAC_S_OK));
        raise(SIGSEGV);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGSEGV);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_call_that_faults_has_failed, begin, end),
        cmocka_unit_test_setup_teardown(a_call_that_does_not_return_has_failed, begin, end),
        cmocka_unit_test(a_call_on_a_dump_that_does_not_return_has_failed),
        cmocka_unit_test_setup_teardown(a_call_in_a_callback_of_another_falls_alone, begin, end),
        cmocka_unit_test_setup_teardown(an_object_that_is_none_has_failed_to_answer, begin, end),
        cmocka_unit_test_setup_teardown(pages_fetched_beforehand_are_the_targets, begin, end),
        cmocka_unit_test_setup_teardown(a_fault_outside_of_calls_is_the_end, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
