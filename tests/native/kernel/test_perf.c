/* SPDX-License-Identifier: MIT */
/* test_perf.c: events of a child process whose work is known. What this machine refuses is skipped with its reason. */
#include <errno.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "check.h"
#include "kernel/kernel.h"
#include "kernel/perf.h"

/* ---- the child --------------------------------------------------------------------------------------------------- */

static void *burn(void *arg)
{
    prctl(PR_SET_NAME, "burner");
    for (volatile unsigned long i = 0;; i++)
        (void)arg;
    return NULL;
}

/* Starts a thread that burns when a byte comes, and maps a file as code. */
static void child(int from)
{
    char c;
    if (read(from, &c, 1) != 1) _exit(1);
    pthread_t t;
    pthread_create(&t, NULL, burn, NULL);
    int fd = fileno(fopen("/proc/self/exe", "r"));
    void *p = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    (void)p;
    pause();
    _exit(0);
}

typedef struct target {
    pid_t pid;
    int to;
} target;

static target start(void)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ends[1]);
        child(ends[0]);
    }
    close(ends[0]);
    return (target){pid, ends[1]};
}

static void finish(target *t)
{
    close(t->to);
    kill(t->pid, SIGKILL);
    waitpid(t->pid, NULL, 0);
}

/* ---- what is seen ------------------------------------------------------------------------------------------------ */

typedef struct seen {
    uint64_t samples, of_main, with_regs, with_stack, with_chain, code_maps, named, out_of_order, exec_time;
    int64_t last;
    pid_t pid;
    int burner;
} seen;

static void on_record(void *arg, const perf_record *r)
{
    seen *s = arg;
    if (r->time < s->last) s->out_of_order++;
    s->last = r->time;
    switch (r->kind) {
    case PERF_SAMPLE:
        assert_int_equal(r->pid, s->pid);
        s->samples++;
        if (r->tid == s->pid)
            s->of_main++;
        else
            s->burner = r->tid;
        if (r->has_regs && r->regs.known == UW_ALL) s->with_regs++;
        if (r->stack.n >= 64) s->with_stack++;
        if (r->n_chain) s->with_chain++;
        break;
    case PERF_MMAP: s->code_maps += slice_ends(r->map.path, SLICE_LIT("test_kernel_perf")); break;
    case PERF_COMM: s->named += slice_eq(r->comm, SLICE_LIT("burner")); break;
    case PERF_SWITCH:
    case PERF_FORK:
    case PERF_EXIT:
    case PERF_LOST:
    case PERF_THROTTLE:
    case PERF_OTHER: break;
    }
}

static perf_set *open_clock(pid_t pid)
{
    perf_set *p;
    err e = {0};
    perf_spec s = perf_cpu_clock(1000);
    s.take = PERF_TAKE_KERNEL_CHAIN | PERF_TAKE_USER_CHAIN | PERF_TAKE_USER;
    perf_cfg cfg = {.pid = pid, .specs = &s, .n_specs = 1, .tasks = true};
    int rc = perf_open(&cfg, &p, &e);
    if (rc == -ERR_PERMISSION_DENIED || rc == -ERR_NOT_SUPPORTED) {
        print_message("skipped: %s; %s\n", e.message, e.hint);
        skip();
    }
    if (rc < 0) fail_msg("%s", e.message);
    return p;
}

static void a_thread_that_starts_later_is_sampled_with_registers_stack_and_name(void **state)
{
    (void)state;
    target t = start();
    perf_set *p = open_clock(t.pid);
    seen s = {.pid = t.pid};
    err e = {0};
    assert_int_equal(write(t.to, "x", 1), 1);
    assert_int_equal(perf_run(p, deadline_in_ms(400), on_record, &s, &e), 0);
    perf_stats st;
    perf_stats_of(p, &st);
    perf_close(p);
    finish(&t);
    assert_in_range(s.samples, 20, 600);
    assert_int_equal(st.samples, s.samples);
    assert_int_equal(st.damaged, 0);
    assert_true(s.burner != 0 && s.of_main * 10 < s.samples);
    assert_true(s.with_regs * 100 >= s.samples * 95);
    assert_true(s.with_stack * 100 >= s.samples * 95);
    assert_true(s.with_chain * 100 >= s.samples * 95);
    assert_int_equal(s.code_maps, 1);
    assert_int_equal(s.named, 1);
    assert_int_equal(s.out_of_order, (int64_t)st.late);
    assert_int_equal(st.threads, 1);
}

