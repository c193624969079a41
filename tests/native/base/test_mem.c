/* SPDX-License-Identifier: MIT */
/* test_mem.c: buffers, arenas, string tables and maps: contents, caps, and each allocation failing once. */
#include "base/mem.h"

#include "check.h"

/* ---- buf ----------------------------------------------------------------------------------------------------------
 */

static void a_buffer_appends(void **state)
{
    (void)state;
    buf b = {0};
    assert_true(buf_str(&b, "ab"));
    assert_true(buf_u8(&b, 1) && buf_u16(&b, 0x0203) && buf_u32(&b, 0x04050607) && buf_u64(&b, 0x08090a0b0c0d0e0fu));
    assert_slice_lit(buf_view(&b), "ab\x01\x03\x02\x07\x06\x05\x04\x0f\x0e\x0d\x0c\x0b\x0a\x09\x08");
    buf_consume(&b, 3);
    assert_int_equal(b.n, 14);
    assert_int_equal(b.p[0], 3);
    buf_consume(&b, 0);
    assert_int_equal(b.n, 14);
    buf_consume(&b, 100);
    assert_int_equal(b.n, 0);
    assert_true(buf_printf(&b, "%d-%s", 42, "x"));
    assert_slice_lit(buf_view(&b), "42-x");
    assert_true(buf_printf(&b, "%0*d", 1000, 7));
    assert_int_equal(b.n, 1004);
    assert_int_equal(b.p[1003], '7');
    assert_true(buf_put(&b, NULL, 0));
    buf_fini(&b);
    assert_null(b.p);
    assert_int_equal(b.n, 0);
    assert_true(buf_u8(&b, 9)); /* usable again */
    buf_fini(&b);
}

static void a_buffer_keeps_what_fitted(void **state)
{
    (void)state;
    buf b;
    buf_init(&b, 5);
    assert_true(buf_str(&b, "1234"));
    assert_false(buf_str(&b, "56"));
    assert_true(b.failed);
    assert_false(buf_u8(&b, '5')); /* would fit, but would leave a hole */
    assert_false(buf_put(&b, NULL, 0));
    assert_null(buf_reserve(&b, 1));
    assert_slice_lit(buf_view(&b), "1234");
    buf_reset(&b);
    assert_true(buf_str(&b, "12345"));
    assert_false(buf_printf(&b, "x"));
    buf_reset(&b);
    assert_null(buf_reserve(&b, SIZE_MAX));
    assert_true(b.failed);
    buf_fini(&b);
}

static int use_buf(void *arg)
{
    (void)arg;
    buf b = {0};
    bool ok = buf_str(&b, "0123456789") && buf_printf(&b, "%300d", 1) && buf_reserve(&b, 4096);
    assert_int_equal(b.failed, !ok);
    if (!ok && b.n) assert_memory_equal(b.p, "0123456789", 10);
    buf_fini(&b);
    return ok ? 0 : -ERR_NO_MEMORY;
}

/* ---- arena --------------------------------------------------------------------------------------------------------
 */

static void arena_memory_is_zeroed_and_aligned(void **state)
{
    (void)state;
    arena a = {0};
    for (int round = 0; round < 2; round++) {
        size_t total = 0;
        for (size_t n = 0; n < 3000; n += 7) {
            uint8_t *p = arena_alloc(&a, n);
            assert_non_null(p);
            assert_int_equal((uintptr_t)p % 16, 0);
            for (size_t i = 0; i < n; i++)
                assert_int_equal(p[i], 0);
            memset(p, 0xaa, n);
            total += n;
            assert_int_equal(a.used, total);
        }
        uint8_t *big = arena_alloc(&a, 1 << 20);
        assert_non_null(big);
        memset(big, 0xbb, 1 << 20);
        arena_reset(&a);
        assert_int_equal(a.used, 0);
    }
    assert_string_equal(arena_str(&a, SLICE_LIT("text")), "text");
    assert_string_equal(arena_str(&a, (slice){0}), "");
    assert_memory_equal(arena_dup(&a, "\1\2\3", 3), "\1\2\3", 3);
    assert_non_null(arena_dup(&a, NULL, 0));
    arena_free(&a);
    assert_null(a.head);
    arena_free(&a);
}

