/* SPDX-License-Identifier: MIT */
/* test_expressions.c: what expressions mean, and what is said about those that mean nothing. */
#include "kit.h"

/* The value of an expression for one event: thread 9, 5 us after the start, id 7, item "Tea Pot", cost 30, ratio 0.25.
 */
static char *value_of(const char *text)
{
    shop s;
    shop_start(&s);
    shop_event(&s, BEGIN, 5000, 9, 7, "Tea Pot", 30, 0.25);
    const probe_spec keep[] = {{.name = "v", .op = PROBE_VALUE, .expr = text}};
    probe_program p = shop_program(keep, 1);
    p.let = (probe_row)NAMED({"double", "cost * 2"}, {"quad", "double * 2"});
    char *got = shop_run(&s, &p, NULL), *end = strstr(got, ", stacks=");
    *end = 0;
    memmove(got, got + 3, strlen(got + 3) + 1); /* "{v=" */
    shop_fini(&s);
    return got;
}

static void values(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"id", "7"},
        {"`id`", "7"},
        {"item", "\"Tea Pot\""},
        {"cost", "30"},
        {"ratio", "0.25"},
        {"nothing", "nil"},
        {"@time", "5000"},
        {"@thread", "9"},
        {"@provider", "\"Shop\""},
        {"@event", "\"Begin\""},
        {"@id", "1"},
        {"@version", "1"},
        {"@size", "32"},
        {"@activity", "nil"},
        {"@stack", "nil"},
        {"@duration == null", NULL},
        {"12", "12"},
        {"0x1f", "31"},
        {"2.5", "2.5"},
        {"10ms", "10000000"},
        {"1.5us", "1500"},
        {"2s", "2000000000"},
        {"3ns", "3"},
        {"\"a\"", "\"a\""},
        {"'a'", "\"a\""},
        {"true", "true"},
        {"null", "nil"},
        {"1 + 2 * 3", "7"},
        {"(1 + 2) * 3", "9"},
        {"10 - 4 - 3", "3"},
        {"7 / 2", "3.5"},
        {"7 // 2", "3"},
        {"-7 // 2", "-4"},
        {"-7 % 3", "2"},
        {"7 % -3", "-2"},
        {"-id", "-7"},
        {"- - 3", "3"},
        {"1 / 0", "nil"},
        {"1 // 0", "nil"},
        {"1 % 0", "nil"},
        {"7.5 // 2", "3"},
        {"7.5 % 2", "1.5"},
        {"9223372036854775807 + 1", "9.223372037e+18"},
        {"1 << 4 | 3", "19"},
        {"cost & 14", "14"},
        {"cost >> 1", "15"},
        {"1 << 64", "0"},
        {"1 << -1", "nil"},
        {"ratio * 4", "1"},
        {"ratio + cost", "30.25"},
        {"id & ratio", "nil"},
        {"id == 7", "true"},
        {"id == 7.0", "true"},
        {"id != 7", "false"},
        {"id < 8 and cost > 8", "true"},
        {"id > 8 or cost > 8", "true"},
        {"not (id == 7)", "false"},
        {"not id == 8", "true"},
        {"id == item", "nil"},
        {"id < item", "nil"},
        {"nothing == null", "true"},
        {"nothing != 0", "nil"},
        {"nothing == 0", "nil"},
        {"null == nothing", "true"},
        {"nothing != null", "false"},
        {"id == null", "false"},
        {"null != null", "false"},
        {"nothing > 3", "nil"},
        {"nothing + 1", "nil"},
        {"nothing and false", "false"},
        {"nothing or true", "true"},
        {"nothing and true", "nil"},
        {"not nothing", "nil"},
        {"1 and true", "nil"},
        {"item == \"Tea Pot\"", "true"},
        {"item == \"Tea\"", "false"},
        {"item < \"Teb\"", "true"},
        {"item >= \"Tea Pot\"", "true"},
        {"\"a\" < \"b\"", "true"},
        {"@event == \"Begin\"", "true"},
        {"@event == item", "false"},
        {"if(id == 7, 1, 2)", "1"},
        {"if(nothing, 1, 2)", "2"},
        {"coalesce(nothing, null, cost)", "30"},
        {"coalesce(nothing)", "nil"},
        {"min(id, cost)", "7"},
        {"max(id, 8.5)", "8.5"},
        {"min(id, nothing)", "nil"},
        {"abs(-3)", "3"},
        {"abs(-3.5)", "3.5"},
        {"floor(3.7)", "3"},
        {"floor(-3.2)", "-4"},
        {"exp(0)", "1"},
        {"floor(exp(1) * 1000)", "2718"},
        {"exp(item)", "nil"},
        {"bit(cost, 2)", "true"},
        {"bit(cost, 1)", "false"},
        {"len(item)", "7"},
        {"len(@event)", "5"},
        {"lower(item)", "\"tea pot\""},
        {"sql(item)", "\"Tea Pot\""},
        {"sql(\"SELECT  a FROM t WHERE b = 'secret' AND c < 12\")",
         "\"SELECT a FROM t WHERE b = <redacted:literal> AND c < <redacted:literal>\""},
        {"sql(id)", "nil"},
        {"starts(item, \"Tea\")", "true"},
        {"starts(item, \"tea\")", "false"},
        {"starts(item, \"\")", "true"},
        {"ends(item, \"Pot\")", "true"},
        {"ends(item, \"Tea\")", "false"},
        {"contains(item, \"a P\")", "true"},
        {"contains(item, \"x\")", "false"},
        {"contains(id, \"7\")", "nil"},
        {"like(item, \"Tea Pot\")", "true"},
        {"like(item, \"tea pot\")", "false"},
        {"like(lower(item), \"tea*\")", "true"},
        {"like(item, \"Tea\")", "false"},
        {"like(item, \"*Pot\")", "true"},
        {"like(item, \"*Po\")", "false"},
        {"like(item, \"*a*o*\")", "true"},
        {"like(item, \"*t*t*\")", "false"},
        {"like(item, \"??? ???\")", "true"},
        {"like(item, \"??????\")", "false"},
        {"like(item, \"*\")", "true"},
        {"like(item, \"\")", "false"},
        {"like(\"\", \"*\")", "true"},
        {"like(\"\", \"?\")", "false"},
        {"like(\"aXbXbc\", \"a*Xbc\")", "true"},
        {"like(id, \"7\")", "nil"},
        {"hex(255)", "\"0xff\""},
        {"hex(item)", "nil"},
        {"number(\"42\")", "42"},
        {"number(\"4.5\")", "4.5"},
        {"number(item)", "nil"},
        {"number(\"99999999999999999999\")", "1e+20"},
        {"number(\"0x10\")", "nil"},
        {"number(id)", "7"},
        {"double", "60"},
        {"quad + 1", "121"},
        {"enum(id)", "\"7\""},
        {"9223372036854775807", "9223372036854775807"},
        {"-9223372036854775807 - 1", "-9223372036854775808"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!cases[i][1]) continue;
        char *got = value_of(cases[i][0]);
        if (strcmp(got, cases[i][1]) != 0) fail_msg("%s is %s, not %s", cases[i][0], got, cases[i][1]);
        free(got);
    }
}