static void the_end_of_the_process_ends_the_window(void **state)
{
    (void)state;
    target t = start();
    perf_set *p = open_clock(t.pid);
    seen s = {.pid = t.pid};
    err e = {0};
    kill(t.pid, SIGKILL);
    assert_int_equal(perf_run(p, deadline_in_ms(20000), on_record, &s, &e), 0);
    perf_stats st;
    perf_stats_of(p, &st);
    perf_close(p);
    finish(&t);
    assert_true(st.target_ended);
    assert_true(st.end_ns - st.begin_ns < INT64_C(15000000000));
}

static void a_stop_before_the_window_ends_it_at_once(void **state)
{
    (void)state;
    target t = start();
    perf_set *p = open_clock(t.pid);
    seen s = {.pid = t.pid};
    err e = {0};
    perf_stop(p);
    assert_int_equal(perf_run(p, deadline_in_ms(20000), on_record, &s, &e), 0);
    perf_stats st;
    perf_stats_of(p, &st);
    assert_true(st.stopped);
    assert_int_equal(perf_run(p, deadline_in_ms(20000), on_record, &s, &e), -ERR_CONFLICT);
    perf_close(p);
    finish(&t);
}

static void counters_without_a_ring_are_summed(void **state)
{
    (void)state;
    target t = start();
    perf_set *p;
    err e = {0};
    perf_spec s[2] = {perf_software(PERF_COUNT_SW_TASK_CLOCK, 0), perf_software(PERF_COUNT_SW_PAGE_FAULTS, 0)};
    perf_cfg cfg = {.pid = t.pid, .specs = s, .n_specs = 2};
    if (perf_open(&cfg, &p, &e) == -ERR_PERMISSION_DENIED) skip();
    seen x = {.pid = t.pid};
    assert_int_equal(write(t.to, "x", 1), 1);
    assert_int_equal(perf_run(p, deadline_in_ms(200), on_record, &x, &e), 0);
    uint64_t ns = 0, faults = 0;
    assert_true(perf_count(p, 0, &ns));
    assert_true(perf_count(p, 1, &faults));
    assert_in_range(ns, 10000000, 400000000);
    assert_in_range(faults, 3, 10000);
    perf_close(p);
    finish(&t);
}

static void what_a_process_starts_is_not_counted(void **state)
{
    (void)state;
    perf_set *p;
    err e = {0};
    uint64_t ns = 0;
    perf_spec s = {.type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_TASK_CLOCK, .what = "the task clock"};
    perf_cfg cfg = {.pid = getpid(), .specs = &s, .n_specs = 1};
    struct perf_event_attr a = {
        .type = s.type, .size = sizeof a, .config = s.config, .inherit = 1, .inherit_thread = 1, .exclude_kernel = 1};
    int fd = (int)syscall(SYS_perf_event_open, &a, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0 || perf_open(&cfg, &p, &e) < 0) skip(); /* Linux before 5.13, or refused */
    close(fd);
    pid_t pid = fork();
    if (pid == 0) {
        while (clock_ns(CLOCK_PROCESS_CPUTIME_ID) < 200000000) {
        }
        _exit(0);
    }
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(perf_count(p, 0, &ns));
    assert_true(ns < 150000000);
    perf_close(p);
}

