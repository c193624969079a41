/* SPDX-License-Identifier: MIT */
/* test_uprobe.c: functions of a process's C library are found; probes that a dead process of ours left are known, and
 * no others; a child's calls are counted by each way that is open here. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "check.h"
#include "kernel/uprobe.h"

static bool only_42_lives(void *arg, const up_maker *m)
{
    (void)arg;
    return (m->pid == 42 && m->start == 7) || m->ns == 99;
}

static void a_probe_is_stale_when_its_process_is_gone(void **state)
{
    (void)state;
    static const struct {
        const char *line, *removal;
    } cases[] = {
        {"p:lunette_41_7/s0p1 /lib/libc.so.6:0x0000000000098930", "-:lunette_41_7/s0p1"},
        {"p:lunette_42_8/s3p0 /lib/libc.so.6:0x98930",
         "-:lunette_42_8/s3p0"}, /* the number is another process's by now */
        {"r:lunette_41_7/x /lib/libc.so.6:0x98930", "-:lunette_41_7/x"},
        {"p:lunette_42_7/s0p1 /lib/libc.so.6:0x98930", NULL},
        {"p:lunette_41_7_98/s0p1 /lib/libc.so.6:0x98930", "-:lunette_41_7_98/s0p1"},
        {"p:lunette_41_7_99/s0p1 /lib/libc.so.6:0x98930", NULL}, /* of a container */
        {"p:lunette_41_7_/s0p1 /lib/libc.so.6:0x98930", NULL},
        {"p:lunette_41_7_98_1/s0p1 /lib/libc.so.6:0x98930", NULL},
        {"p:probe_libc/malloc /lib/libc.so.6:0x98930", NULL},
        {"p:lunettes_41_7/a /lib/libc.so.6:0x98930", NULL},
        {"p:lunette_41/a /lib/libc.so.6:0x98930", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[128] = "";
        bool stale = up_is_stale(slice_str(cases[i].line), only_42_lives, NULL, text, sizeof text);
        assert_int_equal(stale, cases[i].removal != NULL);
        if (stale) assert_string_equal(text, cases[i].removal);
    }
}

static void functions_are_found_once_a_place(void **state)
{
    (void)state;
    static const char *const names[] = {"malloc", "no_such_function", "calloc", "malloc"};
    up_place places[4];
    uint32_t n = 0;
    err e = {0};
    int rc = up_find(getpid(), names, 4, places, &n, &e);
    if (rc < 0) skip(); /* a program that is linked statically */
    assert_int_equal(n, 2);
    assert_true(places[0].function == 0 && places[1].function == 2);
    assert_true(places[0].offset && places[0].address > places[0].offset);
    assert_int_equal(up_find(0x3fffffff, names, 1, places, &n, &e), -ERR_PROCESS_NOT_FOUND);
}

enum { CALLS = 200 };

/* A child that calls getppid of the C library when told, then waits. */
static pid_t start_child(int *to, int *from)
{
    int a[2], b[2];
    assert_int_equal(pipe(a), 0);
    assert_int_equal(pipe(b), 0);
    pid_t pid = fork();
    if (pid == 0) {
        char c;
        close(a[1]);
        close(b[0]);
        while (read(a[0], &c, 1) == 1) {
            for (int i = 0; i < CALLS; i++)
                if (getppid() < 0) _exit(1);
            if (write(b[1], "d", 1) != 1) _exit(1);
        }
        _exit(0);
    }
    close(a[0]);
    close(b[1]);
    *to = a[1];
    *from = b[0];
    return pid;
}

static void ignore(void *arg, const perf_record *r)
{
    uint64_t *n = arg;
    *n += r->kind == PERF_SAMPLE;
}

static void calls_of_a_child_are_counted_each_way(void **state)
{
    (void)state;
    static const char *const names[] = {"getppid"};
    up_place place;
    uint32_t n = 0;
    int to, from;
    pid_t pid = start_child(&to, &from);
    err e = {0};
    if (up_find(pid, names, 1, &place, &n, &e) < 0) skip();
    for (int w = UP_TRACEFS; w <= UP_BREAKPOINT; w++) {
        up_probes *p;
        perf_set *set;
        uint64_t count = 0, samples = 0;
        char c;
        err why = {0};
        if (up_open(pid, &place, 1, up_way_name((up_way)w), &p, &why) < 0) {
            print_message("%s: %s\n", up_way_name((up_way)w), why.message);
            assert_true(why.kind == ERR_PERMISSION_DENIED || why.kind == ERR_NOT_SUPPORTED);
            continue;
        }
        assert_int_equal(up_way_of(p), w);
        perf_spec s = up_spec(p, 0, 10);
        perf_cfg cfg = {.pid = pid, .specs = &s, .n_specs = 1};
        assert_int_equal(perf_open(&cfg, &set, &e), 0);
        assert_int_equal(write(to, "x", 1), 1);
        assert_int_equal(read(from, &c, 1), 1);
        assert_true(perf_count(set, 0, &count));
        assert_int_equal(count, CALLS);
        assert_int_equal(write(to, "x", 1), 1);
        assert_int_equal(perf_run(set, deadline_in_ms(50), ignore, &samples, &e), 0);
        assert_int_equal(read(from, &c, 1), 1);
        assert_in_range(samples, 0, 2 * CALLS / 10 + 1);
        perf_close(set);
        up_close(p);
    }
    close(to);
    close(from);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void uprobes_of_perf_are_bounded(void **state)
{
    (void)state;
    assert_false(up_too_many(5, 10, 2));
    assert_false(up_too_many(1, UP_PERF_EVENTS_MAX, 1));
    assert_true(up_too_many(1, UP_PERF_EVENTS_MAX, 2));
    assert_true(up_too_many(5, 308, 2)); /* 290 s to close */
    assert_true(up_too_many(UP_PLACES_MAX, UINT64_C(1) << 22, 4096));
    assert_false(up_too_many(1, 0, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uprobes_of_perf_are_bounded),
        cmocka_unit_test(a_probe_is_stale_when_its_process_is_gone),
        cmocka_unit_test(functions_are_found_once_a_place),
        cmocka_unit_test(calls_of_a_child_are_counted_each_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
