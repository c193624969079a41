/* SPDX-License-Identifier: MIT */
/* test_engine.c: every reducer over a small stream with known contents, nested ones, caps and what they drop. */
#include "kit.h"

/* Ten orders of three items: order i begins at i ms on thread 1 + i % 2 and ends i + 1 ms later; cost 10 * i. */
static int setup(void **state)
{
    static const char *const items[] = {"tea", "rye", "fig"};
    shop *s = calloc(1, sizeof *s);
    shop_start(s);
    for (int i = 0; i < 10; i++) {
        shop_event(s, BEGIN, i * 20000000LL, (uint64_t)(1 + i % 2), i, items[i % 3], 10 * i, i / 4.0);
        if (i == 9) break; /* order 9 stays open */
        shop_event(s, END, i * 20000000LL + (i + 1) * 1000000LL, (uint64_t)(1 + i % 2), i, "", 0, 0);
    }
    shop_event(s, BARE, 500000000, 3, 0, NULL, 0, 0);
    *state = s;
    return 0;
}

static int teardown(void **state)
{
    shop_fini(*state);
    free(*state);
    return 0;
}

static void numbers(void **state)
{
    const probe_spec keep[] = {
        {.name = "n", .op = PROBE_COUNT},
        {.name = "begins", .op = PROBE_COUNT, .on = TEXTS("begin")},
        {.name = "two", .op = PROBE_COUNT, .on = TEXTS("begin", "bare")},
        {.name = "dear", .op = PROBE_COUNT, .on = TEXTS("begin"), .where = "cost > 50"},
        {.name = "sum", .op = PROBE_SUM, .expr = "cost", .on = TEXTS("begin")},
        {.name = "half", .op = PROBE_SUM, .expr = "cost / 4", .on = TEXTS("begin")},
        {.name = "none", .op = PROBE_SUM, .expr = "nothing"},
        {.name = "least", .op = PROBE_MIN, .expr = "cost", .on = TEXTS("begin"), .where = "cost > 0"},
        {.name = "most", .op = PROBE_MAX, .expr = "ratio", .on = TEXTS("begin")},
        {.name = "stats", .op = PROBE_STATS, .expr = "cost", .on = TEXTS("begin")},
        {.name = "last", .op = PROBE_VALUE, .expr = "item", .on = TEXTS("begin")},
        {.name = "kinds", .op = PROBE_DISTINCT, .expr = "item", .on = TEXTS("begin")},
    };
    assert_run(*state, keep,
               "n=20, begins=10, two=11, dear=4, sum=450, half=112.5, none=nil, least=10, most=2.25, "
               "stats={n=10, sum=450, min=0, max=90, mean=45}, last=\"tea\", kinds={n=3, exact=true, error=0}");
}

static void rows(void **state)
{
    const probe_row row = NAMED({"id", "id"}, {"item", "item"}, {"no", "nothing"});
    const probe_spec keep[] = {
        {.name = "first", .op = PROBE_FIRST, .n = 2, .row = row, .on = TEXTS("begin")},
        {.name = "last", .op = PROBE_LAST, .n = 3, .row = row, .on = TEXTS("begin")},
        {.name = "top", .op = PROBE_TOP, .n = 2, .expr = "(cost * 7) % 100", .row = row, .on = TEXTS("begin")},
        {.name = "all", .op = PROBE_LAST, .n = 50, .row = NAMED({"t", "@thread"}), .on = TEXTS("bare")},
    };
    /* costs times 7 modulo 100: 0 70 40 10 80 50 20 90 60 30 */
    assert_run(*state, keep,
               "first={rows=[{id=0, item=\"tea\"}, {id=1, item=\"rye\"}], seen=10, dropped=8}, "
               "last={rows=[{id=7, item=\"rye\"}, {id=8, item=\"fig\"}, {id=9, item=\"tea\"}], seen=10, dropped=7}, "
               "top={rows=[{id=7, item=\"rye\"}, {id=4, item=\"rye\"}], seen=10, dropped=8}, "
               "all={rows=[{t=3}], seen=1, dropped=0}");
}

