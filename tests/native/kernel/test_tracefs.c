/* SPDX-License-Identifier: MIT */
/* test_tracefs.c: formats of tracepoints, and fields of records. */
#include "check.h"
#include "kernel/perf.h"

/* As /sys/kernel/tracing/events/sched/sched_switch/format and sched_process_exec have it (Linux 6.18). */
static const char SWITCH[] = "name: sched_switch\nID: 290\nformat:\n"
                             "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
                             "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
                             "\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n"
                             "\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n"
                             "\tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n\n"
                             "print fmt: \"prev_comm=%s prev_pid=%d\", REC->prev_comm, REC->prev_pid\n";
static const char EXEC[] = "name: sched_process_exec\nID: 7\nformat:\n"
                           "\tfield:__data_loc char[] filename;\toffset:8;\tsize:4;\tsigned:0;\n"
                           "\tfield:const char * ptr;\toffset:16;\tsize:8;\tsigned:0;\n";

static void fields_are_read_by_name(void **state)
{
    (void)state;
    tp_format f;
    err e = {0};
    assert_int_equal(tp_parse(slice_str(SWITCH), &f, &e), 0);
    assert_int_equal(f.id, 290);
    assert_string_equal(f.name, "sched_switch");
    assert_int_equal(f.n, 5);
    uint8_t raw[40] = {0};
    memcpy(raw + 8, "worker", 7);
    int32_t pid = -5;
    int64_t pstate = 2;
    memcpy(raw + 24, &pid, 4);
    memcpy(raw + 32, &pstate, 8);
    slice r = slice_of(raw, sizeof raw);
    assert_slice_str(tp_text(&f, tp_field_of(&f, "prev_comm"), r), "worker");
    assert_int_equal(tp_int(&f, tp_field_of(&f, "prev_pid"), r), -5);
    assert_int_equal(tp_int(&f, tp_field_of(&f, "prev_state"), r), 2);
    assert_int_equal(tp_int(&f, tp_field_of(&f, "prev_state"), slice_of(raw, 39)), 0);
    assert_int_equal(tp_field_of(&f, "next_pid"), -1);
    assert_int_equal(tp_int(&f, -1, r), 0);
    assert_string_equal(f.fields[2].type, "char");
}

static void a_dynamic_text_is_found_by_its_place(void **state)
{
    (void)state;
    tp_format f;
    err e = {0};
    assert_int_equal(tp_parse(slice_str(EXEC), &f, &e), 0);
    assert_true(f.fields[0].is_dynamic);
    assert_string_equal(f.fields[0].name, "filename");
    assert_string_equal(f.fields[1].name, "ptr");
    uint8_t raw[24] = {0};
    uint32_t loc = 6u << 16 | 16;
    memcpy(raw + 8, &loc, 4);
    memcpy(raw + 16, "/bin/a", 7);
    assert_slice_str(tp_text(&f, 0, slice_of(raw, sizeof raw)), "/bin/a");
    loc = 60u << 16 | 16;
    memcpy(raw + 8, &loc, 4);
    assert_int_equal(tp_text(&f, 0, slice_of(raw, sizeof raw)).n, 0);
}

static void what_is_no_format_is_refused(void **state)
{
    (void)state;
    tp_format f;
    err e = {0};
    assert_int_equal(tp_parse(SLICE_LIT("name: x\n"), &f, &e), -ERR_MALFORMED);
    err_clear(&e);
    assert_int_equal(tp_parse(SLICE_LIT("ID: 3\n\tfield:int a;\toffset:999999;\tsize:4;\n"), &f, &e), -ERR_MALFORMED);
}

static void without_tracefs_the_remedy_is_told(void **state)
{
    (void)state;
    tp_format f;
    err e = {0};
    assert_int_equal(tp_load("/nonexistent", "sched", "sched_switch", &f, &e), -ERR_NOT_SUPPORTED);
    assert_non_null(strstr(e.hint, "mount -t tracefs"));
}

static void this_kernel_says_how_its_events_lie(void **state)
{
    (void)state;
    tp_format f;
    err e = {0};
    int rc = tp_load("", "sched", "sched_switch", &f, &e);
    if (rc < 0) {
        print_message("skipped: %s\n", e.message);
        skip();
    }
    assert_true(tp_field_of(&f, "next_pid") > 0 && tp_field_of(&f, "prev_state") > 0);
    assert_int_equal(tp_load("", "sched", "no_such_event", &f, &e), -ERR_NOT_SUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_are_read_by_name),
        cmocka_unit_test(a_dynamic_text_is_found_by_its_place),
        cmocka_unit_test(what_is_no_format_is_refused),
        cmocka_unit_test(without_tracefs_the_remedy_is_told),
        cmocka_unit_test(this_kernel_says_how_its_events_lie),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
