/* SPDX-License-Identifier: MIT */
/* test_core.c: cores as targets: threads, pieces, what is missing and what files stand in for, and cores cut anywhere.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "core_kit.h"
#include "memory/target.h"

static const int TIDS[] = {30, 10, 20, 10};
static const core_piece PIECES[] = {{0x10000, 0x3000, 0x3000, PF_R | PF_W},
                                    {0x13000, 0x2000, 0x1000, PF_R},
                                    {0x14000, 0x1000, 0x1000, PF_R},
                                    {0x20000, 0x1000, 0, PF_R}};

static int memfd_of(const buf *b, size_t n)
{
    int fd = memfd_create("core", 0);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, b->p, n), (ssize_t)n);
    return fd;
}

static mem_target *open_plan(const core_plan *plan)
{
    buf b;
    err e = {0};
    mem_target *t = NULL;
    buf_init(&b, 0);
    core_make(plan, &b);
    if (mem_open_core_fd(memfd_of(&b, b.n), "core", NULL, &t, &e) < 0) fail_msg("%s", e.message);
    buf_fini(&b);
    return t;
}

static void pieces_are_read_across_their_borders(void **state)
{
    (void)state;
    core_plan plan = {.pieces = PIECES, .n_pieces = 4, .tids = TIDS, .n_tids = 4, .group = 77};
    mem_target *t = open_plan(&plan);
    uint8_t got[0x6000];
    /* 0x13000 has one page of two; 0x14000, a piece of its own, is cut where the first one said that it lies. */
    assert_int_equal(mem_read(t, 0x10800, got, sizeof got), 0x14000 - 0x10800);
    assert_int_equal(got[0], 0x10);
    assert_int_equal(got[0x800], 0x11);
    assert_int_equal(got[0x13000 - 0x10800], 0x13);
    assert_int_equal(mem_read(t, 0x20000, got, 1), 0);
    const uint8_t *there = mem_at(t, 0x10800, 0x100);
    uint8_t fetched[0x200] = {0};
    assert_non_null(there);
    assert_int_equal(mem_fetch(t, 0x10800, fetched, 0x100), 0x100);
    assert_memory_equal(there, fetched, 0x100);
    assert_int_equal(mem_fetch(t, 0x20000, fetched, 1), 0);
    assert_int_equal(mem_fetch(t, 0xfff0, fetched, 1), 0);
    mem_let_go(t); /* and it is there again */
    assert_memory_equal(there, fetched, 0x100);
    assert_int_equal(mem_read(t, 0xfff0, got, 0x20), 0);
    const uint8_t *p = mem_at(t, 0x11ff0, 0x20);
    assert_true(p && p[0] == 0x11 && p[0x10] == 0x12);
    assert_null(mem_at(t, 0x12ff0, 0x20)); /* two pieces */
    assert_false(mem_is_live(t));
    assert_int_equal(mem_pid(t), 77); /* createdump's way */
    mem_close(t);
}

static void threads_come_by_number_with_their_registers(void **state)
{
    (void)state;
    err e = {0};
    core_plan plan = {.pieces = PIECES, .n_pieces = 4, .tids = TIDS, .n_tids = 4, .group = 1, .psinfo_pid = 99};
    mem_target *t = open_plan(&plan);
    size_t n;
    const mem_thread *th = mem_threads(t, &n);
    assert_int_equal(n, 3); /* one comes twice */
    assert_int_equal(th[0].tid, 10);
    assert_int_equal(th[2].tid, 30);
    assert_int_equal(th[2].signal, 6);
    mem_registers r;
    assert_int_equal(mem_registers_of(t, 20, &r, &e), 0);
    assert_int_equal(r.general.rip, 0x1002);
    assert_true(r.has_floating);
    assert_int_equal(r.floating.mxcsr, 0x1f80);
    assert_int_equal(mem_registers_of(t, 11, &r, &e), -ERR_NOT_FOUND);
    assert_int_equal(mem_pid(t), 99);
    assert_int_equal(mem_stop(t, 0, &e), 0); /* nothing to stop */
    mem_close(t);
}

/* A file that is older than the core, and of no build id. */
static void a_file_stands_in_for_what_is_left_out(void **state)
{
    (void)state;
    char path[] = "/tmp/lunette-core-XXXXXX";
    int fd = mkstemp(path);
    uint8_t page[4096];
    for (int i = 0; i < 3; i++) {
        memset(page, 'A' + i, sizeof page);
        assert_int_equal(write(fd, page, sizeof page), (ssize_t)sizeof page);
    }
    close(fd);
    core_file files[] = {{0x20000, 0x23000, 0, path}};
    core_piece pieces[] = {{0x20000, 0x3000, 0x1000, PF_R}};
    core_plan plan = {.pieces = pieces, .n_pieces = 1, .files = files, .n_files = 1, .tids = TIDS, .n_tids = 1};
    mem_target *t = open_plan(&plan);
    uint8_t got[0x4000];
    assert_int_equal(mem_read(t, 0x20800, got, sizeof got), 0x2800);
    assert_int_equal(got[0], 0x20); /* the core's own page */
    assert_int_equal(got[0x800], 'B');
    assert_int_equal(got[0x1800], 'C');
    bool told = false;
    for (size_t i = 0; mem_note(t, i); i++)
        told = told || strstr(mem_note(t, i), "taken from disk");
    assert_true(told);
    const mem_mapping *m = mem_mapping_of(t, 0x21000);
    assert_true(m && m->held == 0x1000 && strcmp(m->path, path) == 0);
    mem_close(t);
    unlink(path);
}