static void groups(void **state)
{
    const probe_spec keep[] = {
        {.name = "items",
         .op = PROBE_GROUP,
         .on = TEXTS("begin"),
         .by = NAMED({"item", "item"}),
         .weight = "cost",
         .top = 2,
         KEEP({.name = "n", .op = PROBE_COUNT}, {.name = "cost", .op = PROBE_SUM, .expr = "cost"})},
        {.name = "two",
         .op = PROBE_GROUP,
         .on = TEXTS("begin"),
         .by = NAMED({"thread", "@thread"}, {"dear", "cost >= 50"}),
         KEEP({.name = "n", .op = PROBE_COUNT})},
        {.name = "missing", .op = PROBE_GROUP, .by = NAMED({"key", "nothing"}), KEEP({.name = "n", .op = PROBE_COUNT})},
    };
    /* tea: 0 30 60 90, rye: 10 40 70, fig: 20 50 80 */
    assert_run(
        *state, keep,
        "items={rows=[{item=\"tea\", n=4, cost=180}, {item=\"fig\", n=3, cost=150}], keys=3, evicted=0, dropped=0, "
        "other={keys=1, n=3, cost=120}}, "
        "two={rows=[{thread=1, dear=false, n=3}, {thread=2, dear=true, n=3}, {thread=1, dear=true, n=2}, "
        "{thread=2, dear=false, n=2}], keys=4, evicted=0, dropped=0}, "
        "missing={rows=[{n=20}], keys=1, evicted=0, dropped=0}");
}

static void pairs(void **state)
{
    const probe_spec keep[] = {
        {.name = "by_id",
         .op = PROBE_PAIR,
         .start = TEXTS("begin"),
         .stop = TEXTS("end"),
         .by = NAMED({"k", "id"}),
         .open = true,
         .row = NAMED({"id", "id"}, {"item", "item"}),
         KEEP({.name = "ms", .op = PROBE_STATS, .expr = "@duration / 1e6"},
              {.name = "items",
               .op = PROBE_GROUP,
               .by = NAMED({"item", "start.item"}),
               KEEP({.name = "n", .op = PROBE_COUNT}, {.name = "cost", .op = PROBE_SUM, .expr = "start.cost"})})},
        {.name = "by_thread",
         .op = PROBE_PAIR,
         .start = TEXTS("begin"),
         .stop = TEXTS("end"),
         .where = "start.cost > 10",
         KEEP({.name = "same", .op = PROBE_COUNT, .where = "start.id == id"},
              {.name = "at", .op = PROBE_MAX, .expr = "start.@time"})},
        {.name = "sides",
         .op = PROBE_PAIR,
         .start = TEXTS("begin"),
         .stop = TEXTS("end"),
         .by = NAMED({"k", "id + 1"}),
         .by_stop = NAMED({"k", "id"})},
    };
    /* On each thread an order ends before the next begins, up to order 8: it ends 9 ms after its begin. */
    assert_run(
        *state, keep,
        "by_id={pairs=9, unmatched=0, replaced=0, dropped=0, keyless=0, open=1, open_rows=[{id=9, item=\"tea\"}], "
        "ms={n=9, sum=45, min=1, max=9, mean=5}, "
        "items={rows=[{item=\"fig\", n=3, cost=150}, {item=\"rye\", n=3, cost=120}, {item=\"tea\", n=3, cost=90}], "
        "keys=3, evicted=0, dropped=0}}, "
        "by_thread={pairs=7, unmatched=0, replaced=0, dropped=0, keyless=0, open=1, same=7, at=160000000}, "
        "sides={pairs=8, unmatched=1, replaced=0, dropped=0, keyless=0, open=2}");
}

