/* SPDX-License-Identifier: MIT */
/* test_elf.c: functions and lines of this very program, and of copies of it that were stripped. */
#include <pthread.h>
#include <unistd.h>

#include "check.h"
#include "symbols/elf.h"

static char folder[] = "/tmp/lunette-elf-XXXXXX";

enum { MARKED_LINE = __LINE__ + 1 };
__attribute__((noinline, noipa)) static int marked_function(int x) { return x * 3 + 1; }
static int (*volatile marked)(int) = marked_function;

static void run(const char *fmt, ...)
{
    char command[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(command, sizeof command, fmt, args);
    va_end(args);
    if (system(command) != 0) fail_msg("failed: %s", command);
}

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder)) return -1;
    run("cp /proc/%d/exe '%s/whole'", (int)getpid(), folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    run("rm -rf '%s'", folder);
    return 0;
}

/* The offset in our file of an address of ours, by /proc/self/maps. */
static uint64_t offset_of(uintptr_t address)
{
    char line[512];
    unsigned long from, to, offset;
    FILE *f = fopen("/proc/self/maps", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) /* the first match: of one program there is no other */
        if (sscanf(line, "%lx-%lx %*s %lx", &from, &to, &offset) == 3 && address >= from && address < to) {
            fclose(f);
            return address - from + offset;
        }
    fclose(f);
    fail_msg("no map");
    return 0;
}

static sym_elf *open_elf(const char *name, const char *debug_root)
{
    char path[128];
    err e = {0};
    sym_elf *f = NULL;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (sym_elf_open(path, debug_root, &f, &e) < 0) fail_msg("%s", e.message);
    return f;
}

static void check_symbol(sym_elf *f, bool lines)
{
    uint64_t at = 0;
    sym_native n;
    sym_native_line l;
    assert_int_equal(marked(1), 4);
    assert_true(sym_elf_address(f, offset_of((uintptr_t)marked), &at));
    assert_true(sym_elf_find(f, at, &n));
    assert_string_equal(n.name, "marked_function");
    assert_int_equal(n.offset, 0);
    assert_true(n.size > 3);
    assert_true(sym_elf_find(f, at + 3, &n));
    assert_string_equal(n.name, "marked_function");
    assert_int_equal(n.offset, 3);
    assert_int_equal(sym_elf_line(f, at + 3, &l), lines);
    if (!lines) return;
    assert_int_equal(l.line, MARKED_LINE);
    assert_non_null(strstr(l.file, "test_elf.c"));
}

static void functions_and_lines_of_a_program(void **state)
{
    (void)state;
    uint64_t at = 0;
    sym_native n;
    sym_elf *f = open_elf("whole", "/nowhere");
    assert_true(sym_elf_symbols(f) > 20);
    assert_null(sym_elf_debug_file(f));
    check_symbol(f, true);
    assert_false(sym_elf_find(f, 0, &n));
    assert_false(sym_elf_find(f, UINT64_MAX, &n));
    assert_false(sym_elf_address(f, UINT64_MAX, &at));
    sym_elf_close(f);
}

static void a_debug_file_is_found_by_its_link(void **state)
{
    (void)state;
    run("cd '%s' && objcopy --only-keep-debug whole linked.dbg && objcopy --strip-all whole linked && "
        "objcopy --add-gnu-debuglink=linked.dbg linked",
        folder);
    sym_elf *f = open_elf("linked", "/nowhere");
    assert_non_null(strstr(sym_elf_debug_file(f), "/linked.dbg"));
    check_symbol(f, true);
    sym_elf_close(f);
    run("cd '%s' && mkdir .debug && mv linked.dbg .debug", folder);
    f = open_elf("linked", "/nowhere");
    assert_non_null(strstr(sym_elf_debug_file(f), "/.debug/linked.dbg"));
    check_symbol(f, true);
    sym_elf_close(f);
    run("cd '%s' && mkdir -p root/tmp && d=root$PWD && mkdir -p $d && mv .debug/linked.dbg $d", folder);
    char root[64];
    snprintf(root, sizeof root, "%s/root", folder);
    f = open_elf("linked", root);
    assert_non_null(sym_elf_debug_file(f));
    sym_elf_close(f);
}

static void a_debug_file_is_found_by_its_build_id(void **state)
{
    (void)state;
    char root[64], hex[2 * SYM_ELF_BUILD_ID_MAX + 1] = "";
    sym_elf *f = open_elf("whole", "/nowhere");
    slice id = sym_elf_build_id(f);
    for (size_t i = 0; i < id.n; i++)
        snprintf(hex + 2 * i, 3, "%02x", id.p[i]);
    assert_true(id.n >= 8);
    sym_elf_close(f);
    run("cd '%s' && objcopy --strip-all whole bare && mkdir -p d/.build-id/%.2s && objcopy --only-keep-debug whole "
        "d/.build-id/%.2s/%s.debug",
        folder, hex, hex, hex + 2);
    snprintf(root, sizeof root, "%s/d", folder);
    f = open_elf("bare", root);
    assert_non_null(sym_elf_debug_file(f));
    check_symbol(f, true);
    sym_elf_close(f);
}

