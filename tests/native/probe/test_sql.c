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
        {"VALUES (lower(\"s\"), 3) RETURNING \"Id\"", "VALUES (lower(" L "), " L ") RETURNING \"Id\""},
        {"x IN (\"a\",'b',3) AND \"y\" = 1", "x IN (" L "," L "," L ") AND \"y\" = " L},
        {"x IN (SELECT \"Id\" FROM \"T\")", "x IN (SELECT \"Id\" FROM \"T\")"},
        {"SELECT -- secret\n a /* sec /* re */ t */ FROM t", "SELECT a FROM t"},
        {"SELECT a /* secret", "SELECT a"},
        {"-12.5e+3 0x1F .5 1_000 t1 x.5", "-" L " " L " " L " " L " t1 x." L},
        {"@p0 $1 :name :1 ? ?2 a::int", "@p0 $1 :name :1 ? ?2 a::int"},
        {"$$secret$$ $t$sec $$ ret$t$ $u$never ends", L " " L " " L},
        {"E'a\\'secret' x'ff' _utf8'secret' U&'secret'", L " " L " " L " U&" L},
        {"a = 'C:\\' OR b = secret", "a = " L}, /* which dialect? all that follows may be the text */
        {"a = 'C:\\temp' OR b = 1", "a = " L " OR b = " L},
        {"a = 'unterminated", "a = " L},
        {"a = \"unterminated", "a = " L},
        {"\"a secret, with marks!\"", L},
        {"[not a name!", L},
        {"arr[1]", "arr[" L "]"},
        {"CREATE USER x IDENTIFIED BY secret", "CREATE USER x IDENTIFIED BY " L},
        {"WITH PASSWORD \"secret\"", "WITH PASSWORD " L},
        {"SET \"Name\" = @p0 WHERE \"Id\" = @p1", "SET \"Name\" = @p0 WHERE \"Id\" = @p1"},
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_go_and_names_stay),
        cmocka_unit_test(what_does_not_fit_is_cut_between_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