static void nesting(void **state)
{
    (void)state;
    shop s;
    shop_start(&s);
    shop_event(&s, BEGIN, 1000, 1, 1, "outer", 0, 0);
    shop_event(&s, BEGIN, 2000, 1, 2, "inner", 0, 0);
    shop_event(&s, END, 3000, 1, 0, "", 0, 0);
    shop_event(&s, END, 5000, 1, 0, "", 0, 0);
    shop_event(&s, END, 6000, 1, 0, "", 0, 0);
    const probe_row row = NAMED({"item", "start.item"}, {"ns", "@duration"});
    const probe_spec keep[] = {
        {.name = "nested",
         .op = PROBE_PAIR,
         .start = TEXTS("begin"),
         .stop = TEXTS("end"),
         .nested = true,
         KEEP({.name = "rows", .op = PROBE_LAST, .n = 5, .row = row})},
        {.name = "flat",
         .op = PROBE_PAIR,
         .start = TEXTS("begin"),
         .stop = TEXTS("end"),
         KEEP({.name = "rows", .op = PROBE_LAST, .n = 5, .row = row})},
        {.name = "per_thread",
         .op = PROBE_GROUP,
         .by = NAMED({"thread", "@thread"}),
         KEEP({.name = "p",
               .op = PROBE_PAIR,
               .start = TEXTS("begin"),
               .stop = TEXTS("end"),
               .by = NAMED({"k", "1"}),
               KEEP({.name = "ns", .op = PROBE_SUM, .expr = "@duration"})})},
    };
    assert_run(
        &s, keep,
        "nested={pairs=2, unmatched=1, replaced=0, dropped=0, keyless=0, open=0, "
        "rows={rows=[{item=\"inner\", ns=1000}, {item=\"outer\", ns=4000}], seen=2, dropped=0}}, "
        "flat={pairs=1, unmatched=2, replaced=1, dropped=0, keyless=0, open=0, "
        "rows={rows=[{item=\"inner\", ns=1000}], seen=1, dropped=0}}, "
        "per_thread={rows=[{thread=1, p={pairs=1, unmatched=2, replaced=1, dropped=0, keyless=0, open=0, ns=1000}}], "
        "keys=1, evicted=0, dropped=0}");
    shop_fini(&s);
}

/* A number and a text of one hash: what a slot kept of an earlier key is not taken for the key that it has now. */
static void a_number_and_a_text_of_one_hash(void **state)
{
    (void)state;
    shop s;
    shop_start(&s);
    shop_event(&s, BEGIN, 1000, 1, 0, "", 0, 0);
    shop_event(&s, END, 2000, 1, 0, "", 0, 0);
    shop_event(&s, BEGIN, 3000, 1, 1, "something long", 0, 0);
    shop_event(&s, END, 4000, 1, 0, "", 0, 0);
    shop_event(&s, BEGIN, 5000, 1, 0, "", 0, 0);
    shop_event(&s, END, 6000, 1, 1, "something long", 0, 0);
    shop_event(&s, END, 7000, 1, 0, "", 0, 0);
    const probe_spec keep[] = {{.name = "p",
                                .op = PROBE_PAIR,
                                .start = TEXTS("begin"),
                                .stop = TEXTS("end"),
                                .by = NAMED({"k", "if(id == 1, item, 1838219980264290966)"}),
                                KEEP({.name = "ns", .op = PROBE_SUM, .expr = "@duration"})}};
    assert_run(&s, keep, "p={pairs=3, unmatched=1, replaced=0, dropped=0, keyless=0, open=0, ns=6000}");
    shop_fini(&s);
}

