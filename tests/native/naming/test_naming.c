/* SPDX-License-Identifier: MIT */
/* test_naming.c: code of this very program, of its libraries, of the kernel and of a JIT's map is named. */
#include <dlfcn.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "check.h"
#include "naming/naming.h"
#include "naming/naming_internal.h"
#include "symbols/kallsyms.h"

int naming_test_here(int x);
__attribute__((noinline)) int naming_test_here(int x) { return x * 3 + 1; }

static void functions_of_this_program_and_its_libraries(void **state)
{
    (void)state;
    err e = {0};
    uw_memory memory = {uw_read_process, (void *)(intptr_t)getpid()};
    uw_space *s = uw_space_new(&memory);
    assert_int_equal(uw_space_load(s, getpid(), &e), 0);
    naming *n = naming_new(s, getpid());
    naming_name name;
    assert_true(naming_find(n, (uintptr_t)naming_test_here + 1, 0, &name));
    assert_int_equal(name.kind, NAMING_NATIVE);
    assert_true(slice_eq_str(name.method, "naming_test_here") && slice_eq_str(name.module, "test_naming") &&
                name.symbol);
    assert_true(naming_find(n, (uintptr_t)naming_test_here + 1, 0, &name)); /* remembered */
    assert_true(slice_eq_str(name.method, "naming_test_here"));
    void *getpid_of_libc = dlsym(RTLD_DEFAULT, "getppid");
    assert_true(naming_find(n, (uintptr_t)getpid_of_libc, 0, &name));
    assert_true(slice_starts(name.module, SLICE_LIT("libc")));
    assert_false(naming_find(n, 0x10, 0, &name));
    assert_true(name.kind == NAMING_UNKNOWN && slice_eq_str(name.method, "0x10") && slice_eq_str(name.module, "?"));
    naming_free(n);
    uw_space_free(s);
}

static void the_page_that_the_kernel_gives_every_process(void **state)
{
    (void)state;
    err e = {0};
    uint64_t vdso = getauxval(AT_SYSINFO_EHDR), at = 0;
    if (!vdso) skip();
    uw_memory memory = {uw_read_process, (void *)(intptr_t)getpid()};
    uw_space *s = uw_space_new(&memory);
    assert_int_equal(uw_space_load(s, getpid(), &e), 0);
    naming *n = naming_new(s, getpid());
    naming_name name;
    bool found = false;
    for (at = vdso; at < vdso + 4096 && !found; at += 16) {
        assert_true(naming_find(n, at, 0, &name));
        assert_true(name.kind == NAMING_NATIVE && slice_eq_str(name.module, "[vdso]"));
        found = name.symbol && memmem(name.method.p, name.method.n, "clock_gettime", 13) != NULL;
    }
    assert_true(found);
    naming_free(n);
    uw_space_free(s);
}

static void addresses_of_the_kernel(void **state)
{
    (void)state;
    err e = {0};
    naming *n = naming_new(NULL, getpid());
    naming_name name;
    (void)naming_find(n, SYM_KERNEL_SPACE + 0x1234, 0, &name);
    assert_true(name.kind == NAMING_KERNEL && !name.symbol && slice_eq_str(name.module, "[kernel]"));
    if (naming_kernel(n, &e) < 0) {
        assert_true(e.kind == ERR_PERMISSION_DENIED || e.kind == ERR_NOT_FOUND);
    } else {
        uint64_t at = naming_kernel_address(n, SLICE_LIT("schedule"));
        assert_true(at >= SYM_KERNEL_SPACE && at == naming_kernel_address(n, SLICE_LIT("schedule")));
        assert_true(naming_find(n, at + 1, 0, &name) && name.symbol);
    }
    naming_free(n);
}

static void the_map_of_another_jit(void **state)
{
    (void)state;
    slice name;
    naming__jit *j =
        naming__jit_parse(SLICE_LIT("1000 40 Main(int32)[Tier0]\n0x2000 10 stub with blanks\n3000 0 nothing\n"
                                    "junk\n1000 40 Main(int32)[Tier1]"));
    assert_int_equal(naming__jit_count(j), 3);
    assert_true(naming__jit_find(j, 0x103f, &name) && slice_eq_str(name, "Main(int32)[Tier1]")); /* the last one told */
    assert_true(naming__jit_find(j, 0x2000, &name) && slice_eq_str(name, "stub with blanks"));
    assert_false(naming__jit_find(j, 0x1040, &name));
    assert_false(naming__jit_find(j, 0xfff, &name));
    naming__jit_free(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_of_this_program_and_its_libraries),
        cmocka_unit_test(the_page_that_the_kernel_gives_every_process),
        cmocka_unit_test(addresses_of_the_kernel),
        cmocka_unit_test(the_map_of_another_jit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
