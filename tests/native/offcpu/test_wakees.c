/* SPDX-License-Identifier: MIT */
/* test_wakees.c: the kernel's filter for threads whose wake-ups are told. */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "offcpu/wakees.h"

static char *filter_of(const int *tids, size_t n, int last)
{
    static char text[8192];
    oc_wakees w = {0};
    buf b;
    buf_init(&b, 0);
    for (size_t i = 0; i < n; i++)
        assert_true(oc_wakees_add(&w, tids[i]));
    bool some = oc_wakees_filter(&w, last, &b);
    assert_true(b.n < sizeof text && b.p[b.n - 1] == 0);
    memcpy(text, b.p, b.n);
    buf_fini(&b);
    oc_wakees_fini(&w);
    return some ? text : NULL;
}

static void numbers_and_ranges(void **state)
{
    (void)state;
    assert_string_equal(filter_of((int[]){12, 7, 9, 10, 11}, 5, 20), "pid==7||(pid>=9&&pid<=12)||pid>20");
    assert_string_equal(filter_of((int[]){21, 7, 22}, 3, 20), "pid==7||pid>20");
    assert_string_equal(filter_of((int[]){21, 7}, 2, -1), "pid==7||pid==21");
    assert_string_equal(filter_of(NULL, 0, 20), "pid>20");
    assert_null(filter_of(NULL, 0, -1));
}

static void many_threads_are_fewer_ranges(void **state)
{
    (void)state;
    int tids[5000];
    for (int i = 0; i < 5000; i++)
        tids[i] = 4000000 + i * 7 + (i / 1000) * 20000; /* five crowds, with gaps within */
    const char *text = filter_of(tids, 5000, 4190000);
    assert_string_equal(text,
                        "(pid>=4000000&&pid<=4006993)||(pid>=4027000&&pid<=4033993)||(pid>=4054000&&pid<=4060993)||"
                        "(pid>=4081000&&pid<=4087993)||(pid>=4108000&&pid<=4114993)||pid>4190000");
    uint32_t number = 7;
    for (int i = 0; i < 5000; i++)
        tids[i] = 1000000 + (int)((number = number * 1664525 + 1013904223) >> 11);
    text = filter_of(tids, 5000, 4190000);
    assert_true(strlen(text) < 4096);
}

static void the_newest_thread(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) _exit(0);
    assert_true(child > 0);
    int last = oc_last_tid();
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_true(last >= child || (last > 0 && last < getpid())); /* numbers may begin anew in between */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_and_ranges),
        cmocka_unit_test(many_threads_are_fewer_ranges),
        cmocka_unit_test(the_newest_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