static void slices_of_time(void **state)
{
    const probe_spec keep[] = {
        {.name = "line", .op = PROBE_TIMELINE, .every_ns = 100000000, KEEP({.name = "n", .op = PROBE_COUNT})},
        {.name = "short",
         .op = PROBE_TIMELINE,
         .every_ns = 20000000,
         .max = 2,
         .on = TEXTS("begin"),
         KEEP({.name = "n", .op = PROBE_COUNT})},
        {.name = "behind",
         .op = PROBE_FILTER,
         .on = TEXTS("begin"),
         .where = "cost >= 80",
         KEEP({.name = "n", .op = PROBE_COUNT})},
    };
    assert_run(*state, keep,
               "line={every_ns=100000000, dropped=0, buckets=[{at_ns=0, n=10}, {at_ns=100000000, n=9}, "
               "{at_ns=500000000, n=1}]}, "
               "short={every_ns=20000000, dropped=8, buckets=[{at_ns=0, n=1}, {at_ns=20000000, n=1}]}, behind={n=2}");
}

/* Keys that come once go, keys that come often stay; nothing is lost in the sum. */
static void eviction(void **state)
{
    (void)state;
    shop s;
    shop_start(&s);
    for (int i = 0; i < 300; i++)
        shop_event(&s, BEGIN, i * 1000LL, 1, i % 3 ? 1000 + i : 7, "x", 1, 0);
    const probe_spec keep[] = {
        {.name = "ids",
         .op = PROBE_GROUP,
         .by = NAMED({"id", "id"}),
         .max = 16,
         .top = 1,
         KEEP({.name = "n", .op = PROBE_COUNT}, {.name = "cost", .op = PROBE_SUM, .expr = "cost"})},
    };
    probe_program p = shop_program(keep, 1);
    char *got = shop_run(&s, &p, NULL);
    assert_memory_equal(got, "{ids={rows=[{id=7, n=100, cost=100}], keys=201, ", 47);
    assert_non_null(strstr(got, "other={keys=200, n=200, cost=200}"));
    free(got);
    shop_fini(&s);
}

/* Groups in groups, pairs and rows are merged into `other` with all they hold. */
static void merging(void **state)
{
    const probe_spec keep[] = {
        {.name = "ids",
         .op = PROBE_GROUP,
         .on = TEXTS("begin"),
         .by = NAMED({"id", "id"}),
         .weight = "cost",
         .top = 1,
         KEEP({.name = "items",
               .op = PROBE_GROUP,
               .by = NAMED({"item", "item"}),
               KEEP({.name = "n", .op = PROBE_COUNT})},
              {.name = "q", .op = PROBE_QUANTILES, .expr = "cost", .quantiles = (const double[]){50}, .n_quantiles = 1},
              {.name = "last", .op = PROBE_LAST, .n = 2, .row = NAMED({"id", "id"})},
              {.name = "most", .op = PROBE_MAX, .expr = "cost"},
              {.name = "kinds", .op = PROBE_DISTINCT, .expr = "item"})},
    };
    assert_run(
        *state, keep,
        "ids={rows=[{id=9, items={rows=[{item=\"tea\", n=1}], keys=1, evicted=0, dropped=0}, "
        "q={n=1, min=90, max=90, mean=90, p50=90, error=0}, last={rows=[{id=9}], seen=1, dropped=0}, most=90, "
        "kinds={n=1, exact=true, error=0}}], keys=10, evicted=0, dropped=0, other={keys=9, "
        "items={rows=[{item=\"fig\", n=3}, {item=\"rye\", n=3}, {item=\"tea\", n=3}], keys=3, evicted=0, dropped=0}, "
        "q={n=9, min=0, max=80, mean=40, p50=40, error=0}, last={rows=[{id=7}, {id=8}], seen=9, dropped=7}, most=80, "
        "kinds={n=3, exact=true, error=0}}}");
}

static void an_early_end(void **state)
{
    const probe_spec keep[] = {{.name = "n", .op = PROBE_COUNT}};
    probe_program p = shop_program(keep, 1);
    p.finish_on = (probe_texts)TEXTS("end");
    p.finish_where = "id > 2";
    p.finish_count = 2;
    char *got = shop_run(*state, &p, NULL);
    assert_non_null(strstr(got, "finished=true"));
    free(got);
    p.finish_count = 100;
    got = shop_run(*state, &p, NULL);
    assert_non_null(strstr(got, "finished=false"));
    free(got);
}