/* As nobody: 0 when all is as it should be, else the line. */
static int look_as_nobody(pid_t roots)
{
    if (setresgid(65534, 65534, 65534) != 0 || setresuid(65534, 65534, 65534) != 0) return 77;
    perf_set *p;
    err e = {0};
    int64_t paranoid = 0;
    perf_spec s = perf_cpu_clock(100);
    perf_cfg cfg = {.pid = roots, .specs = &s, .n_specs = 1};
    if (kn_read_num("", "/proc/sys/kernel/perf_event_paranoid", &paranoid, NULL) < 0 || paranoid > 2) return 77;
    if (perf_open(&cfg, &p, &e) != -ERR_PERMISSION_DENIED) return 1;
    if (!strstr(e.hint, "belongs to another user") || !strstr(e.hint, "PERFMON") || !strstr(e.hint, "--cap-add") ||
        strcmp(e.detail, "perf_event_open") != 0)
        return 2;
    err_clear(&e);
    perf_spec machine = s;
    machine.machine = true;
    cfg.specs = &machine;
    if (perf_open(&cfg, &p, &e) != (paranoid > 0 ? -ERR_PERMISSION_DENIED : 0)) return 3;
    if (paranoid > 0 && !strstr(e.hint, "sysctl kernel.perf_event_paranoid=")) return 4;
    err_clear(&e);
    cfg = (perf_cfg){.pid = getpid(), .specs = &s, .n_specs = 1};
    if (perf_open(&cfg, &p, &e) < 0) return 5; /* one's own, in user space at least */
    perf_stats st;
    perf_stats_of(p, &st);
    perf_close(p);
    return st.no_kernel == (paranoid > 1) ? 0 : 6;
}

static void without_privilege_the_remedy_is_told_and_ones_own_are_seen(void **state)
{
    (void)state;
    int status = 0;
    if (geteuid() != 0) skip();
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) _exit(look_as_nobody(parent));
    waitpid(pid, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) skip();
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void each_refusal_is_of_its_kind(void **state)
{
    (void)state;
    static const struct {
        int sys, kind;
    } cases[] = {{EACCES, ERR_PERMISSION_DENIED},
                 {EPERM, ERR_PERMISSION_DENIED},
                 {ESRCH, ERR_PROCESS_NOT_FOUND},
                 {ENOENT, ERR_NOT_SUPPORTED},
                 {ENOSYS, ERR_NOT_SUPPORTED},
                 {EOPNOTSUPP, ERR_NOT_SUPPORTED},
                 {EBUSY, ERR_BUSY},
                 {EMFILE, ERR_LIMIT},
                 {ENOMEM, ERR_NO_MEMORY},
                 {EIO, ERR_IO}};
    perf_spec s = perf_hardware(PERF_COUNT_HW_CPU_CYCLES, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        err e = {0};
        assert_int_equal(perf_explain("", &s, 42, cases[i].sys, &e), -cases[i].kind);
        assert_true(e.message[0] != 0);
    }
    err e = {0};
    (void)perf_explain("", &s, 42, ENOENT, &e);
    assert_non_null(strstr(e.hint, "virtual machines"));
}

static void a_process_that_is_none_is_not_found(void **state)
{
    (void)state;
    perf_set *p;
    err e = {0};
    perf_spec s = perf_cpu_clock(100);
    perf_cfg cfg = {.pid = 0x7ffffff0, .specs = &s, .n_specs = 1};
    assert_int_equal(perf_open(&cfg, &p, &e), -ERR_PROCESS_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_that_starts_later_is_sampled_with_registers_stack_and_name),
        cmocka_unit_test(the_end_of_the_process_ends_the_window),
        cmocka_unit_test(a_stop_before_the_window_ends_it_at_once),
        cmocka_unit_test(counters_without_a_ring_are_summed),
        cmocka_unit_test(what_a_process_starts_is_not_counted),
        cmocka_unit_test(a_process_that_is_none_is_not_found),
        cmocka_unit_test(without_privilege_the_remedy_is_told_and_ones_own_are_seen),
        cmocka_unit_test(each_refusal_is_of_its_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