static void an_arena_has_a_cap(void **state)
{
    (void)state;
    arena a = {.max = 100};
    assert_non_null(arena_alloc(&a, 60));
    assert_null(arena_alloc(&a, 41));
    assert_true(a.failed);
    assert_non_null(arena_alloc(&a, 40));
    assert_null(arena_alloc(&a, 1));
    arena_reset(&a);
    assert_false(a.failed);
    assert_non_null(arena_alloc(&a, 100));
    arena_free(&a);
    arena b = {0};
    assert_null(arena_alloc(&b, SIZE_MAX - 8));
    assert_true(b.failed);
    assert_null(arena_str(&b, (slice){(const uint8_t *)"", SIZE_MAX}));
    arena_free(&b);
}

static int use_arena(void *arg)
{
    (void)arg;
    arena a = {0};
    bool ok = arena_alloc(&a, 10) && arena_alloc(&a, 100000) && arena_dup(&a, "x", 1) && arena_str(&a, SLICE_LIT("y"));
    assert_int_equal(a.failed, !ok);
    arena_free(&a);
    return ok ? 0 : -ERR_NO_MEMORY;
}

/* ---- strtab -------------------------------------------------------------------------------------------------------
 */

static void a_string_has_one_id(void **state)
{
    (void)state;
    strtab *t = strtab_new(0, 0);
    char text[32];
    assert_int_equal(strtab_find(t, SLICE_LIT("s0")), STRTAB_FULL);
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < 5000; i++) {
            int n = snprintf(text, sizeof text, "s%u", i);
            assert_int_equal(strtab_intern(t, slice_of(text, (size_t)n)), i);
        }
    }
    assert_int_equal(strtab_count(t), 5000);
    assert_slice_lit(strtab_get(t, 4711), "s4711");
    assert_int_equal(strtab_get(t, 4711).p[5], 0);
    assert_int_equal(strtab_find(t, SLICE_LIT("s4999")), 4999);
    assert_int_equal(strtab_find(t, SLICE_LIT("s5000")), STRTAB_FULL);
    assert_int_equal(strtab_get(t, 5000).n, 0);
    assert_int_equal(strtab_intern(t, (slice){0}), 5000); /* the empty string is a string */
    assert_int_equal(strtab_intern(t, SLICE_LIT("")), 5000);
    assert_int_equal(strtab_intern(t, SLICE_LIT("a\0b")), 5001);
    assert_int_equal(strtab_intern(t, SLICE_LIT("a\0c")), 5002);
    assert_slice_lit(strtab_get(t, 5001), "a\0b");
    strtab_free(t);
    strtab_free(NULL);
}

static void a_string_table_has_caps(void **state)
{
    (void)state;
    strtab *t = strtab_new(2, 0);
    assert_int_equal(strtab_intern(t, SLICE_LIT("a")), 0);
    assert_int_equal(strtab_intern(t, SLICE_LIT("b")), 1);
    assert_int_equal(strtab_intern(t, SLICE_LIT("c")), STRTAB_FULL);
    assert_int_equal(strtab_intern(t, SLICE_LIT("a")), 0); /* what is there is still found */
    assert_int_equal(strtab_count(t), 2);
    strtab_free(t);
    t = strtab_new(0, 10); /* with the NULs: 4 + 4 fit */
    assert_int_equal(strtab_intern(t, SLICE_LIT("abc")), 0);
    assert_int_equal(strtab_intern(t, SLICE_LIT("def")), 1);
    assert_int_equal(strtab_intern(t, SLICE_LIT("gh")), STRTAB_FULL);
    assert_int_equal(strtab_intern(t, SLICE_LIT("g")), 2);
    assert_int_equal(strtab_intern(t, SLICE_LIT("")), STRTAB_FULL);
    strtab_free(t);
}