static void missing_fields_are_told(void **state)
{
    const probe_spec keep[] = {{.name = "s", .op = PROBE_SUM, .expr = "cost"},
                               {.name = "t", .op = PROBE_COUNT, .where = "colour == 1"}};
    probe_program p = shop_program(keep, 2);
    char *got = shop_run(*state, &p, NULL);
    assert_non_null(strstr(got,
                           "missing=[{event=\"Begin\", version=1, field=\"colour\", n=10}, {event=\"End\", version=1, "
                           "field=\"colour\", n=9}, {event=\"Bare\", version=2, field=\"cost\", n=1}, {event=\"Bare\", "
                           "version=2, field=\"colour\", n=1}]"));
    free(got);
}

/* Payloads that end within a text, after every number of bytes and with half a character too: what stands behind them
 * in the stream is no part of the text. */
static void texts_without_an_end(void **state)
{
    enum { ID = 4, MOST = 70 };
    (void)state;
    shop s;
    shop_start(&s);
    uint8_t payload[ID + MOST] = {0};
    memset(payload + ID, 'x', MOST);
    for (uint32_t n = 0; n <= MOST; n++) {
        shop_payload(&s, BEGIN, n * 1000LL, 1, slice_of(payload, ID + n));
        shop_event(&s, END, n * 1000LL + 500, 1, 0, "behind", 7, 0);
    }
    const probe_spec keep[] = {
        {.name = "items",
         .op = PROBE_GROUP,
         .on = TEXTS("begin"),
         .by = NAMED({"item", "item"}),
         KEEP({.name = "n", .op = PROBE_COUNT}, {.name = "sum", .op = PROBE_SUM, .expr = "cost"})},
        {.name = "longest", .op = PROBE_MAX, .on = TEXTS("begin"), .expr = "len(item)"},
    };
    probe_program p = shop_program(keep, 2);
    char *got = shop_run(&s, &p, NULL);
    assert_memory_equal(got, "{items={rows=[{n=71, sum=nil}]", 30);
    assert_non_null(strstr(got, "longest=nil"));
    assert_non_null(strstr(got, "field=\"item\", n=71"));
    free(got);
    shop_fini(&s);
}

static void the_memory_cap(void **state)
{
    (void)state;
    shop s;
    shop_start(&s);
    for (int i = 0; i < 3000; i++)
        shop_event(&s, BEGIN, i * 1000LL, 1, i, "something of a length", 1, 0);
    const probe_spec keep[] = {
        {.name = "n", .op = PROBE_COUNT},
        {.name = "ids",
         .op = PROBE_GROUP,
         .by = NAMED({"id", "id"}),
         .max = 100000,
         .top = 1,
         KEEP({.name = "n", .op = PROBE_COUNT})},
        {.name = "rows", .op = PROBE_LAST, .n = 100000, .row = NAMED({"item", "item"})},
    };
    probe_program p = shop_program(keep, 3);
    p.memory_max = (size_t)64 << 10;
    char *got = shop_run(&s, &p, NULL);
    assert_memory_equal(got, "{n=3000, ids={rows=[{id=", 24);
    assert_null(strstr(got, "refused=0"));
    assert_null(strstr(got, "n=3000}"));
    unsigned long long other = strtoull(strstr(got, "other={keys=") + 12, NULL, 10);
    assert_in_range(other, 100, 2999);
    char *seen = strstr(got, "], seen=3000, dropped=");
    assert_non_null(seen);
    assert_in_range(strtoull(seen + 22, NULL, 10), 1000, 3000);
    free(got);
    shop_fini(&s);
}