static void mistakes(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", "v: in the expression \"\" at character 1: something is missing at the end"},
        {"1 +", "something is missing at the end"},
        {"(1", "a ')' is missing"},
        {"1 2", "something is left over"},
        {"1 ++ 2", "this is no expression"},
        {"#", "this is no expression"},
        {"\"a", "this is no expression"},
        {"12abc", "this is no expression"},
        {"99999999999999999999", "this is no expression"},
        {"@tiem", "there is no @tiem (there are @time"},
        {"foo(1)", "there is no function foo (there are if coalesce"},
        {"len()", "len has too few arguments"},
        {"len(1, 2)", "len has too many arguments"},
        {"len(1", "a ')' is missing behind the arguments of len"},
        {"enum(1)", "enum() takes a field of the event itself"},
        {"@duration", "@duration is only known below a pair"},
        {"start.`x`", "'start.' is only known below a pair"},
        {"start.@time", "'start.' is only known below a pair"},
        {"loop", "without end"},
        {"broken", "something is missing at the end"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const probe_spec keep[] = {{.name = "v", .op = PROBE_VALUE, .expr = cases[i][0]}};
        probe_program p = shop_program(keep, 1);
        p.let = (probe_row)NAMED({"loop", "loop + 1"}, {"broken", "1 +"});
        char *got = shop_error(&p);
        if (!strstr(got, cases[i][1])) fail_msg("%s: \"%s\" does not say \"%s\"", cases[i][0], got, cases[i][1]);
        free(got);
    }
}

