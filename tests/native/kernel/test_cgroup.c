/* SPDX-License-Identifier: MIT */
/* test_cgroup.c: cgroup v2, v1 and none told apart, their values, and a note for each file that is missing. */
#include <unistd.h>

#include "fixtures.h"

static bool noted(const kn_notes *n, const char *text)
{
    for (uint32_t i = 0; i < n->n; i++)
        if (strstr(n->text[i], text)) return true;
    return false;
}

static void membership_tells_the_version(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        kn_cgroup_version v;
        bool hybrid;
    } cases[] = {
        {"0::/a\n", KN_CGROUP_V2, false},
        {"1:name=systemd:/x\n0::/a\n", KN_CGROUP_V2, false},
        {"2:cpu,cpuacct:/x\n0::/a\n", KN_CGROUP_V1, true},
        {"2:memory:/x\n", KN_CGROUP_V1, false},
        {"3:freezer:/x\n", KN_CGROUP_NONE, false},
        {"", KN_CGROUP_NONE, false},
        {"0:/a\nnonsense\n::\n", KN_CGROUP_NONE, false},
        {"0::relative\n", KN_CGROUP_NONE, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kn_cgroup_ids ids;
        kn_parse_cgroup_ids(slice_str(cases[i].text), &ids);
        assert_int_equal(ids.version, cases[i].v);
        assert_int_equal(ids.hybrid, cases[i].hybrid);
    }
    kn_cgroup_ids ids;
    kn_parse_cgroup_ids(slice_str("4:cpuset,cpu,memory:/a:b\n"), &ids); /* a colon may stand in a path */
    assert_string_equal(ids.memory, "/a:b");
}

static void mountinfo_finds_the_hierarchy(void **state)
{
    (void)state;
    kn_mount m;
    slice text = SLICE_LIT("20 1 0:5 / /proc rw - proc proc rw\n"
                           "30 20 0:26 /kube\\040pods /sys/fs/cg\\134x rw shared:4 master:2 - cgroup2 cgroup2 rw\n"
                           "31 20 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n");
    assert_true(kn_find_mount(text, NULL, &m));
    assert_string_equal(m.root, "/kube pods");
    assert_string_equal(m.point, "/sys/fs/cg\\x");
    assert_true(kn_find_mount(text, "cpuacct", &m));
    assert_string_equal(m.point, "/sys/fs/cgroup/cpu");
    assert_false(kn_find_mount(text, "memory", &m));
    assert_false(kn_find_mount(slice_str("1 2 3 / /x rw - cgroup2\n- - -\n"), "cpu", &m));
}

static void values_are_parsed_or_unknown(void **state)
{
    (void)state;
    kn_num q, p;
    assert_true(kn_parse_cpu_max(slice_str("50000 100000\n"), &q, &p));
    assert_int_equal(q.v, 50000);
    assert_int_equal(p.v, 100000);
    assert_true(kn_parse_cpu_max(slice_str("max 100000\n"), &q, &p));
    assert_false(q.known);
    assert_false(kn_parse_cpu_max(slice_str("50000 0\n"), &q, &p));
    assert_false(kn_parse_cpu_max(slice_str("x"), &q, &p));
    assert_int_equal(kn_keyed(slice_str("max 3\noom_kill 9\n"), "oom_kill").v, 9);
    assert_false(kn_keyed(slice_str("oom 1\n"), "oom_kill").known);
    assert_false(kn_keyed(slice_str("oom_kill x\n"), "oom_kill").known);
    assert_true(kn_parse_limit(slice_str("max\n")).unlimited);
    assert_int_equal(kn_parse_limit(slice_str("100\n")).v, 100);
    assert_false(kn_parse_limit(slice_str("100 x\n")).known);
    kn_psi psi;
    kn_parse_psi(
        slice_str("some avg10=1.25 avg60=nan avg300=0.0 total=1\nother avg10=9.0\nfull avg10=100.00 total=2\n"), &psi);
    assert_true(psi.some10.known && psi.some10.v == 1.25);
    assert_false(psi.some60.known);
    assert_true(psi.full10.known && psi.full10.v == 100.0);
    assert_false(psi.full60.known);
}

