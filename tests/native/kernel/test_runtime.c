/* SPDX-License-Identifier: MIT */
/* test_runtime.c: which process runs which kind of .NET. */
#include <unistd.h>

#include "fixtures.h"

static void maps_name_the_runtime(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        bool coreclr, jit, mono;
    } cases[] = {
        {"7f00-7f01 r-xp 00000000 08:01 11 /x/libcoreclr.so", true, false, false},
        {"7f00-7f01 r-xp 00000000 08:01 11 /x/libclrjit.so (deleted)", false, true, false},
        {"7f00-7f01 r-xp 00000000 08:01 11 /usr/lib/libmonosgen-2.0.so.1", false, false, true},
        {"7f00-7f01 r-xp 00000000 08:01 11 /x/libcoreclr_extra.so", false, false, false},
        {"7f00-7f01 rw-p 00000000 00:00 0 [heap]", false, false, false},
        {"", false, false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kn_maps m = {0};
        kn_parse_maps(slice_str(cases[i].line), &m);
        assert_int_equal(m.coreclr, cases[i].coreclr);
        assert_int_equal(m.clrjit, cases[i].jit);
        assert_int_equal(m.mono, cases[i].mono);
    }
}

static void the_fixture_runs_coreclr(void **state)
{
    (void)state;
    kn_runtime r;
    kn_maps m;
    err e = {0};
    assert_int_equal(kn_runtime_of(fixture("v2"), 42, &r, &m, &e), 0);
    assert_int_equal(r, KN_RT_CORECLR);
    assert_true(m.clrjit);
    assert_string_equal(m.coreclr_path, "/usr/share/dotnet/shared/Microsoft.NETCore.App/10.0.0/libcoreclr.so");
    assert_string_equal(kn_runtime_name(r), "coreclr");
    assert_int_equal(kn_runtime_of(fixture("v2"), 4242, &r, &m, &e), -ERR_PROCESS_NOT_FOUND);
    assert_int_equal(kn_runtime_of("", getpid(), &r, &m, NULL), 0);
    assert_int_equal(r, KN_RT_NONE);
}

/* ---- ELF: a file built in memory
 * --------------------------------------------------------------------------------------------- */
typedef struct file {
    uint8_t bytes[1024];
    size_t n;
} file;

static long file_read(void *arg, uint64_t off, void *to, size_t n)
{
    file *f = arg;
    if (off >= f->n) return 0;
    if (n > f->n - off) n = f->n - (size_t)off;
    memcpy(to, f->bytes + off, n);
    return (long)n;
}

static void put(file *f, size_t at, uint64_t v, size_t n) { memcpy(f->bytes + at, &v, n); }

/* Three sections: none, the names, and one called name that holds content. */
static file elf_with(const char *name, const char *content, size_t content_n)
{
    file f = {.n = sizeof f.bytes};
    char names[64];
    int names_n = snprintf(names, sizeof names, "%c.shstrtab%c%s", 0, 0, name) + 1;
    memcpy(f.bytes, "\177ELF\2\1\1", 7);
    put(&f, 40, 64, 8); /* section table */
    put(&f, 58, 64, 2); /* its entry size */
    put(&f, 60, 3, 2);  /* entries */
    put(&f, 62, 1, 2);  /* of which the names */
    put(&f, 64 + 64, 1, 4);
    put(&f, 64 + 64 + 24, 300, 8);
    put(&f, 64 + 64 + 32, (uint64_t)names_n, 8);
    put(&f, 64 + 128, 11, 4);
    put(&f, 64 + 128 + 24, 400, 8);
    put(&f, 64 + 128 + 32, content_n, 8);
    memcpy(f.bytes + 300, names, (size_t)names_n);
    memcpy(f.bytes + 400, content, content_n);
    return f;
}

