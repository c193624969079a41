/* SPDX-License-Identifier: MIT */
/* Kept answers: where the id of a request is, and when an answer is given again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>

#include "transport/kept.h"

static void the_id_is_found_where_there_is_one(void **state)
{
    (void)state;
    static const struct {
        const char *body, *id; /* NULL: none */
    } cases[] = {
        {"{\"id\":1}", "1"},
        {"{\"jsonrpc\":\"2.0\", \"id\" : \"a:b\\u00e9\" ,\"method\":\"x\"}", "\"a:b\\u00e9\""},
        {"{\"params\":{\"id\":7},\"id\":-12}", "-12"},
        {"{\"\\u0069d\":3}", "3"},
        {"{\"id\":1,\"id\":2}", NULL},
        {"{\"id\":1.5}", NULL},
        {"{\"id\":null}", NULL},
        {"{\"id\":[1]}", NULL},
        {"{\"params\":{\"id\":7}}", NULL},
        {"[{\"id\":1}]", NULL},
        {"{\"id\":1", NULL},
        {"{\"id\":1} x", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        slice id;
        assert_int_equal(kept_id(slice_str(cases[i].body), &id), cases[i].id != NULL);
        if (cases[i].id) assert_true(slice_eq_str(id, cases[i].id));
    }
}

static kept_answer answer_of(const char *tail)
{
    return (kept_answer){.status = 200, .head = SLICE_LIT("{\"id\":"), .tail = slice_str(tail)};
}

static void an_answer_is_kept_until_it_is_forgotten(void **state)
{
    (void)state;
    kept *k = kept_new();
    kept_answer a = answer_of(",1}");
    assert_null(kept_find(k, SLICE_LIT("key")));
    kept_put(k, kept_generation(k), SLICE_LIT("key"), &a);
    assert_true(slice_eq_str(kept_find(k, SLICE_LIT("key"))->tail, ",1}"));
    assert_null(kept_find(k, SLICE_LIT("kex")));
    uint64_t before = kept_generation(k);
    kept_forget(k);
    assert_null(kept_find(k, SLICE_LIT("key")));
    kept_put(k, before, SLICE_LIT("key"), &a); /* made before the change, finished after it */
    assert_null(kept_find(k, SLICE_LIT("key")));
    kept_free(k);
}

static void the_one_used_longest_ago_makes_room(void **state)
{
    (void)state;
    kept *k = kept_new();
    char key[16];
    kept_answer a = answer_of(",1}");
    for (int i = 0; i < KEPT_ENTRIES_MAX; i++) {
        snprintf(key, sizeof key, "k%d", i);
        kept_put(k, 0, slice_str(key), &a);
    }
    assert_non_null(kept_find(k, SLICE_LIT("k0")));
    kept_put(k, 0, SLICE_LIT("new"), &a);
    assert_non_null(kept_find(k, SLICE_LIT("k0")));
    assert_non_null(kept_find(k, SLICE_LIT("new")));
    assert_null(kept_find(k, SLICE_LIT("k1")));
    kept_free(k);
}

static void without_memory_nothing_is_kept_and_nothing_leaks(void **state)
{
    (void)state;
    const kept_answer *found = NULL;
    for (long n = 0; !found; n++) {
        kept *k = kept_new();
        kept_answer a = answer_of(",1}");
        mem_fail_at(n);
        kept_put(k, 0, SLICE_LIT("key"), &a);
        bool fired = mem_failed();
        mem_fail_at(-1);
        found = kept_find(k, SLICE_LIT("key"));
        assert_int_equal(found == NULL, fired);
        kept_free(k);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_id_is_found_where_there_is_one),
        cmocka_unit_test(an_answer_is_kept_until_it_is_forgotten),
        cmocka_unit_test(the_one_used_longest_ago_makes_room),
        cmocka_unit_test(without_memory_nothing_is_kept_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