static void limits(void **state)
{
    (void)state;
    char *deep = calloc(1, 300), *wide = calloc(1, 6000);
    memset(deep, '(', 100);
    deep[100] = '1';
    memset(deep + 101, ')', 100);
    for (int i = 0; i < 1000; i++)
        memcpy(wide + 5 * (size_t)i, "1+1+ ", 5);
    wide[5000] = '1';
    const char *const texts[] = {deep, wide};
    const char *const says[] = {"nested too deep", "longer than 4096 bytes"};
    for (int i = 0; i < 2; i++) {
        const probe_spec keep[] = {{.name = "v", .op = PROBE_VALUE, .expr = texts[i]}};
        probe_program p = shop_program(keep, 1);
        char *got = shop_error(&p);
        assert_non_null(strstr(got, says[i]));
        free(got);
    }
    wide[4000] = '1'; /* within the limit: a thousand and six hundred operators in a row */
    wide[4001] = 0;
    char *got = value_of(wide);
    assert_string_equal(got, "1601");
    free(got);
    free(deep);
    free(wide);
}

static void declarations(void **state)
{
    (void)state;
    const struct {
        probe_spec spec;
        const char *says;
    } cases[] = {
        {{.name = "x", .op = PROBE_SUM}, "x: the expression is missing"},
        {{.name = "x", .op = PROBE_LAST, .n = 3}, "x: the row is missing"},
        {{.name = "x", .op = PROBE_LAST, .row = NAMED({"a", "id"})}, "x: the number of rows is missing"},
        {{.name = "x", .op = PROBE_GROUP, KEEP({.name = "n", .op = PROBE_COUNT})}, "x: 'by' is missing"},
        {{.name = "x", .op = PROBE_GROUP, .by = NAMED({"a", "id"})}, "x: 'keep' is missing"},
        {{.name = "x", .op = PROBE_PAIR, .start = TEXTS("begin")}, "x: 'stop' is missing"},
        {{.name = "x", .op = PROBE_TIMELINE, KEEP({.name = "n", .op = PROBE_COUNT})}, "x: 'every' is missing"},
        {{.name = "x", .op = PROBE_COUNT, .on = TEXTS("nobody")}, "x: there is no event 'nobody' in the program"},
        {{.name = "", .op = PROBE_COUNT}, "a reducer has no name"},
        {{.name = "x", .op = PROBE_QUANTILES, .expr = "id", .quantiles = (const double[]){101}, .n_quantiles = 1},
         "x: a percentile is 0 to 100"},
        {{.name = "x",
          .op = PROBE_PAIR,
          .start = TEXTS("begin"),
          .stop = TEXTS("end"),
          KEEP({.name = "n", .op = PROBE_COUNT, .on = TEXTS("end")})},
         "n: 'on' cannot be below a pair"},
        {{.name = "x",
          .op = PROBE_PAIR,
          .start = TEXTS("begin"),
          .stop = TEXTS("end"),
          .by = NAMED({"a", "id"}, {"b", "cost"}),
          .by_stop = NAMED({"a", "id"})},
         "x: both sides of 'by' must have as many keys"},
        {{.name = "x", .op = PROBE_EACH, .row = NAMED({"s", "@stack"})}, "x: a row of each() cannot have a stack"},
        {{.name = "x",
          .op = PROBE_GROUP,
          .by = NAMED({"a", "id"}),
          KEEP({.name = "n", .op = PROBE_COUNT}, {.name = "n", .op = PROBE_COUNT})},
         "two reducers are called 'n'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        probe_program p = shop_program(&cases[i].spec, 1);
        char *got = shop_error(&p);
        if (!strstr(got, cases[i].says)) fail_msg("\"%s\" does not say \"%s\"", got, cases[i].says);
        free(got);
    }
    const probe_spec keep[] = {{.name = "n", .op = PROBE_COUNT}};
    probe_program p = shop_program(keep, 1);
    const probe_named bad[] = {{"a", "NoSlash"}};
    p.events = bad;
    p.n_events = 1;
    char *got = shop_error(&p);
    assert_non_null(strstr(got, "\"NoSlash\" is not PROVIDER/EVENT"));
    free(got);
    p = shop_program(NULL, 0);
    got = shop_error(&p);
    assert_non_null(strstr(got, "the program keeps nothing"));
    free(got);
}

/* ---- keys of a list of arguments --------------------------------------------------------------------------------- */
static void put_field(buf *out, const char *name, slice type)
{
    buf b = {0};
    buf_init(&b, 0);
    tw_utf16z(&b, name);
    buf_slice(&b, type);
    buf_u32(out, (uint32_t)b.n + 4);
    buf_slice(out, buf_view(&b));
    buf_fini(&b);
}

/* A kind of event as DiagnosticSource writes it: a text, then a list of pairs of texts that are named first and second.
 */
static void put_listener(tw *w, const char *first, const char *second)
{
    buf pair = {0}, type = {0}, fields = {0}, tags = {0};
    const slice text = slice_of("\x12\0\0\0", 4);
    buf_init(&pair, 0);
    buf_init(&type, 0);
    buf_init(&fields, 0);
    buf_init(&tags, 0);
    put_field(&pair, first, text);
    put_field(&pair, second, text);
    buf_u32(&type, 19);
    buf_u32(&type, 1);
    buf_u32(&type, 2);
    buf_slice(&type, buf_view(&pair));
    buf_u32(&fields, 2);
    put_field(&fields, "EventName", text);
    put_field(&fields, "Arguments", buf_view(&type));
    buf_u32(&tags, (uint32_t)fields.n);
    buf_u8(&tags, 2);
    buf_slice(&tags, buf_view(&fields));
    tw_begin(w, TW_METADATA);
    tw_put_kind(w, 1, "Shop", 1, "Begin", 1, slice_of("\0\0\0\0", 4), buf_view(&tags));
    tw_end(w);
    buf_fini(&pair);
    buf_fini(&type);
    buf_fini(&fields);
    buf_fini(&tags);
}

static char *argument_of(const char *expr, const char *first, const char *second)
{
    shop s = {0};
    buf b = {0};
    buf_init(&b, 0);
    tw_utf16z(&b, "Started");
    static const char *const pairs[] = {"Path", "/a", "Ticks", "1200", "Empty", "", "odd.name", "dotted", "Path", "/b"};
    buf_u16(&b, 5);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        tw_utf16z(&b, pairs[i]);
    for (tw *w = &s.w; w; w = w == &s.w ? &s.waiting : NULL) {
        tw_start(w, false, false);
        put_listener(w, first, second);
        tw_begin(w, TW_EVENTS);
        tw_put_event(w,
                     &(tw_event){.kind = 1, .seq = 1, .thread = 9, .capture = 9, .ts = 1500, .payload = buf_view(&b)});
        tw_end(w);
    }
    const probe_spec keep[] = {{.name = "v", .op = PROBE_VALUE, .expr = expr}};
    probe_program p = shop_program(keep, 1);
    char *got = shop_run(&s, &p, NULL);
    buf_fini(&b);
    shop_fini(&s);
    return got;
}

static void arguments(void **state)
{
    (void)state;
    static const char *const cases[][4] = {
        {"Arguments.Path", "Key", "Value", "{v=\"/b\""}, /* the last one counts */
        {"Arguments.Ticks", "Key", "Value", "{v=\"1200\""},
        {"number(Arguments.Ticks) / 10", "Key", "Value", "{v=120"},
        {"Arguments.Empty == ''", "Key", "Value", "{v=true"},
        {"`Arguments.odd.name`", "Key", "Value", "{v=\"dotted\""},
        {"Arguments.Nothing == null", "Key", "Value", "{v=true"},
        {"coalesce(Arguments.path, EventName)", "Key", "Value", "{v=\"Started\""},
        {"EventName", "Key", "Value", "{v=\"Started\""},
        {"Arguments == null", "Key", "Value", "{v=true"},
        {"Arguments.Path == null", "Name", "Value", "{v=true"}, /* some other list: it has no keys */
        {"Arguments.Path == null", "Key", "Text", "{v=true"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *got = argument_of(cases[i][0], cases[i][1], cases[i][2]);
        if (strncmp(got, cases[i][3], strlen(cases[i][3])) != 0)
            fail_msg("%s is not %s but %s", cases[i][0], cases[i][3], got);
        free(got);
    }
    char *got = argument_of("Arguments.Nothing", "Key", "Value"); /* what was not given is not missing */
    assert_non_null(strstr(got, "missing=[]"));
    free(got);
    got = argument_of("Other.Path", "Key", "Value");
    assert_non_null(strstr(got, "field=\"Other.Path\""));
    free(got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values), cmocka_unit_test(mistakes),     cmocka_unit_test(arguments),
        cmocka_unit_test(limits), cmocka_unit_test(declarations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
