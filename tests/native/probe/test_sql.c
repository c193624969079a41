/* SPDX-License-Identifier: MIT */
/* test_sql.c: statements without their values, in the dialects that they may be of. */
#include "check.h"
#include "probe/engine.h"

#define L "<redacted:literal>"

static void check(const char *sql, const char *want)
{
    uint8_t out[4000];
    uint32_t n = probe__sql_plain(slice_str(sql), out, sizeof out);
    if (n != strlen(want) || memcmp(out, want, n) != 0)
        fail_msg("%s\n  is %.*s\n not %s", sql, (int)n, (char *)out, want);
}

static void values_go_and_names_stay(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", ""},
        {"SELECT 1", "SELECT " L},
        {"SELECT \"b\".\"Id\", \"b\".\"Name\"\r\nFROM \"Blogs\" AS \"b\"\nWHERE \"b\".\"Id\" = @__id_0",
         "SELECT \"b\".\"Id\", \"b\".\"Name\" FROM \"Blogs\" AS \"b\" WHERE \"b\".\"Id\" = @__id_0"},
        {"SELECT [b].[Id] FROM [Blog Posts] AS [b] WHERE [b].[Name] = N'secret'",
         "SELECT [b].[Id] FROM [Blog Posts] AS [b] WHERE [b].[Name] = " L},
        {"select `a`.`b` from `a` where `b` = \"secret\" # secret\n and c = 'it\\'s' ",
         "select `a`.`b` from `a` where `b` = " L " and c = " L},
        {"WHERE a='it''s' AND b=''", "WHERE a=" L " AND b=" L},
        {"WHERE \"p\".\"BlogId\" = \"b\".\"Id\"", "WHERE \"p\".\"BlogId\" = \"b\".\"Id\""},
        {"WHERE Name = \"secret\" AND x > \"secret\"", "WHERE Name = " L " AND x > " L},
        {"x LIKE \"secret\" OR x BETWEEN \"a\" AND 'b'", "x LIKE " L " OR x BETWEEN " L " AND " L},
        {"INSERT INTO \"T\" (\"A\", \"B\") VALUES (\"secret\", \"two\"), (\"x\", 'y')",
         "INSERT INTO \"T\" (\"A\", \"B\") VALUES (" L ", " L "), (" L ", " L ")"},
        {"INTO \"T\" VALUES (lower(\"s\"), 3) RETURNING \"Id\"",
         "INTO \"T\" VALUES (lower(" L "), " L ") RETURNING \"Id\""},
        {"x IN (\"a\",'b',3) AND \"t\".\"y\" = 1", "x IN (" L "," L "," L ") AND \"t\".\"y\" = " L},
        {"x IN (SELECT \"Id\" FROM \"T\")", "x IN (SELECT \"Id\" FROM \"T\")"},
        {"SELECT -- secret\n a /* sec /* re */ t */ FROM t", "SELECT a FROM t"},
        {"SELECT a /* secret", "SELECT a"},
        {"-12.5e+3 0x1F .5 1_000 t1 x.5", "-" L " " L " " L " " L " t1 x." L},
        {"@p0 $1 :name :1 ? ?2 a::int", "@p0 $1 :name :1 ? ?2 a::int"},
        {"$$secret$$ $t$sec $$ ret$t$", L " " L},
        {"a = $$x$$ AND b = $u$never ends", "a = " L},
        {"AS $$ secret $$ LANGUAGE sql", "AS " L " LANGUAGE sql"},
        {"x$$secret$$ FROM t", L},
        /* a quote too many or too few: all from the first text on is left out */
        {"a = 'ok' AND n = 'O'Brien secret' AND x = 'y'", "a = " L},
        {"n = it's a secret, x = 'abc' OR y = 1", "n = " L},
        {"n = 'Rock 'n' Roll secret' AND x = 2", "n = " L},
        {"n = 'x ', secret ' AND b = 'z'", "n = " L},
        {"n = 'x' secret", "n = " L},
        {"n = 'x'; secret'", "n = " L},
        {"a = 1 AND n = 'x'5 secret", "a = " L " AND n = " L},
        {"n = \"x\" AND m = \"it is\"secret\"", "n = " L},
        {"n = `x`secret`", "n = " L},
        {"q'[it's secret]' FROM dual", L},
        {"a='x'AND b='y'ORDER BY c", "a=" L "AND b=" L "ORDER BY c"},
        {"CASE WHEN a = 'x' THEN 'y' ELSE 'z' END", "CASE WHEN a = " L " THEN " L " ELSE " L " END"},
        {"SELECT 'a' || 'b' AS c, 'd' COLLATE nocase", "SELECT " L " || " L " AS c, " L " COLLATE nocase"},
        {"N'a', N'b', date '2020-01-01' AT TIME ZONE 'x'", L ", " L ", date " L " AT TIME ZONE " L},
        /* double quotes are texts where nothing shows that they are names, and in what is compared */
        {"SELECT \"secret\", lower(\"secret\")", "SELECT " L ", lower(" L ")"},
        {"SELECT \"Id\" FROM \"T\" WHERE \"a\" = lower(\"secret\", x, \"s\") AND \"b\" IS NULL",
         "SELECT \"Id\" FROM \"T\" WHERE \"a\" = lower(" L ", x, " L ") AND \"b\" IS NULL"},
        {"SELECT \"T\".\"a\" || \"secret\"", "SELECT \"T\".\"a\" || " L},
        {"SELECT a # secret\n FROM #temp", "SELECT a FROM #temp"},
        {"E'a\\'secret', x'ff', _utf8'secret', U&'secret'", L ", " L ", " L ", U&" L},
        {"a = 'C:\\' OR b = secret", "a = " L}, /* which dialect? all that follows may be the text */
        {"a = 'C:\\temp' OR b = 1", "a = " L " OR b = " L},
        {"a = 'unterminated", "a = " L},
        {"a = \"unterminated", "a = " L},
        {"\"a secret, with marks!\"", L},
        {"[not a name!", L},
        {"arr[1]", "arr[" L "]"},
        {"CREATE USER x IDENTIFIED BY secret", "CREATE USER x IDENTIFIED BY " L},
        {"WITH PASSWORD \"secret\"", "WITH PASSWORD " L},
        {"UPDATE \"T\" SET \"Name\" = @p0 WHERE \"Id\" = @p1", "UPDATE \"T\" SET \"Name\" = @p0 WHERE \"Id\" = @p1"},
        {"a\xC3\xA9 = '\xF0\x9F\x98\x80'", "a\xC3\xA9 = " L},
        {"  a \t\n b ", "a b"},
        {"LIKE'secret'", "LIKE" L},
        {")))(((", ")))((("},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check(cases[i][0], cases[i][1]);
}