static void a_debug_file_is_found_where_debuginfod_keeps_it(void **state)
{
    (void)state;
    char hex[2 * SYM_ELF_BUILD_ID_MAX + 1] = "", cache[512];
    sym_elf *f = open_elf("whole", "/nowhere");
    slice id = sym_elf_build_id(f);
    for (size_t i = 0; i < id.n; i++)
        snprintf(hex + 2 * i, 3, "%02x", id.p[i]);
    sym_elf_close(f);
    run("cd '%s' && objcopy --strip-all whole naked && mkdir -p cache/%s && objcopy --only-keep-debug whole "
        "cache/%s/debuginfo",
        folder, hex, hex);
    snprintf(cache, sizeof cache, "%s/cache", folder);
    setenv("DEBUGINFOD_CACHE_PATH", cache, 1);
    f = open_elf("naked", "/nowhere");
    unsetenv("DEBUGINFOD_CACHE_PATH");
    assert_non_null(sym_elf_debug_file(f));
    assert_non_null(strstr(sym_elf_debug_file(f), "/debuginfo"));
    sym_elf_close(f);
}

static void another_builds_debug_file_is_left_alone(void **state)
{
    (void)state;
    run("cd '%s' && cp whole other && objcopy --remove-section=.note.gnu.build-id --strip-all other && "
        "objcopy --only-keep-debug whole other.dbg && objcopy --add-gnu-debuglink=other.dbg other && echo x >> "
        "other.dbg",
        folder);
    sym_elf *f = open_elf("other", "/nowhere");
    uint64_t at = 0;
    sym_native n;
    sym_native_line l;
    assert_null(sym_elf_debug_file(f));
    assert_true(sym_elf_address(f, offset_of((uintptr_t)marked), &at));
    assert_false(sym_elf_find(f, at, &n) && strcmp(n.name, "marked_function") == 0);
    assert_false(sym_elf_line(f, at, &l));
    sym_elf_close(f);
}

static void symbols_without_debug_information_still_name(void **state)
{
    (void)state;
    run("cd '%s' && objcopy --strip-debug whole lean", folder);
    sym_elf *f = open_elf("lean", "/nowhere");
    check_symbol(f, false);
    sym_elf_close(f);
}

static void what_is_no_elf_is_told(void **state)
{
    (void)state;
    static const struct {
        const char *make;
        err_kind kind;
    } cases[] = {{"true", ERR_NOT_FOUND},
                 {"echo text > x", ERR_MALFORMED},
                 {": > x", ERR_MALFORMED},
                 {"rm x; mkdir x", ERR_NOT_FOUND}};
    char path[64];
    snprintf(path, sizeof path, "%s/x", folder);
    for (size_t i = 0; i < 4; i++) {
        sym_elf *f = NULL;
        err e = {0};
        run("cd '%s' && %s", folder, cases[i].make);
        assert_int_equal(sym_elf_open(path, NULL, &f, &e), -(int)cases[i].kind);
    }
}

static void a_file_cut_short_has_what_is_left(void **state)
{
    (void)state;
    for (int kb = 1; kb < 64; kb += 3) {
        char path[64];
        sym_elf *f = NULL;
        err e = {0};
        sym_native n;
        sym_native_line l;
        run("cd '%s' && head -c %dk whole > cut", folder, kb);
        snprintf(path, sizeof path, "%s/cut", folder);
        if (sym_elf_open(path, "/nowhere", &f, &e) < 0) continue;
        (void)sym_elf_find(f, 0x2000, &n);
        (void)sym_elf_line(f, 0x2000, &l);
        sym_elf_close(f);
    }
}

static void *look(void *arg)
{
    for (int i = 0; i < 50; i++)
        check_symbol(arg, true);
    return NULL;
}

static void threads_share_a_file(void **state)
{
    (void)state;
    pthread_t threads[4];
    sym_elf *f = open_elf("whole", "/nowhere");
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, look, f), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    sym_elf_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_and_lines_of_a_program),
        cmocka_unit_test(a_debug_file_is_found_by_its_link),
        cmocka_unit_test(a_debug_file_is_found_by_its_build_id),
        cmocka_unit_test(a_debug_file_is_found_where_debuginfod_keeps_it),
        cmocka_unit_test(another_builds_debug_file_is_left_alone),
        cmocka_unit_test(symbols_without_debug_information_still_name),
        cmocka_unit_test(what_is_no_elf_is_told),
        cmocka_unit_test(a_file_cut_short_has_what_is_left),
        cmocka_unit_test(threads_share_a_file),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
