/* SPDX-License-Identifier: MIT */
/* test_fd.c: descriptors in the loop, and its rounds. */
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#include "loop_check.h"

typedef struct reader {
    loop *l;
    loop_fd *watch, *victim;
    int fd, calls;
    uint32_t events;
    bool del_self, stop;
} reader;

static void on_ready(void *arg, uint32_t events)
{
    reader *r = arg;
    char c[16];
    r->calls++;
    r->events |= events;
    if (events & EPOLLIN) assert_true(read(r->fd, c, sizeof c) >= 0);
    if (r->victim) {
        loop_fd_del(r->victim);
        r->victim = NULL;
    }
    if (r->del_self) {
        loop_fd_del(r->watch);
        r->watch = NULL;
    }
    if (r->stop) loop_stop(r->l);
}

static void make_pipe(int fd[2]) { assert_int_equal(pipe2(fd, O_CLOEXEC | O_NONBLOCK), 0); }

static void readiness_is_told(void **state)
{
    loop *l = loop_in(state);
    int p[2];
    err e = {0};
    make_pipe(p);
    reader r = {.l = l, .fd = p[0]};
    assert_int_equal(loop_fd_add(l, p[0], EPOLLIN | EPOLLRDHUP, on_ready, &r, &r.watch, &e), 0);
    assert_int_equal(loop_run_once(l, 0, &e), 0);
    assert_int_equal(r.calls, 0);
    assert_int_equal(write(p[1], "x", 1), 1);
    assert_int_equal(loop_run_once(l, 1000, &e), 0);
    assert_int_equal(r.calls, 1);
    assert_int_equal(r.events, EPOLLIN);
    assert_int_equal(loop_fd_mod(r.watch, 0, &e), 0); /* deaf */
    assert_int_equal(write(p[1], "x", 1), 1);
    assert_int_equal(loop_run_once(l, 0, &e), 0);
    assert_int_equal(r.calls, 1);
    assert_int_equal(loop_fd_mod(r.watch, EPOLLIN, &e), 0);
    assert_int_equal(loop_run_once(l, 1000, &e), 0);
    assert_int_equal(r.calls, 2);
    close(p[1]);
    assert_int_equal(loop_run_once(l, 1000, &e), 0);
    assert_true(r.events & EPOLLHUP);
    loop_fd_del(r.watch);
    loop_fd_del(NULL);
    int calls = r.calls;
    assert_int_equal(loop_run_once(l, 0, &e), 0);
    assert_int_equal(r.calls, calls);
    close(p[0]);
}

static void a_watch_may_be_deleted_in_its_own_callback(void **state)
{
    loop *l = loop_in(state);
    int p[2];
    err e = {0};
    make_pipe(p);
    reader r = {.l = l, .fd = p[0], .del_self = true};
    assert_int_equal(loop_fd_add(l, p[0], EPOLLIN, on_ready, &r, &r.watch, &e), 0);
    assert_int_equal(write(p[1], "xy", 2), 2);
    run_until(l, &r.calls, 1);
    assert_int_equal(write(p[1], "z", 1), 1);
    assert_int_equal(loop_run_once(l, 0, &e), 0);
    assert_int_equal(r.calls, 1);
    close(p[0]), close(p[1]);
}

/* Both are ready in one round; whichever runs first deletes the other, which then must not run. */
static void a_deleted_watch_is_not_called_in_the_same_round(void **state)
{
    loop *l = loop_in(state);
    int p[2], q[2];
    err e = {0};
    make_pipe(p), make_pipe(q);
    reader a = {.l = l, .fd = p[0]}, b = {.l = l, .fd = q[0]};
    assert_int_equal(loop_fd_add(l, p[0], EPOLLIN, on_ready, &a, &a.watch, &e), 0);
    assert_int_equal(loop_fd_add(l, q[0], EPOLLIN, on_ready, &b, &b.watch, &e), 0);
    a.victim = b.watch;
    b.victim = a.watch;
    assert_int_equal(write(p[1], "x", 1), 1);
    assert_int_equal(write(q[1], "x", 1), 1);
    assert_int_equal(loop_run_once(l, 1000, &e), 0);
    assert_int_equal(a.calls + b.calls, 1);
    assert_int_equal(loop_run_once(l, 0, &e), 0);
    assert_int_equal(a.calls + b.calls, 1);
    loop_fd_del(a.calls ? a.watch : b.watch);
    close(p[0]), close(p[1]), close(q[0]), close(q[1]);
}