/* A field keeps only so many texts as symbols, and only short ones: groups, captures and rows are the same beyond. */
static void texts_without_symbols(void **state)
{
    enum { NAMES = 1500, ROUNDS = 3 };
    (void)state;
    shop s;
    shop_start(&s);
    char long_name[400];
    memset(long_name, 'l', sizeof long_name);
    for (int i = 0; i < NAMES * ROUNDS; i++) {
        char name[16];
        bool is_long = i % NAMES == NAMES - 1;
        (void)snprintf(name, sizeof name, "%.*s%d", i % NAMES % 7, "namename", i % NAMES);
        (void)snprintf(long_name + sizeof long_name - 8, 8, "%d", i % NAMES);
        shop_event(&s, BEGIN, i * 1000LL, 1, i, is_long ? long_name : name, 1, 0);
        shop_event(&s, END, i * 1000LL + 100, 1, i, "", 0, 0);
    }
    const probe_spec keep[] = {
        {.name = "names",
         .op = PROBE_GROUP,
         .on = TEXTS("begin"),
         .by = NAMED({"item", "item"}),
         .top = 1,
         KEEP({.name = "n", .op = PROBE_COUNT})},
        {.name = "pairs",
         .op = PROBE_PAIR,
         .start = TEXTS("begin"),
         .stop = TEXTS("end"),
         .by = NAMED({"id", "id"}),
         KEEP({.name = "names",
               .op = PROBE_GROUP,
               .by = NAMED({"item", "start.item"}),
               .max = 100000,
               .top = 1,
               .weight = "if(len(start.item) > 300, 2, 1)",
               KEEP({.name = "n", .op = PROBE_COUNT},
                    {.name = "same", .op = PROBE_COUNT, .where = "start.item == start.item"})})},
        {.name = "last", .op = PROBE_LAST, .on = TEXTS("begin"), .n = 2, .row = NAMED({"length", "len(item)"})},
    };
    probe_program p = shop_program(keep, 3);
    char *got = shop_run(&s, &p, NULL);
    assert_non_null(strstr(got, "n=3}], keys=1500, evicted=0, dropped=0, other={keys=1499, n=4497}}"));
    assert_non_null(
        strstr(got, "n=3, same=3}], keys=1500, evicted=0, dropped=0, other={keys=1499, n=4497, same=4497}}"));
    assert_non_null(strstr(got, "lll1499\", n=3, same=3"));
    assert_non_null(strstr(got, "last={rows=[{length=4}, {length=396}], seen=4500, dropped=4498}"));
    free(got);
    shop_fini(&s);
}

static void long_texts_are_cut(void **state)
{
    (void)state;
    shop s;
    char item[6001] = {0};
    memset(item, 'a', 6000);
    shop_start(&s);
    shop_event(&s, BEGIN, 1000, 1, 1, item, 1, 0);
    const probe_spec keep[] = {{.name = "v", .op = PROBE_VALUE, .expr = "item"}};
    probe_program p = shop_program(keep, 1);
    char *got = shop_run(&s, &p, NULL);
    assert_int_equal(strspn(got + 4, "a"), PROBE_TEXT_MAX / 2); /* UTF-16 in the stream */
    assert_memory_equal(got + 4 + PROBE_TEXT_MAX / 2, "...\"", 4);
    free(got);
    shop_fini(&s);
}

/* A program may keep more of a text in its rows, and less. */
static void texts_are_cut_where_the_program_says(void **state)
{
    (void)state;
    const uint32_t limits[] = {64, 8000};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        shop s;
        char item[6001] = {0};
        memset(item, 'a', 6000);
        shop_start(&s);
        shop_event(&s, BEGIN, 1000, 1, 1, item, 1, 0);
        const probe_spec keep[] = {{.name = "v", .op = PROBE_VALUE, .expr = "item"}};
        probe_program p = shop_program(keep, 1);
        p.text_max = limits[i];
        char *got = shop_run(&s, &p, NULL);
        assert_int_equal(strspn(got + 4, "a"), limits[i] / 2);
        assert_memory_equal(got + 4 + limits[i] / 2, "...\"", 4);
        free(got);
        shop_fini(&s);
    }
}