static void v2_is_filled_from_its_files(void **state)
{
    (void)state;
    kn_cgroup g;
    err e = {0};
    assert_int_equal(kn_cgroup_of(fixture("v2"), 42, &g, &e), 0);
    assert_int_equal(g.version, KN_CGROUP_V2);
    assert_true(g.in_container);
    assert_string_equal(g.path, "/kubepods/pod1/app");
    assert_int_equal(g.usage_usec.v, 5000000);
    assert_int_equal(g.nr_periods.v, 200);
    assert_int_equal(g.nr_throttled.v, 30);
    assert_int_equal(g.throttled_usec.v, 1500000);
    assert_int_equal(g.quota_usec.v, 50000);
    assert_int_equal(g.mem_current.v, 966367641);
    assert_int_equal(g.mem_max.v, 1073741824);
    assert_false(g.mem_high.known);
    assert_true(g.mem_fraction.v > 0.8999 && g.mem_fraction.v < 0.9001);
    assert_int_equal(g.oom_kills.v, 1);
    assert_int_equal(g.max_hits.v, 7);
    assert_int_equal(g.pids_current.v, 19);
    assert_int_equal(g.pids_max.v, 100);
    assert_true(g.cpu_psi.some10.v == 12.5 && g.mem_psi.full10.v == 1.75 && g.io_psi.some60.v == 0.2);
    assert_false(g.psi_is_host);
    assert_int_equal(g.oom_score.v, 667);
    assert_int_equal(g.notes.n, 0);
}

static void a_limit_of_an_ancestor_counts(void **state)
{
    (void)state;
    kn_cgroup g;
    err e = {0};
    assert_int_equal(kn_cgroup_of(fixture("v2-ancestor"), 42, &g, &e), 0);
    assert_int_equal(g.quota_usec.v, 200000);
    assert_int_equal(g.nr_periods.v, 1000);
    assert_int_equal(g.usage_usec.v, 10);
    assert_int_equal(g.mem_current.v, 100);
    assert_int_equal(g.mem_max.v, 1000);
    assert_true(g.mem_fraction.v == 0.5);
    assert_true(noted(&g.notes, "CPU quota and its throttling are those of the ancestor cgroup /kubepods/pod1"));
    assert_true(noted(&g.notes, "memory limit is that of the ancestor cgroup /kubepods/pod1"));
    assert_false(g.pids_max.known);
    assert_true(g.has_psi && g.psi_is_host);
    assert_true(noted(&g.notes, "pressure is that of the whole machine"));
}

static void another_container_is_read_through_its_root_and_gaps_are_noted(void **state)
{
    (void)state;
    kn_cgroup g;
    err e = {0};
    assert_int_equal(kn_cgroup_of(fixture("v2-bare"), 42, &g, &e), 0);
    assert_int_equal(g.version, KN_CGROUP_V2);
    assert_true(g.in_container);
    assert_int_equal(g.mem_current.v, 4096);
    assert_false(g.has_cpu);
    assert_false(g.quota_usec.known);
    assert_false(g.mem_max.known);
    assert_false(g.mem_fraction.known);
    assert_false(g.has_psi);
    assert_false(g.oom_score.known);
    static const char *const missing[] = {
        "cpu.stat is missing",      "cpu.max is missing",      "memory.max is missing", "memory.high is missing",
        "memory.events is missing", "pids.current is missing", "no pressure files",     "oom_score"};
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++)
        if (!noted(&g.notes, missing[i])) fail_msg("no note about: %s", missing[i]);
}