static void a_bad_descriptor_is_an_error(void **state)
{
    loop *l = loop_in(state);
    err e = {0};
    loop_fd *w = NULL;
    reader r = {0};
    assert_int_equal(loop_fd_add(l, -1, EPOLLIN, on_ready, &r, &w, &e), -ERR_IO);
    assert_null(w);
    assert_string_equal(e.message, "watch descriptor -1: Bad file descriptor");
}

static void the_loop_runs_until_stopped(void **state)
{
    loop *l = loop_in(state);
    int p[2];
    err e = {0};
    make_pipe(p);
    reader r = {.l = l, .fd = p[0], .stop = true};
    assert_int_equal(loop_fd_add(l, p[0], EPOLLIN, on_ready, &r, &r.watch, &e), 0);
    assert_int_equal(write(p[1], "x", 1), 1);
    assert_int_equal(loop_run(l, &e), 0);
    assert_int_equal(r.calls, 1);
    loop_stop(l); /* before: the next run ends at once */
    assert_int_equal(loop_run(l, &e), 0);
    assert_int_equal(write(p[1], "x", 1), 1);
    assert_int_equal(loop_run(l, &e), 0); /* and the one after that runs again */
    assert_int_equal(r.calls, 2);
    loop_fd_del(r.watch);
    close(p[0]), close(p[1]);
}

typedef struct idle {
    loop *l;
    int calls, more;
} idle;

static bool on_idle(void *arg)
{
    idle *i = arg;
    i->calls++;
    if (i->more > 0) return --i->more > 0 || (loop_stop(i->l), true);
    return false;
}

static void idle_work_keeps_the_loop_awake(void **state)
{
    loop *l = loop_in(state);
    err e = {0};
    idle i = {.l = l, .more = 5};
    loop_on_idle(l, on_idle, &i);
    assert_int_equal(loop_run(l, &e), 0); /* nothing else would wake it */
    assert_int_equal(i.calls, 5);
    i.calls = 0;
    assert_int_equal(loop_run_once(l, 0, &e), 0);
    assert_int_equal(i.calls, 2); /* before the sleep and after */
}

static int use_loop(void *arg)
{
    (void)arg;
    loop *l = NULL;
    err e = {0};
    int rc = loop_new(&l, &e);
    int p[2] = {-1, -1};
    loop_fd *w = NULL;
    if (rc == 0) {
        make_pipe(p);
        reader r = {0};
        rc = loop_fd_add(l, p[0], EPOLLIN, on_ready, &r, &w, &e);
    }
    assert_int_equal(-(int)e.kind, rc);
    loop_free(l);
    if (p[0] >= 0) close(p[0]), close(p[1]);
    return rc;
}

static void each_failed_allocation_is_reported(void **state)
{
    (void)state;
    unsigned before = entries_of("/proc/self/fd");
    assert_int_equal(each_allocation_fails(use_loop, NULL), 3);
    assert_int_equal(entries_of("/proc/self/fd"), before);
}

static void no_descriptors_left_is_an_error(void **state)
{
    (void)state;
    struct rlimit old, none;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    for (rlim_t spare = 0; spare < 2; spare++) { /* none for epoll; one, but none for the eventfd */
        int low = dup(0);
        close(low);
        none = old;
        none.rlim_cur = (rlim_t)low + spare;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
        loop *l = NULL;
        err e = {0};
        int rc = loop_new(&l, &e);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
        assert_int_equal(rc, -ERR_IO);
        assert_null(l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        loop_test(readiness_is_told),
        loop_test(a_watch_may_be_deleted_in_its_own_callback),
        loop_test(a_deleted_watch_is_not_called_in_the_same_round),
        loop_test(a_bad_descriptor_is_an_error),
        loop_test(the_loop_runs_until_stopped),
        loop_test(idle_work_keeps_the_loop_awake),
        cmocka_unit_test(each_failed_allocation_is_reported),
        cmocka_unit_test(no_descriptors_left_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
