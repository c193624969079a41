/* SPDX-License-Identifier: MIT */
/* test_post.c: calls posted from other threads, and signals. */
#include <pthread.h>
#include <unistd.h>

#include "loop_check.h"

enum { THREADS = 8, CALLS = 2000 };

typedef struct poster {
    loop *l;
    int sent, next; /* next: the number that must come next; touched on the loop's thread only */
    int *total;
    pthread_t thread;
} poster;

typedef struct message {
    poster *from;
    int number;
} message;

static void on_message(void *arg)
{
    message *m = arg;
    assert_int_equal(m->number, m->from->next++);
    ++*m->from->total;
    free(m);
}

static void *post_many(void *arg)
{
    poster *p = arg;
    for (int i = 0; i < CALLS; i++) {
        message *m = malloc(sizeof *m);
        *m = (message){p, i};
        if (!loop_post(p->l, on_message, m)) abort();
    }
    return NULL;
}

static void posts_of_many_threads_come_once_and_in_order(void **state)
{
    loop *l = loop_in(state);
    int total = 0;
    poster posters[THREADS] = {0};
    for (int i = 0; i < THREADS; i++) {
        posters[i] = (poster){.l = l, .total = &total};
        assert_int_equal(pthread_create(&posters[i].thread, NULL, post_many, &posters[i]), 0);
    }
    run_until(l, &total, THREADS * CALLS);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(posters[i].thread, NULL);
        assert_int_equal(posters[i].next, CALLS);
    }
}

typedef struct chain {
    loop *l;
    int calls;
} chain;

static void post_again(void *arg)
{
    chain *c = arg;
    if (++c->calls < 5) assert_true(loop_post(c->l, post_again, c));
}

static void a_call_posted_by_a_call_runs_in_the_next_round(void **state)
{
    loop *l = loop_in(state);
    err e = {0};
    chain c = {.l = l};
    assert_true(loop_post(l, post_again, &c));
    for (int round = 1; round <= 5; round++) {
        assert_int_equal(loop_run_once(l, 1000, &e), 0);
        assert_int_equal(c.calls, round);
    }
}

static void stop_loop(void *arg) { loop_stop(arg); }

static void *post_stop(void *arg)
{
    if (!loop_post(arg, stop_loop, arg)) abort();
    return NULL;
}

static void a_post_wakes_a_sleeping_loop(void **state)
{
    loop *l = loop_in(state);
    err e = {0};
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, post_stop, l), 0);
    assert_int_equal(loop_run(l, &e), 0);
    pthread_join(t, NULL);
}

typedef struct late {
    loop *l;
    int ran, refused;
} late;

static void post_too_late(void *arg)
{
    late *x = arg;
    x->ran++;
    x->refused += !loop_post(x->l, count_up, &x->ran);
    x->refused += !loop_work(x->l, count_up, NULL, &x->ran);
}

static void loop_free_runs_what_was_accepted_and_refuses_more(void **state)
{
    loop_fixture *f = *state;
    late x = {.l = f->l};
    assert_true(loop_post(f->l, post_too_late, &x));
    loop_free(f->l);
    f->l = NULL;
    assert_int_equal(x.ran, 1);
    assert_int_equal(x.refused, 2);
}

static void without_memory_a_post_is_refused(void **state)
{
    loop *l = loop_in(state);
    int n = 0;
    mem_fail_at(0);
    assert_false(loop_post(l, count_up, &n));
    mem_fail_at(-1);
    assert_true(loop_post(l, count_up, &n));
    run_until(l, &n, 1);
}

typedef struct heard {
    int count, last;
} heard;

static void on_signal(void *arg, int signo)
{
    heard *h = arg;
    h->count++;
    h->last = signo;
}

static void signals_are_events(void **state)
{
    loop *l = loop_in(state);
    err e = {0};
    heard a = {0}, b = {0};
    assert_int_equal(loop_signal(l, SIGUSR1, on_signal, &a, &e), 0);
    assert_int_equal(loop_signal(l, SIGUSR2, on_signal, &b, &e), 0);
    assert_int_equal(kill(getpid(), SIGUSR1), 0);
    run_until(l, &a.count, 1);
    assert_int_equal(a.last, SIGUSR1);
    assert_int_equal(b.count, 0);
    assert_int_equal(kill(getpid(), SIGUSR2), 0);
    run_until(l, &b.count, 1);
    heard c = {0};
    assert_int_equal(loop_signal(l, SIGUSR1, on_signal, &c, &e), 0); /* replaces a */
    assert_int_equal(kill(getpid(), SIGUSR1), 0);
    run_until(l, &c.count, 1);
    assert_int_equal(a.count, 1);
    assert_int_equal(kill(getpid(), SIGUSR1), 0); /* pending when the loop goes: discarded, or it would kill us */
}

static void an_unblocked_mask_comes_back(void **state)
{
    loop_fixture *f = *state;
    err e = {0};
    sigset_t mask;
    heard h = {0};
    assert_int_equal(loop_signal(f->l, SIGUSR1, on_signal, &h, &e), 0);
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    assert_true(sigismember(&mask, SIGUSR1));
    loop_free(f->l);
    f->l = NULL;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    assert_false(sigismember(&mask, SIGUSR1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        loop_test(posts_of_many_threads_come_once_and_in_order),
        loop_test(a_call_posted_by_a_call_runs_in_the_next_round),
        loop_test(a_post_wakes_a_sleeping_loop),
        loop_test(loop_free_runs_what_was_accepted_and_refuses_more),
        loop_test(without_memory_a_post_is_refused),
        loop_test(signals_are_events),
        loop_test(an_unblocked_mask_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