static void what_does_not_fit_is_cut_between_tokens(void **state)
{
    (void)state;
    const char *sql = "SELECT \xC3\xA9\xC3\xA9 FROM t WHERE a = 'secret'";
    uint8_t out[64];
    for (uint32_t cap = 4; cap <= 60; cap++) {
        memset(out, '#', sizeof out);
        uint32_t n = probe__sql_plain(slice_str(sql), out, cap);
        assert_in_range(n, 3, cap);
        assert_int_equal(out[cap], '#');
        if (cap < 50) assert_memory_equal(out + n - 3, "...", 3);
        for (uint32_t i = 0; i < n; i++)
            assert_int_not_equal(out[i], 's'); /* of the secret */
    }
    assert_int_equal(probe__sql_plain(slice_str(sql), out, 4), 3);
    assert_int_equal(probe__sql_plain(slice_str("SELECT a, b"), out, 12), 12);
    assert_memory_equal(out, "SELECT a,...", 12);
}

/* ---- planted secrets --------------------------------------------------------------------------------------------- */
#define SECRET "q7Zk"

static uint32_t random_below(uint64_t *state, uint32_t n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % n;
}

static void add(char *sql, size_t cap, const char *s)
{
    size_t n = strlen(sql);
    assert_true(n + strlen(s) < cap);
    memcpy(sql + n, s, strlen(s) + 1);
}

static void hidden(const char *sql)
{
    uint8_t out[4000];
    uint32_t n = probe__sql_plain(slice_str(sql), out, sizeof out);
    if (memmem(out, n, SECRET, sizeof SECRET - 1)) fail_msg("%s\n  is %.*s", sql, (int)n, (char *)out);
}