static void an_elf_file_tells_native_aot_and_single_file_apart(void **state)
{
    (void)state;
    file aot = elf_with("__managedcode", "", 0), aot2 = elf_with(".dynstr", "\0DotNetRuntimeDebugHeader", 26),
         single = elf_with(".dynstr", "\0DotNetRuntimeInfo\0DotNetRuntimeDebugHeader", 44),
         none = elf_with(".dynstr", "\0printf", 8), other = elf_with(".text", "\0DotNetRuntimeInfo", 19);
    assert_int_equal(kn_elf_runtime(file_read, &aot), KN_RT_NATIVE_AOT);
    assert_int_equal(kn_elf_runtime(file_read, &aot2), KN_RT_NATIVE_AOT);
    assert_int_equal(kn_elf_runtime(file_read, &single), KN_RT_SINGLE_FILE);
    assert_int_equal(kn_elf_runtime(file_read, &none), KN_RT_NONE);
    assert_int_equal(kn_elf_runtime(file_read, &other), KN_RT_NONE);
}

static void a_cut_or_wild_elf_file_is_none(void **state)
{
    (void)state;
    file f = elf_with("__managedcode", "", 0);
    for (size_t n = 0; n < 320; n++) { /* the name ends at 325 */
        f.n = n;
        assert_int_equal(kn_elf_runtime(file_read, &f), KN_RT_NONE);
    }
    f.n = sizeof f.bytes;
    put(&f, 62, 3, 2); /* the names are past the table */
    assert_int_equal(kn_elf_runtime(file_read, &f), KN_RT_NONE);
    put(&f, 62, 1, 2);
    put(&f, 40, UINT64_MAX - 5, 8); /* the table is beyond the end */
    assert_int_equal(kn_elf_runtime(file_read, &f), KN_RT_NONE);
    put(&f, 40, 64, 8);
    put(&f, 64 + 128, UINT32_MAX, 4); /* a name beyond the names */
    assert_int_equal(kn_elf_runtime(file_read, &f), KN_RT_NONE);
    put(&f, 60, 0xffff, 2); /* too many sections */
    assert_int_equal(kn_elf_runtime(file_read, &f), KN_RT_NONE);
}

static void a_scan_lists_processes_that_run_dotnet(void **state)
{
    (void)state;
    kn_scan s;
    err e = {0};
    assert_int_equal(kn_scan_dotnet(fixture("v2"), &s, &e), 0);
    assert_int_equal(s.seen, 3);
    assert_int_equal(s.n, 1);
    const kn_proc *p = &s.rows[0];
    assert_int_equal(p->pid, 42);
    assert_int_equal(p->nspid, 7);
    assert_int_equal(p->uid, 1001);
    assert_int_equal(p->start_time, 98765);
    assert_int_equal(p->runtime, KN_RT_CORECLR);
    assert_true(slice_eq_str(p->cmdline, "/usr/bin/dotnet /app/My App.dll --name=\xef\xbf\xbdx"));
    kn_scan_fini(&s);
    assert_int_equal(kn_scan_dotnet("/nowhere", &s, &e), -ERR_NOT_FOUND);
}

static void a_scan_survives_every_failed_allocation(void **state)
{
    (void)state;
    for (long n = 0, fired = 1; fired; n++) {
        kn_scan s;
        err e = {0};
        mem_fail_at(n);
        int rc = kn_scan_dotnet(fixture("v2"), &s, &e);
        fired = mem_failed();
        mem_fail_at(-1);
        if (rc == 0)
            kn_scan_fini(&s);
        else
            assert_int_equal(rc, -ERR_NO_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(maps_name_the_runtime),
        cmocka_unit_test(the_fixture_runs_coreclr),
        cmocka_unit_test(an_elf_file_tells_native_aot_and_single_file_apart),
        cmocka_unit_test(a_cut_or_wild_elf_file_is_none),
        cmocka_unit_test(a_scan_lists_processes_that_run_dotnet),
        cmocka_unit_test(a_scan_survives_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, fixtures_make, fixtures_remove);
}
