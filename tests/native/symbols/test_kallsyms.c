/* SPDX-License-Identifier: MIT */
/* test_kallsyms.c: names of the kernel's functions; where functions of a name lie in a file. */
#include <dlfcn.h>
#include <sys/mman.h>

#include "check.h"
#include "symbols/elf.h"
#include "symbols/kallsyms.h"

static void a_function_reaches_to_the_next_one(void **state)
{
    (void)state;
    sym_kallsyms *k;
    slice name, module;
    slice text = SLICE_LIT(
        "ffffffff81000010 t second\nffffffff81000000 T _text\nffffffff81000000 T alias\nffffffff82000000 D data\n"
        "ffffffffc0001000 t handler\t[some_driver]\n0000000000000000 T hidden\nnonsense\nffffffff81000020 W weak");
    assert_int_equal(sym_kallsyms_parse(text, &k, NULL), 0);
    assert_int_equal(sym_kallsyms_count(k), 5);
    assert_true(sym_kallsyms_find(k, 0xffffffff8100000f, &name, &module));
    assert_true(slice_eq_str(name, "_text") && module.n == 0);
    assert_true(sym_kallsyms_find(k, 0xffffffff81000010, &name, &module) && slice_eq_str(name, "second"));
    assert_true(sym_kallsyms_find(k, 0xffffffff81000021, &name, &module) && slice_eq_str(name, "weak"));
    assert_true(sym_kallsyms_find(k, 0xffffffffc0001234, &name, &module));
    assert_true(slice_eq_str(name, "handler") && slice_eq_str(module, "some_driver"));
    assert_false(sym_kallsyms_find(k, 0x1000, &name, &module));
    assert_true(sym_kallsyms_address(k, SLICE_LIT("second")) == 0xffffffff81000010);
    assert_true(sym_kallsyms_address(k, SLICE_LIT("sec")) == 0);
    sym_kallsyms_close(k);
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    for (long fail = 0, fired = 1; fired; fail++) {
        sym_kallsyms *k = NULL;
        err e = {0};
        mem_fail_at(fail);
        int rc = sym_kallsyms_parse(SLICE_LIT("ffffffff81000000 T _text\n"), &k, &e);
        fired = mem_failed();
        mem_fail_at(-1);
        assert_int_equal(rc, fired ? -ERR_NO_MEMORY : 0);
        if (rc == 0) sym_kallsyms_close(k);
    }
}

static void a_file_that_is_not_there_is_not_found(void **state)
{
    (void)state;
    sym_kallsyms *k;
    err e = {0};
    assert_int_equal(sym_kallsyms_open("/nonexistent/kallsyms", &k, &e), -ERR_NOT_FOUND);
}

/* malloc of the C library that this program runs with: the bytes at its place in the file are those in memory. */
static void a_function_is_found_by_its_name(void **state)
{
    (void)state;
    Dl_info info = {0};
    void *address = dlsym(RTLD_DEFAULT, "malloc");
    if (!address || !dladdr(address, &info) || !strstr(info.dli_fname, "libc.so")) skip(); /* a sanitizer's */
    static const char *const names[] = {"malloc", "no_such_function", "calloc"};
    uint64_t offsets[3];
    sym_elf *f = NULL;
    uint8_t bytes[16];
    assert_int_equal(sym_elf_open(info.dli_fname, NULL, &f, NULL), 0);
    sym_elf_named(f, names, 3, offsets);
    sym_elf_close(f);
    assert_true(offsets[0] && !offsets[1] && offsets[2]);
    FILE *file = fopen(info.dli_fname, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, (long)offsets[0], SEEK_SET), 0);
    assert_int_equal(fread(bytes, 1, sizeof bytes, file), sizeof bytes);
    fclose(file);
    assert_memory_equal(bytes, address, sizeof bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_function_reaches_to_the_next_one),
        cmocka_unit_test(each_allocation_may_fail),
        cmocka_unit_test(a_file_that_is_not_there_is_not_found),
        cmocka_unit_test(a_function_is_found_by_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