static void written_pages_are_never_taken_of_a_file(void **state)
{
    (void)state;
    core_file files[] = {{0x20000, 0x22000, 0, "/proc/self/exe"}};
    core_piece pieces[] = {{0x20000, 0x2000, 0x1000, PF_R | PF_W}};
    core_plan plan = {.pieces = pieces, .n_pieces = 1, .files = files, .n_files = 1, .tids = TIDS, .n_tids = 1};
    mem_target *t = open_plan(&plan);
    uint8_t got[0x2000];
    assert_int_equal(mem_read(t, 0x20000, got, sizeof got), 0x1000);
    mem_close(t);
}

static void what_is_no_core_of_ours_is_told_apart(void **state)
{
    (void)state;
    buf b;
    err e = {0};
    mem_target *t = NULL;
    core_plan plan = {.pieces = PIECES, .n_pieces = 1, .tids = TIDS, .n_tids = 1, .machine = EM_AARCH64};
    buf_init(&b, 0);
    core_make(&plan, &b);
    assert_int_equal(mem_open_core_fd(memfd_of(&b, b.n), "core", NULL, &t, &e), -ERR_NOT_SUPPORTED);
    e = (err){0};
    b.p[0] = 'x';
    assert_int_equal(mem_open_core_fd(memfd_of(&b, b.n), "core", NULL, &t, &e), -ERR_MALFORMED);
    buf_fini(&b);
    e = (err){0};
    assert_int_equal(mem_open_core("/proc/self/exe", NULL, &t, &e), -ERR_MALFORMED);
    e = (err){0};
    assert_int_equal(mem_open_core("/nowhere/core", NULL, &t, &e), -ERR_NOT_FOUND);
    e = (err){0};
    assert_int_equal(mem_open_core("/proc", NULL, &t, &e), -ERR_INVALID_ARGUMENT);
}

/* Wherever it is cut: an error, or a target whose reads stay inside. */
static void a_core_cut_anywhere_is_no_crash(void **state)
{
    (void)state;
    buf b;
    core_file files[] = {{0x10000, 0x12000, 0, "/nowhere/lib.so"}};
    core_piece pieces[] = {{0x10000, 0x2000, 0x1800, PF_R}};
    core_plan plan = {
        .pieces = pieces, .n_pieces = 1, .files = files, .n_files = 1, .tids = TIDS, .n_tids = 2, .group = 5};
    buf_init(&b, 0);
    core_make(&plan, &b);
    for (size_t n = 0; n <= b.n; n += n < 3000 ? 1 : 97) {
        err e = {0};
        mem_target *t = NULL;
        uint8_t got[0x4000];
        int rc = mem_open_core_fd(memfd_of(&b, n), "core", NULL, &t, &e);
        if (rc < 0) {
            assert_true(e.kind != ERR_NONE);
            continue;
        }
        assert_true(mem_read(t, 0x10000, got, sizeof got) <= 0x1800);
        size_t k;
        mem_modules(t, &k);
        mem_close(t);
    }
    buf_fini(&b);
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    buf b;
    core_file files[] = {{0x10000, 0x12000, 0, "/nowhere/lib.so"}};
    core_plan plan = {.pieces = PIECES, .n_pieces = 4, .files = files, .n_files = 1, .tids = TIDS, .n_tids = 4};
    buf_init(&b, 0);
    core_make(&plan, &b);
    bool fired = true;
    for (long n = 0; fired; n++) {
        err e = {0};
        mem_target *t = NULL;
        int fd = memfd_of(&b, b.n);
        mem_fail_at(n);
        int rc = mem_open_core_fd(fd, "core", NULL, &t, &e);
        fired = mem_failed();
        mem_fail_at(-1);
        assert_int_equal(rc, fired ? -ERR_NO_MEMORY : 0);
        mem_close(t);
    }
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_read_across_their_borders),
        cmocka_unit_test(threads_come_by_number_with_their_registers),
        cmocka_unit_test(a_file_stands_in_for_what_is_left_out),
        cmocka_unit_test(written_pages_are_never_taken_of_a_file),
        cmocka_unit_test(what_is_no_core_of_ours_is_told_apart),
        cmocka_unit_test(a_core_cut_anywhere_is_no_crash),
        cmocka_unit_test(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
