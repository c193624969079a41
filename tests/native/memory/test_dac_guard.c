/* SPDX-License-Identifier: MIT */
/* Calls of the runtime's library that fault or do not return end as calls that failed (dac_guard.c). */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "memory/dac_internal.h"

static pid_t child;
static mem_target *target;

static int begin(void **state)
{
    err e = {0};
    (void)state;
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
        assert_false(dac_said(&d, DAC_GUARDED(&d, faults(i == 1 ? SIGBUS : SIGSEGV))));
        assert_int_equal(dac_hresult(&d), (uint32_t)DAC_E_FELL);
    }
    assert_int_equal(dac_falls(&d), 3);
    assert_true(dac_said(&d, DAC_GUARDED(&d, answers(DAC_S_OK))));
    assert_false(dac_said(&d, DAC_GUARDED(&d, answers(DAC_E_FAIL))));
    assert_int_equal(dac_falls(&d), 3);
}

static void a_call_that_does_not_return_has_failed(void **state)
{
    (void)state;
    dac d = {.t = target};
    dac__guard(&d);
    assert_false(dac_said(&d, DAC_GUARDED(&d, never_returns())));
    assert_int_equal(dac_falls(&d), 1);
    assert_true(dac_said(&d, DAC_GUARDED(&d, answers(DAC_S_OK))));
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
        cmocka_unit_test_setup_teardown(a_fault_outside_of_calls_is_the_end, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
