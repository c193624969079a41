/* SPDX-License-Identifier: MIT */
/* test_keys.c: pairs by whole numbers of every width, where the two sides have different ones, where another version of
 * an event has them elsewhere, and where a payload ends before them. */
#include "kit.h"

enum { I32 = 9, U32 = 10, I64 = 11, U64 = 12, TEXT = 18, BEGIN_V2 = 3 };

static void put_kinds(tw *w)
{
    static const tw_field begin[] = {{"narrow", U32, 0}, {"wide", I64, 0}, {"minus", I32, 0}},
                          end[] = {{"wide", U64, 0}, {"number", I64, 0}},
                          second[] = {{"note", TEXT, 0}, {"wide", I64, 0}};
    buf fields = {0};
    buf_init(&fields, 0);
    tw_start(w, false, false);
    tw_begin(w, TW_METADATA);
    tw_fields(w, &fields, begin, 3);
    tw_put_kind(w, BEGIN, "Shop", 1, "Begin", 1, buf_view(&fields), (slice){0});
    buf_reset(&fields);
    tw_fields(w, &fields, end, 2);
    tw_put_kind(w, END, "Shop", 2, "End", 1, buf_view(&fields), (slice){0});
    buf_reset(&fields);
    tw_fields(w, &fields, second, 2);
    tw_put_kind(w, BEGIN_V2, "Shop", 1, "Begin", 2, buf_view(&fields), (slice){0});
    tw_end(w);
    buf_fini(&fields);
}

static void put_begin(shop *s, int64_t ns, uint32_t narrow, uint64_t wide, int32_t minus, size_t bytes)
{
    uint8_t b[16];
    memcpy(b, &narrow, 4);
    memcpy(b + 4, &wide, 8);
    memcpy(b + 12, &minus, 4);
    shop_payload(s, BEGIN, ns, 1, slice_of(b, bytes));
}

static void put_end(shop *s, int64_t ns, uint64_t wide, int64_t number, size_t bytes)
{
    uint8_t b[16];
    memcpy(b, &wide, 8);
    memcpy(b + 8, &number, 8);
    shop_payload(s, END, ns, 1, slice_of(b, bytes));
}

static void put_second_version(shop *s, int64_t ns, const char *note, uint64_t wide)
{
    buf b = {0};
    buf_init(&b, 0);
    tw_utf16z(&b, note);
    buf_u64(&b, wide);
    shop_payload(s, BEGIN_V2, ns, 1, buf_view(&b));
    buf_fini(&b);
}

#define PAIR(NAME, START, STOP)                                                                                        \
    {                                                                                                                  \
        .name = (NAME), .op = PROBE_PAIR, .start = TEXTS("begin"), .stop = TEXTS("end"), .by = NAMED({"k", START}),    \
        .by_stop = NAMED({"k", STOP}), KEEP({.name = "ns", .op = PROBE_SUM, .expr = "@duration"})                      \
    }

static void whole_numbers_of_every_width(void **state)
{
    const uint64_t one = 1, top = (uint64_t)1 << 56; /* what tells the keys apart is above 56 bits */
    (void)state;
    shop s = {0};
    put_kinds(&s.w);
    put_kinds(&s.waiting);
    put_begin(&s, 0, UINT32_MAX, top | one, -1, 16);
    put_begin(&s, 1000, 5, 2 * top | one, -5, 16);
    put_begin(&s, 2000, 0x80000000u, 0x80 * top | one, INT32_MIN, 16);
    put_second_version(&s, 3000, "elsewhere", 7);
    put_begin(&s, 4000, 9, 0, 0, 4);
    put_end(&s, 5000, 2 * top | one, -1, 16);
    put_end(&s, 6000, 0x80 * top | one, UINT32_MAX, 16);
    put_end(&s, 7000, 3 * top | one, 0x80000000u, 16);
    put_end(&s, 8000, 7, INT32_MIN, 16);
    put_end(&s, 9000, 7, 0, 3);
    put_end(&s, 10000, top | one, 9, 16);
    const probe_spec keep[] = {PAIR("wide", "wide", "wide"), PAIR("narrow", "narrow", "number"),
                               PAIR("minus", "minus", "number")};
    assert_run(&s, keep,
               "wide={pairs=4, unmatched=1, replaced=0, dropped=0, keyless=2, open=0, ns=23000}, "
               "narrow={pairs=3, unmatched=2, replaced=0, dropped=0, keyless=2, open=1, ns=17000}, "
               "minus={pairs=2, unmatched=3, replaced=0, dropped=0, keyless=3, open=1, ns=11000}");
    shop_fini(&s);
}

/* More keys than the first table has slots, taken out in another order: those that stood behind one another are still
 * found. */
static void many_keys_in_any_order(void **state)
{
    enum { KEYS = 5000, STEP = 1237 };
    (void)state;
    shop s = {0};
    put_kinds(&s.w);
    put_kinds(&s.waiting);
    for (uint32_t i = 0; i < KEYS; i++)
        put_begin(&s, 10 * (int64_t)i, i, (uint64_t)i << 32, -(int32_t)i, 16);
    for (uint32_t i = 0; i < KEYS; i++) {
        uint32_t k = i * STEP % KEYS;
        put_end(&s, 10 * ((int64_t)KEYS + i), (uint64_t)k << 32, k, 16);
    }
    const probe_spec keep[] = {PAIR("wide", "wide", "wide"), PAIR("narrow", "narrow", "number")};
    assert_run(&s, keep,
               "wide={pairs=5000, unmatched=0, replaced=0, dropped=0, keyless=0, open=0, ns=250000000}, "
               "narrow={pairs=5000, unmatched=0, replaced=0, dropped=0, keyless=0, open=0, ns=250000000}");
    shop_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_numbers_of_every_width),
        cmocka_unit_test(many_keys_in_any_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