/* A text of any dialect, wherever a value may stand, with other texts around it. */
static void no_text_of_any_dialect_comes_out(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "'" SECRET "'",
        "N'" SECRET "'",
        "n'it''s " SECRET "'",
        "E'it\\'s " SECRET "'",
        "e'\\\\" SECRET "'",
        "U&'\\0041" SECRET "'",
        "x'" SECRET "'",
        "_utf8mb4'" SECRET "'",
        "B'" SECRET "'",
        "$$it's " SECRET "$$",
        "$tag$ $$ " SECRET " $tag$",
        "'a\n" SECRET "\n'",
        "'-- " SECRET "'",
        "'/* " SECRET " */'",
        "'\"" SECRET "\"'",
        "'' /* " SECRET " */",
        "'' -- " SECRET "\n",
        "'' # " SECRET "\n",
        "'a' '" SECRET "'",
        "'a'\n'" SECRET "'",
        "CAST('" SECRET "' AS text)",
        "lower('" SECRET "')",
        "0xABCD" SECRET,
        "12" SECRET,
        "1.5e" SECRET,
        "\"" SECRET "\"",
        "\"it's " SECRET "\"",
        "lower(\"" SECRET "\")",
        "concat(a, \"" SECRET "\")",
        "'`" SECRET "`'",
        "'[" SECRET "]'",
        "DATE'" SECRET "'",
        "q'[" SECRET "]'",
        "'\xC3\xA9 " SECRET "'",
    };
    static const char *const places[][2] = {
        {"SELECT a FROM t WHERE a = ", " AND b = 'other'"},
        {"SELECT [a].[b] FROM [a] WHERE [a].[b] = ", ""},
        {"SELECT \"a\".\"b\" FROM \"a\" WHERE \"b\" = ", " ORDER BY \"a\".\"b\""},
        {"select `a` from `t` where `b` = ", " limit 3"},
        {"INSERT INTO t (a, b) VALUES ('x', ", "), ('y', 2)"},
        {"UPDATE t SET a = ", ", b = @p1 WHERE c = 'z'"},
        {"SELECT a FROM t WHERE a IN (1, ", ")"},
        {"SELECT CASE WHEN a = 1 THEN ", " ELSE 'n' END"},
        {"EXEC dbo.p @a = ", ", @b = N'x'"},
        {"SELECT a FROM t WHERE a LIKE ", " ESCAPE '!'"},
        {"SELECT a FROM t WHERE a BETWEEN ", " AND 'z'"},
        {"CREATE USER u IDENTIFIED BY ", ""},
        {"ALTER LOGIN l WITH PASSWORD = ", ""},
    };
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
        for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
            char sql[400] = "";
            add(sql, sizeof sql, places[p][0]);
            add(sql, sizeof sql, texts[t]);
            add(sql, sizeof sql, places[p][1]);
            hidden(sql);
        }
    }
}

/* What somebody typed, put between quotes as it is: its own quote breaks the statement. */
static void nothing_of_a_broken_statement_comes_out(void **state)
{
    (void)state;
    static const char *const bits[] = {"a ",  SECRET, " ",  ", ", ";",  " AND ", "b",  "(", ")",
                                       " = ", "5",    "--", "/*", "\"", "N",     "$$", "[", "."};
    static const char *const heads[] = {"SELECT a FROM t WHERE x = 'ok' AND y = '",
                                        "SELECT \"t\".\"a\" FROM \"t\" WHERE y = N'", "INSERT INTO [t] ([a]) VALUES ('",
                                        "select `a` from `t` where y = '"};
    static const char *const tails[] = {"'", "' AND z = 'w'", "', 'w')", "' ORDER BY a"};
    uint64_t seed = 1;
    for (int round = 0; round < 20000; round++) {
        char sql[600] = "";
        uint32_t n = 1 + random_below(&seed, 10), stray = random_below(&seed, n + 1);
        add(sql, sizeof sql, heads[random_below(&seed, 4)]);
        for (uint32_t i = 0; i <= n; i++) {
            if (i == stray) add(sql, sizeof sql, "'");
            if (i < n) add(sql, sizeof sql, bits[random_below(&seed, sizeof bits / sizeof *bits)]);
        }
        add(sql, sizeof sql, tails[random_below(&seed, 4)]);
        hidden(sql);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_go_and_names_stay),
        cmocka_unit_test(no_text_of_any_dialect_comes_out),
        cmocka_unit_test(nothing_of_a_broken_statement_comes_out),
        cmocka_unit_test(what_does_not_fit_is_cut_between_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
