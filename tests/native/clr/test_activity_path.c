/* SPDX-License-Identifier: MIT */
/* test_activity_path.c: paths of activity ids: those that runtimes wrote, and those of an encoder written here from the
 * format, with and without the byte too many of runtimes before .NET 10. */
#include "check.h"
#include "clr/activity_path.h"

#define SEED 0x599D99ADu
#define PID  4711u

/* ---- an encoder ---- */
typedef struct encoder {
    uint8_t guid[16];
    uint32_t half;
    bool old; /* with the byte too many */
    bool full;
} encoder;

static void put_half(encoder *w, uint32_t value)
{
    if (w->half >= 24) {
        w->full = true;
        return;
    }
    w->guid[w->half / 2] |= (uint8_t)(w->half % 2 ? value : value << 4);
    w->half++;
}

static void put_number(encoder *w, uint32_t id)
{
    uint32_t n = id <= 0xFF ? 1 : id <= 0xFFFF ? 2 : id <= 0xFFFFFF ? 3 : 4;
    bool high = w->half % 2 == 0;
    if (high && id < 4096) {
        put_half(w, 0xC);
        put_half(w, id >> 8);
        n = w->old ? n : 1;
        id &= 0xFF;
    } else {
        put_half(w, 0xC + n - 1);
        if (high) put_half(w, 0);
    }
    for (; n; n--, id >>= 8) {
        put_half(w, id >> 4 & 0xF);
        put_half(w, id & 0xF);
    }
}

static void put(encoder *w, char mark, uint32_t id)
{
    if (mark == '$') put_half(w, 0xB);
    if (mark == '/' && id > 0 && id <= 10)
        put_half(w, id);
    else
        put_number(w, id);
}

static void put_word(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> 8 * i);
}

static void seal(encoder *w, uint32_t pid)
{
    uint32_t sum = SEED;
    for (int i = 0; i < 12; i++)
        sum += (uint32_t)w->guid[i] << 8 * (i % 4);
    put_word(w->guid + 12, sum ^ pid);
}

/* Encodes a path as text, "//1/300$7/". */
static encoder encoded(const char *path, bool old)
{
    encoder w = {.old = old};
    const char *p = path + 1;
    while (p[0] && p[1]) {
        char *end;
        char mark = *p;
        put(&w, mark, (uint32_t)strtoul(p + 1, &end, 10));
        p = end;
    }
    seal(&w, PID);
    return w;
}

static void check(const encoder *w, const char *want)
{
    char out[ACTIVITY_PATH_SIZE];
    uint32_t pid = 0;
    assert_int_equal(activity_path_text(w->guid, out, &pid), strlen(want));
    assert_string_equal(out, want);
    if (*want) assert_int_equal(pid, PID);
}

/* ---- tests ---- */
static void paths_of_real_runtimes(void **state)
{
    (void)state;
    char out[ACTIVITY_PATH_SIZE];
    uint32_t pid = 0;
    /* 0000101c-0000-0000-0000-000019c59d59, .NET 10, process 27856; activity 16 of the process */
    static const uint8_t root[16] = {0x1c, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x19, 0xc5, 0x9d, 0x59};
    assert_int_equal(activity_path_text(root, out, &pid), 7);
    assert_string_equal(out, "//1/16/");
    assert_int_equal(pid, 27856);
    assert_int_equal(activity_path_text(root, out, NULL), 7);
}

static void every_path_comes_back(void **state)
{
    (void)state;
    static const char *const paths[] = {"//1/1/",
                                        "//1/10/",
                                        "//1/11/",
                                        "//1/255/1/",
                                        "//1/256/",
                                        "//1/4095/3/",
                                        "//1/4096/3/",
                                        "//1/2/300/4/5/",
                                        "//1/2/4095/1/",
                                        "//1/2/256/",
                                        "//1/2/70000/9/",
                                        "//1/16777216/3/",
                                        "//1/1/1/1/1/1/1/1/1/1/1/1/1/1/",
                                        "//1/5$300/",
                                        "//1$7/",
                                        "//1/2/3$4095/",
                                        "//1/2/3$70000/",
                                        "//1/2/300/400/5/",
                                        "//1/2/768/1/",
                                        "//1/0/"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        for (int old = 0; old < 2; old++) {
            encoder w = encoded(paths[i], old);
            assert_false(w.full);
            check(&w, paths[i]);
        }
    }
}

static void the_byte_too_many_is_there_and_skipped(void **state)
{
    (void)state;
    encoder w = encoded("//1/2/300/4/", true), now = encoded("//1/2/300/4/", false);
    assert_memory_equal(w.guid, "\x12\xC1\x2C\x00\x40\x00", 6);
    assert_memory_equal(now.guid, "\x12\xC1\x2C\x40\x00\x00", 6);
}

static void what_is_no_path_is_none(void **state)
{
    (void)state;
    char out[ACTIVITY_PATH_SIZE] = "x";
    static const uint8_t nothing[16];
    assert_int_equal(activity_path_text(nothing, out, NULL), 0);
    assert_string_equal(out, "");
    encoder w = encoded("//1/2/", false);
    w.guid[15] ^= 0x40; /* the sum */
    check(&w, "");
    w = (encoder){0};
    seal(&w, PID); /* an empty list */
    check(&w, "");
    static const char *const bad[] = {"\x10\x00\x10", "\xB1", "\x1B\x20", "\x01",
                                      "\x10\x01"}; /* holes; 0xB without a number */
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        w = (encoder){0};
        memcpy(w.guid, bad[i], i == 0 ? 3 : i == 1 || i == 3 ? 1 : 2);
        seal(&w, PID);
        check(&w, "");
    }
    w = (encoder){0};
    memset(w.guid, 0x11, 12);
    w.guid[11] = 0x1F; /* four bytes follow, behind the end */
    seal(&w, PID);
    check(&w, "");
    memset(w.guid, 0x11, 12);
    w.guid[11] = 0x1B;
    seal(&w, PID);
    check(&w, "");
    memset(w.guid, 0, 12);
    w.guid[0] = 0xD1;
    w.guid[1] = 2;
    w.guid[2] = 3;
    seal(&w, PID);
    check(&w, "");
}

static void the_longest_path_fits(void **state)
{
    (void)state;
    encoder w = {0};
    memset(w.guid, 0xAA, 12); /* 24 times 10 */
    seal(&w, PID);
    char out[ACTIVITY_PATH_SIZE];
    assert_int_equal(activity_path_text(w.guid, out, NULL), 1 + 24 * 3 + 1);
}

static void a_process_id_is_within_what_linux_gives(void **state)
{
    (void)state;
    encoder w = {0};
    char out[ACTIVITY_PATH_SIZE];
    uint32_t pid = 1;
    put(&w, '/', 1);
    seal(&w, 0); /* a runtime that does not add it */
    assert_true(activity_path_text(w.guid, out, &pid) > 0);
    assert_int_equal(pid, 0);
    seal(&w, 0x400001);
    assert_int_equal(activity_path_text(w.guid, out, &pid), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(paths_of_real_runtimes),
                                       cmocka_unit_test(every_path_comes_back),
                                       cmocka_unit_test(the_byte_too_many_is_there_and_skipped),
                                       cmocka_unit_test(what_is_no_path_is_none),
                                       cmocka_unit_test(the_longest_path_fits),
                                       cmocka_unit_test(a_process_id_is_within_what_linux_gives)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
