/* SPDX-License-Identifier: MIT */
/* test_sketches.c: quantiles and distinct counts within their stated errors, merged ones too. */
#include <math.h>

#include "check.h"
#include "probe/engine.h"

static probe *engine(void)
{
    probe *p = calloc(1, sizeof *p);
    p->memory_max = PROBE_MEMORY_DEFAULT;
    return p;
}

static uint64_t random_state = 88172645463325252ull;
static double uniform(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (double)(random_state >> 11) / 9007199254740992.0;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static const double QS[] = {0, 1, 10, 25, 50, 75, 90, 95, 99, 99.9, 100};

/* Compares with the exact nearest rank of all values. */
static void check_quantiles(const psketch *s, double *v, size_t n, double error)
{
    qsort(v, n, sizeof *v, by_value);
    assert_int_equal(probe__sketch_n(s), n);
    assert_true(probe__sketch_min(s) == v[0]);
    assert_true(probe__sketch_max(s) == v[n - 1]);
    for (size_t i = 0; i < sizeof QS / sizeof *QS; i++) {
        size_t rank = (size_t)ceil(QS[i] / 100 * (double)n);
        double want = v[rank ? rank - 1 : 0], got = probe__sketch_at(s, QS[i]);
        if (fabs(got - want) > error * fabs(want) + 1e-300)
            fail_msg("p%g of %zu: %.17g is not %.17g", QS[i], n, got, want);
    }
}

static void fill(double *v, size_t n, int shape)
{
    for (size_t i = 0; i < n; i++) {
        double u = uniform();
        v[i] = shape == 0   ? u
               : shape == 1 ? exp(20 * u)
               : shape == 2 ? u * 2e9 - 1e9
               : shape == 3 ? floor(u * 5)
                            : -log(u) * 1e-6;
    }
}

static void quantiles_keep_their_error(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 2, 31, 32, 33, 1000, 50000};
    for (int shape = 0; shape < 5; shape++) {
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            size_t n = sizes[k];
            probe *p = engine();
            psketch *s = NULL;
            double *v = malloc(n * sizeof *v);
            fill(v, n, shape);
            for (size_t i = 0; i < n; i++)
                probe__sketch_add(p, &s, v[i]);
            assert_int_equal(probe__sketch_exact(s), n <= 32);
            check_quantiles(s, v, n, n <= 32 ? 0 : PROBE_SKETCH_ERROR);
            assert_in_range(p->memory, 100, 160u << 10);
            probe__sketch_fini(p, &s);
            assert_int_equal(p->memory, 0);
            free(v);
            free(p);
        }
    }
}

static void merged_quantiles_are_those_of_all_values(void **state)
{
    (void)state;
    static const size_t sizes[][2] = {{5, 5}, {20, 20}, {10, 5000}, {5000, 10}, {3000, 7000}, {0, 100}};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        size_t a = sizes[k][0], b = sizes[k][1];
        probe *p = engine();
        psketch *x = NULL, *y = NULL;
        double *v = malloc((a + b) * sizeof *v);
        fill(v, a + b, (int)(k % 3));
        for (size_t i = 0; i < a + b; i++)
            probe__sketch_add(p, i < a ? &x : &y, v[i]);
        probe__sketch_merge(p, &x, y);
        check_quantiles(x, v, a + b, a + b <= 32 ? 0 : PROBE_SKETCH_ERROR);
        probe__sketch_fini(p, &x);
        probe__sketch_fini(p, &y);
        assert_int_equal(p->memory, 0);
        free(v);
        free(p);
    }
}

static void numbers_that_are_none_are_left_out(void **state)
{
    (void)state;
    probe *p = engine();
    psketch *s = NULL;
    probe__sketch_add(p, &s, NAN);
    assert_int_equal(probe__sketch_n(s), 0);
    for (int i = 0; i < 100; i++)
        probe__sketch_add(p, &s, i % 3 == 0 ? INFINITY : i % 3 == 1 ? -INFINITY : 0);
    assert_int_equal(probe__sketch_n(s), 33);
    assert_true(probe__sketch_at(s, 50) == 0 && probe__sketch_max(s) == 0);
    probe__sketch_fini(p, &s);
    free(p);
}

/* Values over all 4096 orders of magnitude: pages are capped, none is lost without being counted. */
static void absurd_spreads_stay_bounded(void **state)
{
    (void)state;
    probe *p = engine();
    psketch *s = NULL;
    for (int i = -1000; i < 1000; i++) {
        probe__sketch_add(p, &s, ldexp(1, i));
        probe__sketch_add(p, &s, -ldexp(1, i));
    }
    assert_int_equal(probe__sketch_n(s), 4000);
    assert_true(p->memory < (size_t)200 << 10);
    assert_true(probe__sketch_at(s, 100) == ldexp(1, 999));
    probe__sketch_fini(p, &s);
    assert_int_equal(p->memory, 0);
    free(p);
}

static uint64_t distinct(probe *p, pdistinct **s, uint32_t max, uint64_t from, uint64_t n, bool *exact)
{
    for (int twice = 0; twice < 2; twice++)
        for (uint64_t i = from; i < from + n; i++)
            probe__distinct_add(p, s, max, hash_bytes(slice_of(&i, sizeof i), 1));
    return probe__distinct_n(*s, exact);
}

static void distinct_counts(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {0, 1, 10, 1000, 1024, 1025, 5000, 100000, 1000000};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        probe *p = engine();
        pdistinct *s = NULL;
        bool exact;
        double n = (double)sizes[k], got = (double)distinct(p, &s, 1024, 7, sizes[k], &exact);
        assert_int_equal(exact, sizes[k] <= 1024);
        if (exact)
            assert_true(got == n);
        else if (fabs(got - n) > 3 * PROBE_DISTINCT_ERROR * n)
            fail_msg("%g of %g", got, n);
        probe__distinct_fini(p, &s);
        assert_int_equal(p->memory, 0);
        free(p);
    }
}

static void merged_distinct_counts(void **state)
{
    (void)state;
    static const uint64_t sizes[][2] = {{10, 20}, {900, 900}, {50, 100000}, {100000, 50}, {60000, 60000}, {0, 5}};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        probe *p = engine();
        pdistinct *x = NULL, *y = NULL;
        bool exact;
        (void)distinct(p, &x, 1024, 0, sizes[k][0], &exact);
        (void)distinct(p, &y, 1024, sizes[k][0] / 2, sizes[k][1], &exact); /* half of x comes again */
        double want = (double)((sizes[k][0] >> 1) + sizes[k][1]);
        if (sizes[k][1] < sizes[k][0] - sizes[k][0] / 2) want = (double)sizes[k][0];
        probe__distinct_merge(p, &x, y);
        double got = (double)probe__distinct_n(x, &exact);
        if (fabs(got - want) > (exact ? 0 : 3 * PROBE_DISTINCT_ERROR * want)) fail_msg("%g of %g", got, want);
        probe__distinct_fini(p, &x);
        probe__distinct_fini(p, &y);
        assert_int_equal(p->memory, 0);
        free(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_keep_their_error),
        cmocka_unit_test(merged_quantiles_are_those_of_all_values),
        cmocka_unit_test(numbers_that_are_none_are_left_out),
        cmocka_unit_test(absurd_spreads_stay_bounded),
        cmocka_unit_test(distinct_counts),
        cmocka_unit_test(merged_distinct_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