static void a_hierarchy_that_is_not_mounted_is_v2_with_a_note(void **state)
{
    (void)state;
    kn_cgroup g;
    err e = {0};
    assert_int_equal(kn_cgroup_of(fixture("v2-lost"), 42, &g, &e), 0);
    assert_int_equal(g.version, KN_CGROUP_V2);
    assert_true(g.in_container);
    assert_false(g.has_memory);
    assert_true(noted(&g.notes, "cgroup v2 /system.slice/app.service is not mounted where we could read it"));
}

static void v1_is_told_and_its_values_are_read(void **state)
{
    (void)state;
    kn_cgroup g;
    err e = {0};
    assert_int_equal(kn_cgroup_of(fixture("v1"), 42, &g, &e), 0);
    assert_int_equal(g.version, KN_CGROUP_V1);
    assert_true(g.hybrid);
    assert_false(g.in_container);
    assert_string_equal(g.path, "/docker/abc");
    assert_int_equal(g.quota_usec.v, 25000);
    assert_int_equal(g.usage_usec.v, 2000);
    assert_int_equal(g.nr_throttled.v, 4);
    assert_int_equal(g.throttled_usec.v, 7000);
    assert_int_equal(g.mem_current.v, 1000);
    assert_false(g.mem_max.known); /* the largest page multiple means: no limit */
    assert_int_equal(g.oom_kills.v, 2);
    assert_int_equal(g.max_hits.v, 3);
    assert_int_equal(g.pids_current.v, 5);
    assert_true(noted(&g.notes, "cgroup v1 (hybrid"));
}

static void no_cgroup_is_none_with_a_note(void **state)
{
    (void)state;
    kn_cgroup g;
    err e = {0};
    assert_int_equal(kn_cgroup_of(fixture("none"), 42, &g, &e), 0);
    assert_int_equal(g.version, KN_CGROUP_NONE);
    assert_false(g.in_container);
    assert_false(g.has_cpu || g.has_memory || g.has_pids || g.has_psi);
    assert_true(noted(&g.notes, "in no cgroup"));
    assert_int_equal(g.oom_score.v, 667);
    assert_int_equal(kn_cgroup_of(fixture("none"), 4242, &g, &e), -ERR_PROCESS_NOT_FOUND);
}

static void this_machine_answers(void **state)
{
    (void)state;
    kn_cgroup g;
    err e = {0};
    assert_int_equal(kn_cgroup_of("", getpid(), &g, &e), 0);
    bool v2_file = access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0;
    if (v2_file) assert_int_equal(g.version, KN_CGROUP_V2);
    if (access("/sys/fs/cgroup/memory/memory.usage_in_bytes", F_OK) == 0) {
        assert_int_equal(g.version, KN_CGROUP_V1);
        assert_true(g.has_memory && g.mem_current.v > 0);
    }
    assert_true(g.oom_score.known);
}

static void notes_past_the_cap_are_counted(void **state)
{
    (void)state;
    static kn_notes n;
    for (int i = 0; i < KN_NOTES_MAX + 3; i++)
        kn_note(&n, "note %d", i);
    assert_int_equal(n.n, KN_NOTES_MAX);
    assert_int_equal(n.dropped, 3);
    assert_string_equal(n.text[KN_NOTES_MAX - 1], "note 23");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(membership_tells_the_version),
        cmocka_unit_test(mountinfo_finds_the_hierarchy),
        cmocka_unit_test(values_are_parsed_or_unknown),
        cmocka_unit_test(v2_is_filled_from_its_files),
        cmocka_unit_test(a_limit_of_an_ancestor_counts),
        cmocka_unit_test(another_container_is_read_through_its_root_and_gaps_are_noted),
        cmocka_unit_test(a_hierarchy_that_is_not_mounted_is_v2_with_a_note),
        cmocka_unit_test(v1_is_told_and_its_values_are_read),
        cmocka_unit_test(no_cgroup_is_none_with_a_note),
        cmocka_unit_test(this_machine_answers),
        cmocka_unit_test(notes_past_the_cap_are_counted),
    };
    return cmocka_run_group_tests(tests, fixtures_make, fixtures_remove);
}