static int use_strtab(void *arg)
{
    (void)arg;
    strtab *t = strtab_new(0, 0);
    if (!t) return -ERR_NO_MEMORY;
    int rc = 0;
    char text[16];
    for (uint32_t i = 0; i < 300 && rc == 0; i++) {
        snprintf(text, sizeof text, "name %u", i);
        uint32_t id = strtab_intern(t, slice_str(text));
        if (id == STRTAB_FULL) rc = -ERR_NO_MEMORY;
        assert_int_equal(strtab_count(t), rc ? i : i + 1);
    }
    for (uint32_t i = 0; i < strtab_count(t); i++) { /* what went in before the fault is whole */
        snprintf(text, sizeof text, "name %u", i);
        assert_int_equal(strtab_find(t, slice_str(text)), i);
    }
    strtab_free(t);
    return rc;
}

/* ---- map64 --------------------------------------------------------------------------------------------------------
 */

/* A cheap generator with a fixed seed, so that a failure repeats. */
static uint64_t next_random(uint64_t *s)
{
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return *s >> 33;
}

/* Against a plain array: put, get and delete at random among few keys, 0 among them, so that runs and wraps occur. */
static void a_map_behaves_like_an_array(void **state)
{
    (void)state;
    enum { KEYS = 600 };
    map64 m = {0};
    uint64_t want[KEYS] = {0}, seed = 1, v; /* 0: not there */
    size_t n = 0;
    for (int step = 0; step < 200000; step++) {
        uint64_t key = next_random(&seed) % KEYS, dice = next_random(&seed) % 5;
        if (dice < 2) {
            assert_int_equal(map64_del(&m, key), want[key] != 0);
            n -= want[key] != 0;
            want[key] = 0;
        } else {
            n += want[key] == 0;
            want[key] = (uint64_t)step + 1;
            assert_true(map64_put(&m, key, want[key]));
        }
        assert_int_equal(m.n, n);
        key = next_random(&seed) % KEYS;
        v = 0;
        assert_int_equal(map64_get(&m, key, &v), want[key] != 0);
        assert_true(v == want[key]);
    }
    size_t it = 0, seen = 0;
    uint64_t key;
    while (map64_next(&m, &it, &key, &v)) {
        assert_true(key < KEYS && v == want[key]);
        seen++;
    }
    assert_int_equal(seen, n);
    map64_clear(&m);
    assert_int_equal(m.n, 0);
    assert_false(map64_get(&m, 0, NULL));
    it = 0;
    assert_false(map64_next(&m, &it, &key, &v));
    map64_fini(&m);
    assert_false(map64_get(&m, 1, NULL));
    assert_false(map64_del(&m, 1));
    it = 0;
    assert_false(map64_next(&m, &it, &key, &v));
}

static void a_map_has_a_cap(void **state)
{
    (void)state;
    map64 m = {.max = 3};
    assert_true(map64_put(&m, 0, 10) && map64_put(&m, UINT64_MAX, 11) && map64_put(&m, 5, 12));
    assert_false(map64_put(&m, 6, 13));
    assert_true(map64_put(&m, 5, 14)); /* a change is no growth */
    uint64_t v = 0;
    assert_true(map64_get(&m, 5, &v) && v == 14);
    v = 99;
    assert_false(map64_get(&m, 6, &v));
    assert_int_equal(v, 99);
    assert_true(map64_del(&m, 0));
    assert_true(map64_put(&m, 6, 13));
    map64_fini(&m);
}

static int use_map(void *arg)
{
    (void)arg;
    map64 m = {0};
    int rc = 0;
    for (uint64_t k = 0; k < 200 && rc == 0; k++)
        rc = map64_put(&m, k, k * 2) ? 0 : -ERR_NO_MEMORY;
    uint64_t v;
    for (uint64_t k = 0; k < m.n; k++)
        assert_true(map64_get(&m, k, &v) && v == k * 2);
    map64_fini(&m);
    return rc;
}