/* A full ring that meets the limit of its bytes goes on with fewer rows, the newest ones, in order. */
static void a_ring_that_is_too_large(void **state)
{
    (void)state;
    shop s;
    char item[1201] = {0};
    memset(item, 'b', 1200);
    shop_start(&s);
    for (int i = 0; i < 12000; i++)
        shop_event(&s, BEGIN, i * 1000LL, 1, i, i < 3000 ? "x" : item, 1, 0);
    const probe_spec keep[] = {
        {.name = "v", .op = PROBE_LAST, .n = 8000, .row = NAMED({"id", "id"}, {"item", "lower(item)"})}};
    probe_program p = shop_program(keep, 1);
    char *got = shop_run(&s, &p, NULL);
    long last = -1, n = 0;
    for (const char *at = got; *at; at++) { /* strstr looks at the whole text each time under the sanitizer */
        if (at[0] != '{' || at[1] != 'i' || at[2] != 'd' || at[3] != '=') continue;
        n++;
        long id = strtol(at + 4, NULL, 10);
        assert_true(id > last);
        last = id;
    }
    assert_int_equal(last, 11999);
    assert_in_range(n, 5000, 7900);
    assert_non_null(strstr(got, "seen=12000, dropped="));
    free(got);
    shop_fini(&s);
}

static void long_keys_are_cut(void **state)
{
    (void)state;
    shop s;
    char item[3001] = {0};
    memset(item, 'k', 3000);
    shop_start(&s);
    shop_event(&s, BEGIN, 1000, 1, 1, item, 1, 0);
    item[2999] = 'l';
    shop_event(&s, BEGIN, 2000, 1, 1, item, 1, 0);
    const probe_spec keep[] = {
        {.name = "g", .op = PROBE_GROUP, .by = NAMED({"k", "item"}), KEEP({.name = "n", .op = PROBE_COUNT})}};
    probe_program p = shop_program(keep, 1);
    char *got = shop_run(&s, &p, NULL);
    assert_non_null(strstr(got, "k...\", n=2}], keys=1"));
    free(got);
    shop_fini(&s);
}

static void stacks(void **state)
{
    (void)state;
    shop s;
    shop_start(&s);
    shop_stacks(&s, 2, (uint64_t[]){0x1000, 0x2000});
    for (int i = 0; i < 6; i++)
        shop_stack(&s, BEGIN, i * 1000LL, 1, i, i < 4 ? 1 : 2);
    shop_stack(&s, BEGIN, 9000, 1, 9, 0);
    const probe_spec keep[] = {
        {.name = "g", .op = PROBE_GROUP, .by = NAMED({"stack", "@stack"}), KEEP({.name = "n", .op = PROBE_COUNT})},
        {.name = "v", .op = PROBE_FIRST, .n = 1, .row = NAMED({"s", "@stack"})}};
    probe_program p = shop_program(keep, 2);
    char *got = shop_run(&s, &p, NULL);
    char *meta = strstr(got, ", meta=");
    assert_non_null(meta);
    *meta = 0;
    assert_string_equal(got, "{g={rows=[{stack=1, n=4}, {stack=2, n=2}, {n=1}], keys=3, evicted=0, dropped=0}, "
                             "v={rows=[{s=1}], seen=7, dropped=6}, "
                             "stacks=[{frames=[{address=\"0x1000\"}]}, {frames=[{address=\"0x2000\"}]}]");
    free(got);
    shop_fini(&s);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(numbers),
        T(rows),
        T(groups),
        T(pairs),
        T(nesting),
        T(a_number_and_a_text_of_one_hash),
        T(slices_of_time),
        T(eviction),
        T(merging),
        T(an_early_end),
        T(missing_fields_are_told),
        T(texts_without_an_end),
        T(the_memory_cap),
        T(texts_without_symbols),
        T(long_texts_are_cut),
        T(texts_are_cut_where_the_program_says),
        T(a_ring_that_is_too_large),
        T(long_keys_are_cut),
        T(stacks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