/* ---- hashes -------------------------------------------------------------------------------------------------------
 */

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static size_t duplicates(uint64_t *v, size_t n)
{
    size_t same = 0;
    qsort(v, n, sizeof *v, by_value);
    for (size_t i = 1; i < n; i++)
        same += v[i] == v[i - 1];
    return same;
}

static void hashes_spread(void **state)
{
    (void)state;
    enum { N = 20000 };
    static uint64_t h[N];
    uint8_t text[80] = {0};
    for (size_t i = 0; i < N; i++) { /* each single byte value at each place of each length */
        size_t n = 1 + i % 78;
        memset(text, 0, sizeof text);
        text[(i / 78) % n] = (uint8_t)(1 + i / (78 * 80));
        text[n - 1] ^= (uint8_t)(i / 78);
        h[i] = hash_bytes(slice_of(text, n), 7);
    }
    size_t inputs_alike = 0; /* the recipe above makes some inputs twice: count distinct low bits instead of values */
    unsigned low[64] = {0};
    for (size_t i = 0; i < N; i++)
        low[h[i] & 63]++;
    for (size_t i = 0; i < 64; i++)
        inputs_alike += low[i] < N / 64 / 2 || low[i] > N / 64 * 2;
    assert_int_equal(inputs_alike, 0);
    for (uint64_t i = 0; i < N; i++)
        h[i] = hash_u64(i << 12); /* addresses of pages */
    memset(low, 0, sizeof low);
    for (size_t i = 0; i < N; i++)
        low[h[i] & 63]++;
    for (size_t i = 0; i < 64; i++)
        assert_in_range(low[i], N / 64 / 2, N / 64 * 2);
    assert_int_equal(duplicates(h, N), 0);
}

static void the_length_and_the_seed_matter(void **state)
{
    (void)state;
    static const uint8_t zeros[64];
    uint64_t h[64];
    for (size_t n = 0; n < 64; n++)
        h[n] = hash_bytes(slice_of(zeros, n), 1);
    assert_int_equal(duplicates(h, 64), 0);
    assert_true(hash_bytes(SLICE_LIT("a"), 1) != hash_bytes(SLICE_LIT("a"), 2));
    assert_true(hash_bytes(SLICE_LIT("abc"), 1) == hash_bytes(slice_of("abcd", 3), 1));
    assert_true(hash_bytes((slice){0}, 1) == hash_bytes(SLICE_LIT(""), 1));
}

/* ---- faults -------------------------------------------------------------------------------------------------------
 */

static void each_failed_allocation_is_reported(void **state)
{
    (void)state;
    assert_int_equal(each_allocation_fails(use_buf, NULL), 4);
    assert_int_equal(each_allocation_fails(use_arena, NULL), 3);
    assert_true(each_allocation_fails(use_strtab, NULL) >= 8);
    assert_int_equal(each_allocation_fails(use_map, NULL), 6); /* 16, 32, 64, 128, 256, 512 slots */
}

static void the_fault_fires_once(void **state)
{
    (void)state;
    mem_fail_at(1);
    void *a = mem_alloc(0), *b = mem_calloc(3, 5), *c = mem_realloc(NULL, 9);
    assert_non_null(a);
    assert_null(b);
    assert_non_null(c);
    assert_true(mem_failed());
    mem_fail_at(-1);
    assert_false(mem_failed());
    free(a);
    free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_buffer_appends),
        cmocka_unit_test(a_buffer_keeps_what_fitted),
        cmocka_unit_test(arena_memory_is_zeroed_and_aligned),
        cmocka_unit_test(an_arena_has_a_cap),
        cmocka_unit_test(a_string_has_one_id),
        cmocka_unit_test(a_string_table_has_caps),
        cmocka_unit_test(a_map_behaves_like_an_array),
        cmocka_unit_test(a_map_has_a_cap),
        cmocka_unit_test(hashes_spread),
        cmocka_unit_test(the_length_and_the_seed_matter),
        cmocka_unit_test(each_failed_allocation_is_reported),
        cmocka_unit_test(the_fault_fires_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
