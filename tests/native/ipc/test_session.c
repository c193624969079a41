/* SPDX-License-Identifier: MIT */
/* test_session.c: sessions against a server that plays, and one that misbehaves in each way that a runtime or its death
 * can. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ipc/fake.h"

/* ---- the consumer -------------------------------------------------------------------------------------------------
 */
typedef struct sink {
    pthread_mutex_t lock;
    pthread_cond_t some;
    buf got;
    size_t fail_after; /* on_bytes fails from so many bytes on; 0: never */
    bool blocked;      /* on_bytes waits while set */
    ipc_session_end end;
    int ends, pauses;
    size_t at_pause; /* bytes that had come by the last one */
} sink;
static int on_bytes(void *arg, slice b)
{
    sink *k = arg;
    pthread_mutex_lock(&k->lock);
    buf_slice(&k->got, b);
    int rc = k->fail_after && k->got.n >= k->fail_after ? -ERR_MALFORMED : 0;
    pthread_cond_broadcast(&k->some);
    while (k->blocked)
        pthread_cond_wait(&k->some, &k->lock);
    pthread_mutex_unlock(&k->lock);
    return rc;
}
static void on_pause(void *arg)
{
    sink *k = arg;
    pthread_mutex_lock(&k->lock);
    k->pauses++;
    k->at_pause = k->got.n;
    pthread_cond_broadcast(&k->some);
    pthread_mutex_unlock(&k->lock);
}
static void on_end(void *arg, const ipc_session_end *end)
{
    sink *k = arg;
    pthread_mutex_lock(&k->lock);
    k->end = *end;
    k->ends++;
    pthread_mutex_unlock(&k->lock);
}
static void sink_init(sink *k)
{
    *k = (sink){0};
    pthread_mutex_init(&k->lock, NULL);
    pthread_cond_init(&k->some, NULL);
    buf_init(&k->got, 0);
}
static void sink_fini(sink *k)
{
    assert_int_equal(k->ends, 1);
    buf_fini(&k->got);
    pthread_mutex_destroy(&k->lock);
    pthread_cond_destroy(&k->some);
}
static void wait_bytes(sink *k, size_t n)
{
    pthread_mutex_lock(&k->lock);
    while (k->got.n < n)
        pthread_cond_wait(&k->some, &k->lock);
    pthread_mutex_unlock(&k->lock);
}
static void wait_pauses(sink *k, int n)
{
    pthread_mutex_lock(&k->lock);
    while (k->pauses < n)
        pthread_cond_wait(&k->some, &k->lock);
    pthread_mutex_unlock(&k->lock);
}
static int open_provider(const fake *f, sink *k, const ipc_provider *p, ipc_session **out, err *e)
{
    ipc_endpoint ep = fake_endpoint(f);
    ipc_session_cfg cfg = {.collect = {.providers = p, .n_providers = 1, .buffer_mb = 1, .format = 1},
                           .on_bytes = on_bytes,
                           .on_pause = on_pause,
                           .on_end = on_end,
                           .arg = k};
    int rc = ipc_session_open(&ep, &cfg, deadline_in_ms(5000), NULL, out, e);
    ipc_endpoint_fini(&ep); /* the session keeps what it needs */
    return rc;
}

static int open_session(const fake *f, sink *k, const ipc_filter *filter, ipc_session **out, err *e)
{
    ipc_provider p = {.name = "P", .level = 4, .filter = filter};
    return open_provider(f, k, &p, out, e);
}

/* ---- a runtime in small -------------------------------------------------------------------------------------------
 */
typedef struct runtime {
    int version;          /* newest CollectTracing that it knows */
    size_t before;        /* bytes of the stream before a stop */
    size_t after;         /* … and while it stops */
    bool deaf;            /* never answers Stop, and never ends the stream */
    bool mute_stop;       /* closes the connection of Stop without an answer, and ends the stream */
    bool suspended;       /* no byte follows the OK before ResumeRuntime */
    bool cut;             /* resets the stream's connection after `before` */
    uint32_t start_error; /* answers CollectTracing with it */
    bool no_start;        /* never answers CollectTracing */
    bool late_start;      /* answers it when this is taken away */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stop, ended;
    int collects;
    ipc_request last;
} runtime;
#define SESSION_ID UINT64_C(0x7f00aabbccdd0010)

static void runtime_init(runtime *r)
{
    *r = (runtime){.version = 5, .before = 1000};
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->changed, NULL);
}
static void write_bytes(int fd, size_t from, size_t n)
{
    uint8_t chunk[4096];
    while (n > 0) {
        size_t part = n < sizeof chunk ? n : sizeof chunk;
        for (size_t i = 0; i < part; i++)
            chunk[i] = (uint8_t)(from + i);
        fake_write(fd, chunk, part);
        from += part;
        n -= part;
    }
}
static void play(runtime *rt, int fd)
{
    uint64_t id = SESSION_ID;
    fake_ok(fd, &id, sizeof id);
    pthread_mutex_lock(&rt->lock);
    while (rt->suspended)
        pthread_cond_wait(&rt->changed, &rt->lock);
    pthread_mutex_unlock(&rt->lock);
    write_bytes(fd, 0, rt->before);
    if (rt->cut) {
        struct linger hard = {.l_onoff = 1};
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
        return;
    }
    pthread_mutex_lock(&rt->lock);
    while (!rt->stop && !rt->ended)
        pthread_cond_wait(&rt->changed, &rt->lock);
    pthread_mutex_unlock(&rt->lock);
    if (rt->deaf) {
        fake_wait_closed(fd);
        return;
    }
    write_bytes(fd, rt->before, rt->after);
    (void)shutdown(fd, SHUT_RDWR);
    pthread_mutex_lock(&rt->lock);
    rt->ended = true;
    pthread_cond_broadcast(&rt->changed);
    pthread_mutex_unlock(&rt->lock);
}
static void stop(runtime *rt, int fd, const ipc_request *r)
{
    pthread_mutex_lock(&rt->lock);
    rt->stop = true;
    pthread_cond_broadcast(&rt->changed);
    while (!rt->ended && !rt->deaf)
        pthread_cond_wait(&rt->changed, &rt->lock);
    pthread_mutex_unlock(&rt->lock);
    if (rt->deaf)
        fake_wait_closed(fd);
    else if (!rt->mute_stop)
        fake_ok(fd, &r->session_id, 8);
}
static void serve(fake *f, int fd, const ipc_request *r, slice raw)
{
    (void)raw;
    runtime *rt = f->arg;
    if (r->command == IPC_STOP_TRACING) {
        assert_true(r->session_id == SESSION_ID);
        stop(rt, fd, r);
        return;
    }
    if (r->command == IPC_RESUME) {
        pthread_mutex_lock(&rt->lock);
        rt->suspended = false;
        pthread_cond_broadcast(&rt->changed);
        pthread_mutex_unlock(&rt->lock);
        fake_ok(fd, "\0\0\0\0", 4);
        return;
    }
    pthread_mutex_lock(&rt->lock);
    rt->collects++;
    rt->last = *r;
    pthread_mutex_unlock(&rt->lock);
    pthread_mutex_lock(&rt->lock);
    while (rt->late_start || (rt->no_start && !rt->ended))
        pthread_cond_wait(&rt->changed, &rt->lock);
    pthread_mutex_unlock(&rt->lock);
    if (rt->no_start) return;
    if (rt->start_error)
        fake_error(fd, rt->start_error);
    else if ((int)(r->command - IPC_COLLECT1) + 1 > rt->version)
        fake_error(fd, IPC_E_UNKNOWN_COMMAND);
    else
        play(rt, fd);
}
/* The target ends by itself. */
static void runtime_end(runtime *r)
{
    pthread_mutex_lock(&r->lock);
    r->stop = true;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
}
static void assert_stream(const sink *k, size_t n)
{
    assert_int_equal(k->got.n, n);
    assert_int_equal(k->end.bytes, n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(k->got.p[i], (uint8_t)i);
}

/* ---- tests --------------------------------------------------------------------------------------------------------
 */
static void a_silence_after_a_burst_is_told_once(void **state)
{
    (void)state;
    runtime rt;
    runtime_init(&rt);
    fake f = {0};
    fake_start(&f, serve, &rt, 0);
    sink k;
    sink_init(&k);
    ipc_session *s = NULL;
    err e = {0};
    int64_t since = mono_ns();
    assert_int_equal(open_session(&f, &k, NULL, &s, &e), 0);
    wait_pauses(&k, 1);
    assert_true(mono_ns() - since >= (int64_t)IPC_PAUSE_MS * 1000000);
    pthread_mutex_lock(&k.lock);
    assert_int_equal(k.at_pause, rt.before);
    pthread_mutex_unlock(&k.lock);
    assert_false(ipc_session_wait(s, deadline_in_ms(2 * IPC_PAUSE_MS + 100))); /* the silence goes on */
    assert_int_equal(k.pauses, 1);
    ipc_session_stop(s, deadline_in_ms(5000));
    assert_true(ipc_session_wait(s, deadline_in_ms(5000)));
    assert_int_equal(k.pauses, 1);
    assert_stream(&k, rt.before);
    ipc_session_free(s);
    sink_fini(&k);
    fake_stop(&f);
}

static void stop_drains_the_stream_to_its_end(void **state)
{
    (void)state;
    int fds = count_fds(), threads = count_threads();
    runtime rt;
    runtime_init(&rt);
    rt.after = 5000000; /* far more than a socket holds: the server cannot answer Stop before it was drained */
    fake f = {0};
    fake_start(&f, serve, &rt, 0);
    sink k;
    sink_init(&k);
    ipc_session *s;
    err e = {0};
    assert_int_equal(open_session(&f, &k, NULL, &s, &e), 0);
    assert_int_equal(ipc_session_version(s), 5);
    assert_int_equal(ipc_sessions_live(), 1);
    wait_bytes(&k, rt.before);
    ipc_session_stop(s, deadline_in_ms(10000));
    ipc_session_stop(s, deadline_in_ms(10000)); /* asked twice, sent once */
    assert_true(ipc_session_wait(s, deadline_in_ms(10000)));
    ipc_session_stop(s, deadline_in_ms(10000));
    assert_int_equal(k.end.reason, IPC_END_STOPPED);
    assert_int_equal(k.end.why.kind, ERR_NONE);
    assert_true(k.end.stop_sent && k.end.stop_answered);
    assert_stream(&k, rt.before + rt.after);
    assert_int_equal(f.stops, 1);
    ipc_session_free(s);
    assert_true(ipc_sessions_wait(deadline_in_ms(2000)));
    sink_fini(&k);
    fake_stop(&f);
    assert_nothing_leaked(fds, threads);
}

static void collect_falls_back_by_the_answer(void **state)
{
    (void)state;
    uint32_t id = 4;
    ipc_filter filter = {.enable = true, .ids = &id, .n = 1};
    for (int version = 5; version >= 2; version--) {
        runtime rt;
        runtime_init(&rt);
        rt.version = version;
        fake f = {0};
        fake_start(&f, serve, &rt, 0);
        sink k;
        sink_init(&k);
        ipc_session *s;
        err e = {0};
        assert_int_equal(open_session(&f, &k, &filter, &s, &e), 0);
        assert_int_equal(ipc_session_version(s), version);
        assert_int_equal(rt.collects, 6 - version);
        assert_int_equal(ipc_session_filtered(s), version == 5); /* else the reader filters */
        ipc_session_stop(s, deadline_in_ms(5000));
        assert_true(ipc_session_wait(s, deadline_in_ms(5000)));
        assert_int_equal(k.end.reason, IPC_END_STOPPED);
        ipc_session_free(s);
        sink_fini(&k);
        fake_stop(&f);
    }
}

static void a_suspended_runtime_sends_nothing_before_its_resume(void **state)
{
    (void)state;
    runtime rt;
    runtime_init(&rt);
    rt.suspended = true;
    fake f = {0};
    fake_start(&f, serve, &rt, 0);
    sink k;
    sink_init(&k);
    ipc_session *s;
    assert_int_equal(open_session(&f, &k, NULL, &s, NULL), 0); /* does not wait for the stream's head */
    assert_false(ipc_session_wait(s, deadline_in_ms(30)));
    assert_int_equal(k.got.n, 0);
    ipc_endpoint ep = fake_endpoint(&f);
    assert_int_equal(ipc_resume(&ep, deadline_in_ms(5000), NULL, NULL), 0);
    ipc_endpoint_fini(&ep);
    wait_bytes(&k, rt.before);
    ipc_session_stop(s, deadline_in_ms(5000));
    assert_true(ipc_session_wait(s, deadline_in_ms(5000)));
    ipc_session_free(s);
    assert_int_equal(k.end.reason, IPC_END_STOPPED);
    assert_stream(&k, rt.before);
    sink_fini(&k);
    fake_stop(&f);
}

static void an_error_other_than_unknown_command_is_final(void **state)
{
    (void)state;
    static const struct {
        uint32_t hr;
        err_kind kind;
    } cases[] = {{IPC_E_BAD_ENCODING, ERR_PROTOCOL}, {IPC_E_FAIL, ERR_BUSY}, {IPC_E_NOT_SUPPORTED, ERR_NOT_SUPPORTED}};
    for (size_t i = 0; i < 3; i++) {
        runtime rt;
        runtime_init(&rt);
        rt.start_error = cases[i].hr;
        fake f = {0};
        fake_start(&f, serve, &rt, 0);
        sink k;
        sink_init(&k);
        ipc_session *s;
        err e = {0};
        assert_int_equal(open_session(&f, &k, NULL, &s, &e), -(int)cases[i].kind);
        assert_null(s);
        assert_int_equal(e.hresult, cases[i].hr);
        assert_int_equal(rt.collects, 1);
        k.ends = 1; /* no callback came, and none will */
        sink_fini(&k);
        fake_stop(&f);
    }
    runtime rt;
    runtime_init(&rt);
    rt.version = 1; /* nothing that we speak */
    fake f = {0};
    fake_start(&f, serve, &rt, 0);
    sink k;
    sink_init(&k);
    ipc_session *s;
    err e = {0};
    assert_int_equal(open_session(&f, &k, NULL, &s, &e), -ERR_UNSUPPORTED_RUNTIME);
    assert_int_equal(rt.collects, 4);
    k.ends = 1;
    sink_fini(&k);
    fake_stop(&f);
}

static void a_start_that_is_never_answered_ends_at_its_deadline(void **state)
{
    (void)state;
    int fds = count_fds(), threads = count_threads();
    runtime rt;
    runtime_init(&rt);
    rt.no_start = true;
    fake f = {0};
    fake_start(&f, serve, &rt, 0);
    ipc_endpoint ep = fake_endpoint(&f);
    ipc_provider p = {.name = "P"};
    sink k;
    sink_init(&k);
    ipc_session_cfg cfg = {.collect = {.providers = &p, .n_providers = 1, .buffer_mb = 1, .format = 1},
                           .on_bytes = on_bytes,
                           .on_end = on_end,
                           .arg = &k};
    ipc_session *s;
    err e = {0};
    int64_t t = mono_ns();
    assert_int_equal(ipc_session_open(&ep, &cfg, deadline_in_ms(100), NULL, &s, &e), -ERR_TIMEOUT);
    assert_true(mono_ns() - t < 1500000000);
    ipc_endpoint_fini(&ep);
    pthread_mutex_lock(&rt.lock);
    rt.ended = true; /* and closes the connection */
    pthread_cond_broadcast(&rt.changed);
    pthread_mutex_unlock(&rt.lock);
    k.ends = 1;
    sink_fini(&k);
    fake_stop(&f);
    assert_nothing_leaked(fds, threads);
}

/* The runtime begins a session for a client that does not wait any more: it is not left behind in the target. */
static void a_start_that_is_given_up_is_stopped(void **state)
{
    (void)state;
    int fds = count_fds(), threads = count_threads();
    for (int cancels = 0; cancels < 2; cancels++) {
        runtime rt;
        runtime_init(&rt);
        rt.late_start = true;
        fake f = {0};
        fake_start(&f, serve, &rt, 0);
        ipc_endpoint ep = fake_endpoint(&f);
        ipc_provider p = {.name = "P"};
        sink k;
        sink_init(&k);
        ipc_session_cfg cfg = {.collect = {.providers = &p, .n_providers = 1, .buffer_mb = 1, .format = 1},
                               .on_bytes = on_bytes,
                               .on_end = on_end,
                               .arg = &k};
        ipc_session *s = NULL;
        err e = {0};
        ipc_cancel c;
        assert_int_equal(ipc_cancel_init(&c, &e), 0);
        if (cancels) ipc_cancel_fire(&c);
        int rc = ipc_session_open(&ep, &cfg, deadline_in_ms(cancels ? 5000 : 50), &c, &s, &e);
        assert_int_equal(rc, cancels ? -ERR_CANCELLED : -ERR_TIMEOUT);
        assert_null(s);
        ipc_endpoint_fini(&ep);
        ipc_cancel_fini(&c);
        pthread_mutex_lock(&rt.lock);
        rt.late_start = false;
        pthread_cond_broadcast(&rt.changed);
        while (!rt.ended)
            pthread_cond_wait(&rt.changed, &rt.lock);
        pthread_mutex_unlock(&rt.lock);
        assert_true(rt.stop);
        assert_true(ipc_sessions_wait(deadline_in_ms(5000)));
        assert_int_equal(f.stops, 1);
        assert_int_equal(k.ends + (int)k.got.n, 0); /* the caller hears nothing of it */
        k.ends = 1;
        sink_fini(&k);
        fake_stop(&f);
    }
    assert_nothing_leaked(fds, threads);
}

static void a_stop_that_nobody_answers_ends_at_its_deadline(void **state)
{
    (void)state;
    int fds = count_fds(), threads = count_threads();
    runtime rt;
    runtime_init(&rt);
    rt.deaf = true;
    fake f = {0};
    fake_start(&f, serve, &rt, 0);
    sink k;
    sink_init(&k);
    ipc_session *s;
    assert_int_equal(open_session(&f, &k, NULL, &s, NULL), 0);
    wait_bytes(&k, rt.before);
    int64_t t = mono_ns();
    ipc_session_stop(s, deadline_in_ms(200));
    assert_true(ipc_session_wait(s, deadline_in_ms(5000)));
    assert_in_range((mono_ns() - t) / 1000000, 190, 1500);
    assert_int_equal(k.end.reason, IPC_END_DEADLINE);
    assert_int_equal(k.end.why.kind, ERR_TIMEOUT);
    assert_true(k.end.stop_sent);
    assert_false(k.end.stop_answered);
    assert_stream(&k, rt.before); /* what came is kept */
    ipc_session_free(s);
    assert_int_equal(f.stops, 1);
    sink_fini(&k);
    fake_stop(&f);
    assert_nothing_leaked(fds, threads);
}

static void an_abort_ends_with_the_stream_or_at_its_deadline(void **state)
{
    (void)state;
    int fds = count_fds(), threads = count_threads();
    for (int deaf = 0; deaf <= 1; deaf++) {
        runtime rt;
        runtime_init(&rt);
        rt.deaf = deaf;
        rt.after = 300000;
        fake f = {0};
        fake_start(&f, serve, &rt, 0);
        sink k;
        sink_init(&k);
        ipc_session *s;
        assert_int_equal(open_session(&f, &k, NULL, &s, NULL), 0);
        wait_bytes(&k, rt.before);
        int64_t t = mono_ns();
        ipc_session_free(s);
        assert_true(ipc_sessions_wait(deadline_in_ms(IPC_ABORT_MS + 5000)));
        int64_t took_ms = (mono_ns() - t) / 1000000;
        assert_in_range(took_ms, deaf ? IPC_ABORT_MS : 0, (deaf ? IPC_ABORT_MS : 0) + 950);
        assert_int_equal(k.end.reason, IPC_END_ABORTED);
        assert_int_equal(k.got.n, rt.before);         /* nothing more was handed on */
        assert_int_equal(k.end.stop_answered, !deaf); /* the target knows that it is over */
        sink_fini(&k);
        fake_stop(&f);
    }
    assert_nothing_leaked(fds, threads);
}

/* Around the first collection of a Meter session the runtime would lock itself up. ms: from the start to the stop that
 * is asked for, its time, and the least and the most until it is over. */
static void a_stop_waits_for_the_first_collection_of_meters(void **state)
{
    (void)state;
    static const struct {
        const char *name, *args;
        int asked_ms, time_ms, least_ms, most_ms;
    } cases[] = {
        {"System.Diagnostics.Metrics", "SessionId=SHARED;RefreshInterval=0.3;Metrics=A", 0, 9000, 1000, 5000},
        {"System.Diagnostics.Metrics", NULL, 100, 9000, 1700, 5000},             /* the interval is 1 s */
        {"System.Diagnostics.Metrics", "RefreshInterval=1", 0, 1500, 500, 1600}, /* one second of its time is left */
        {"System.Diagnostics.Metrics", "RefreshInterval=0.3", 1050, 9000, 1050, 5000}, /* it is over */
        {"System.Diagnostics.Metrics", "RefreshInterval=30", 0, 9000, 0, 5000},        /* long before it */
        {"System.Runtime", "RefreshInterval=1", 0, 9000, 0, 1600},                     /* no meters */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        runtime rt;
        runtime_init(&rt);
        fake f = {0};
        fake_start(&f, serve, &rt, 0);
        sink k;
        sink_init(&k);
        ipc_session *s;
        ipc_provider p = {.name = cases[i].name, .args = cases[i].args, .level = 4};
        int64_t t = mono_ns();
        assert_int_equal(open_provider(&f, &k, &p, &s, NULL), 0);
        assert_false(ipc_session_wait(s, t + cases[i].asked_ms * INT64_C(1000000)));
        ipc_session_stop(s, deadline_in_ms(cases[i].time_ms));
        assert_true(ipc_session_wait(s, deadline_in_ms(10000)));
        int64_t took_ms = (mono_ns() - t) / 1000000;
        assert_in_range(took_ms, cases[i].least_ms, cases[i].most_ms);
        assert_int_equal(k.end.reason, IPC_END_STOPPED);
        ipc_session_free(s);
        sink_fini(&k);
        fake_stop(&f);
        assert_int_equal(f.stops, 1);
    }
}

/* Who is in a hurry after all brings the stop nearer. */
static void an_abort_brings_a_stop_that_waits_nearer(void **state)
{
    (void)state;
    runtime rt;
    runtime_init(&rt);
    fake f = {0};
    fake_start(&f, serve, &rt, 0);
    sink k;
    sink_init(&k);
    ipc_session *s;
    ipc_provider p = {.name = "System.Diagnostics.Metrics", .args = "RefreshInterval=1", .level = 4};
    int64_t t = mono_ns();
    assert_int_equal(open_provider(&f, &k, &p, &s, NULL), 0);
    ipc_session_stop(s, deadline_in_ms(60000));
    assert_false(ipc_session_wait(s, deadline_in_ms(100)));
    ipc_session_stop(s, deadline_in_ms(1000));
    assert_true(ipc_session_wait(s, deadline_in_ms(10000)));
    assert_in_range((mono_ns() - t) / 1000000, 100, 1600); /* and not 1,700 */
    assert_int_equal(k.end.reason, IPC_END_STOPPED);
    ipc_session_free(s);
    sink_fini(&k);
    fake_stop(&f);
}

static void a_target_that_ends_by_itself_is_not_sent_a_stop(void **state)
{
    (void)state;
    runtime rt;
    runtime_init(&rt);
    rt.after = 2000;
    fake f = {0};
    fake_start(&f, serve, &rt, 0);
    sink k;
    sink_init(&k);
    ipc_session *s;
    assert_int_equal(open_session(&f, &k, NULL, &s, NULL), 0);
    wait_bytes(&k, rt.before);
    runtime_end(&rt);
    assert_true(ipc_session_wait(s, deadline_in_ms(5000)));
    ipc_session_stop(s, deadline_in_ms(1000)); /* too late: the id may be another session's by now */
    ipc_session_free(s);
    assert_int_equal(k.end.reason, IPC_END_BY_TARGET);
    assert_int_equal(k.end.why.kind, ERR_NONE);
    assert_stream(&k, 3000);
    sink_fini(&k);
    fake_stop(&f);
    assert_int_equal(f.stops, 0);
}

static void a_session_that_is_over_but_not_read_is_not_stopped_either(void **state)
{
    (void)state;
    runtime rt;
    runtime_init(&rt);
    rt.after = 150000;
    fake f = {0};
    fake_start(&f, serve, &rt, 0);
    sink k;
    sink_init(&k);
    k.blocked = true;
    ipc_session *s;
    assert_int_equal(open_session(&f, &k, NULL, &s, NULL), 0);
    wait_bytes(&k, 1);
    runtime_end(&rt);
    pthread_mutex_lock(&rt.lock); /* all of it is in our socket */
    while (!rt.ended)
        pthread_cond_wait(&rt.changed, &rt.lock);
    pthread_mutex_unlock(&rt.lock);
    ipc_session_stop(s, deadline_in_ms(5000));
    pthread_mutex_lock(&k.lock);
    k.blocked = false;
    pthread_cond_broadcast(&k.some);
    pthread_mutex_unlock(&k.lock);
    assert_true(ipc_session_wait(s, deadline_in_ms(5000)));
    ipc_session_free(s);
    assert_int_equal(k.end.reason, IPC_END_BY_TARGET);
    assert_stream(&k, rt.before + rt.after);
    sink_fini(&k);
    fake_stop(&f);
    assert_int_equal(f.stops, 0);
}

static void a_stream_cut_at_any_byte_keeps_what_came(void **state)
{
    (void)state;
    int fds = count_fds(), threads = count_threads();
    static const size_t cuts[] = {0, 1, 7, 8, 31, 32, 33, 100, 999, 65536, 65537};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        runtime rt;
        runtime_init(&rt);
        rt.before = cuts[i];
        rt.cut = true;
        fake f = {0};
        fake_start(&f, serve, &rt, 0);
        sink k;
        sink_init(&k);
        ipc_session *s;
        assert_int_equal(open_session(&f, &k, NULL, &s, NULL), 0);
        assert_true(ipc_session_wait(s, deadline_in_ms(5000)));
        ipc_session_free(s);
        assert_true(k.end.reason == IPC_END_BY_TARGET || k.end.reason == IPC_END_RESET);
        assert_stream(&k, cuts[i]);
        sink_fini(&k);
        fake_stop(&f);
    }
    assert_nothing_leaked(fds, threads);
}

static void a_stop_whose_answer_is_missing_still_ends_with_the_stream(void **state)
{
    (void)state;
    runtime rt;
    runtime_init(&rt);
    rt.mute_stop = true;
    rt.after = 10;
    fake f = {0};
    fake_start(&f, serve, &rt, 0);
    sink k;
    sink_init(&k);
    ipc_session *s;
    assert_int_equal(open_session(&f, &k, NULL, &s, NULL), 0);
    ipc_session_stop(s, deadline_in_ms(5000));
    assert_true(ipc_session_wait(s, deadline_in_ms(5000)));
    ipc_session_free(s);
    assert_int_equal(k.end.reason, IPC_END_STOPPED);
    assert_false(k.end.stop_answered);
    assert_stream(&k, 1010);
    sink_fini(&k);
    fake_stop(&f);
}

static void a_socket_that_is_gone_at_stop_ends_the_session_soon(void **state)
{
    (void)state;
    runtime rt;
    runtime_init(&rt);
    fake f = {0};
    fake_start(&f, serve, &rt, 0);
    sink k;
    sink_init(&k);
    ipc_session *s;
    assert_int_equal(open_session(&f, &k, NULL, &s, NULL), 0);
    wait_bytes(&k, rt.before);
    assert_int_equal(unlink(f.path), 0); /* a cleaner of /tmp was here */
    ipc_session_stop(s, deadline_in_ms(20000));
    assert_true(ipc_session_wait(s, deadline_in_ms(3000)));
    ipc_session_free(s);
    assert_int_equal(k.end.reason, IPC_END_RESET);
    assert_int_equal(k.end.why.kind, ERR_ENDPOINT_UNAVAILABLE);
    assert_false(k.end.stop_sent);
    runtime_end(&rt);
    sink_fini(&k);
    fake_stop(&f);
}

static void a_consumer_that_fails_ends_the_session(void **state)
{
    (void)state;
    runtime rt;
    runtime_init(&rt);
    rt.after = 200000;
    fake f = {0};
    fake_start(&f, serve, &rt, 0);
    sink k;
    sink_init(&k);
    k.fail_after = 1;
    ipc_session *s;
    assert_int_equal(open_session(&f, &k, NULL, &s, NULL), 0);
    assert_true(ipc_session_wait(s, deadline_in_ms(5000)));
    ipc_session_free(s);
    assert_int_equal(k.end.reason, IPC_END_CONSUMER);
    assert_true(k.got.n <= rt.before);
    assert_true(k.end.stop_answered); /* the target's session is over, too */
    sink_fini(&k);
    fake_stop(&f);
}

static void a_slow_consumer_loses_nothing(void **state)
{
    (void)state;
    runtime rt;
    runtime_init(&rt);
    rt.before = 3000000;
    fake f = {0};
    fake_start(&f, serve, &rt, 0);
    sink k;
    sink_init(&k);
    k.blocked = true;
    ipc_session *s;
    assert_int_equal(open_session(&f, &k, NULL, &s, NULL), 0);
    wait_bytes(&k, 1);
    pthread_mutex_lock(&k.lock);
    k.blocked = false;
    pthread_cond_broadcast(&k.some);
    pthread_mutex_unlock(&k.lock);
    wait_bytes(&k, rt.before);
    ipc_session_stop(s, deadline_in_ms(5000));
    assert_true(ipc_session_wait(s, deadline_in_ms(5000)));
    ipc_session_free(s);
    assert_stream(&k, rt.before);
    sink_fini(&k);
    fake_stop(&f);
}

static void each_allocation_failure_is_an_error_and_leaks_nothing(void **state)
{
    (void)state;
    int fds = count_fds(), threads = count_threads();
    int failures = 0;
    for (long n = 0; n < 12; n++) {
        runtime rt;
        runtime_init(&rt);
        fake f = {0};
        fake_start(&f, serve, &rt, 0);
        sink k;
        sink_init(&k);
        ipc_session *s = NULL;
        err e = {0};
        ipc_endpoint ep = fake_endpoint(&f);
        ipc_provider p = {.name = "P"};
        ipc_session_cfg cfg = {.collect = {.providers = &p, .n_providers = 1, .buffer_mb = 1, .format = 1},
                               .on_bytes = on_bytes,
                               .on_end = on_end,
                               .arg = &k};
        mem_fail_at(n);
        int rc = ipc_session_open(&ep, &cfg, deadline_in_ms(5000), NULL, &s, &e);
        if (rc == 0) {
            ipc_session_stop(s,
                             deadline_in_ms(1000)); /* the server's allocations fail as well: it may never hear of it */
            assert_true(ipc_session_wait(s, deadline_in_ms(10000)));
        } else {
            assert_int_equal(e.kind, -rc);
            k.ends = 1;
            failures++;
        }
        mem_fail_at(-1);
        ipc_session_free(s);
        assert_true(ipc_sessions_wait(deadline_in_ms(3000)));
        ipc_endpoint_fini(&ep);
        runtime_end(&rt);
        sink_fini(&k);
        fake_stop(&f);
    }
    assert_true(failures > 0);
    assert_nothing_leaked(fds, threads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_silence_after_a_burst_is_told_once),
        cmocka_unit_test(stop_drains_the_stream_to_its_end),
        cmocka_unit_test(collect_falls_back_by_the_answer),
        cmocka_unit_test(a_suspended_runtime_sends_nothing_before_its_resume),
        cmocka_unit_test(an_error_other_than_unknown_command_is_final),
        cmocka_unit_test(a_start_that_is_never_answered_ends_at_its_deadline),
        cmocka_unit_test(a_start_that_is_given_up_is_stopped),
        cmocka_unit_test(a_stop_that_nobody_answers_ends_at_its_deadline),
        cmocka_unit_test(an_abort_ends_with_the_stream_or_at_its_deadline),
        cmocka_unit_test(a_stop_waits_for_the_first_collection_of_meters),
        cmocka_unit_test(an_abort_brings_a_stop_that_waits_nearer),
        cmocka_unit_test(a_target_that_ends_by_itself_is_not_sent_a_stop),
        cmocka_unit_test(a_session_that_is_over_but_not_read_is_not_stopped_either),
        cmocka_unit_test(a_stream_cut_at_any_byte_keeps_what_came),
        cmocka_unit_test(a_stop_whose_answer_is_missing_still_ends_with_the_stream),
        cmocka_unit_test(a_socket_that_is_gone_at_stop_ends_the_session_soon),
        cmocka_unit_test(a_consumer_that_fails_ends_the_session),
        cmocka_unit_test(a_slow_consumer_loses_nothing),
        cmocka_unit_test(each_allocation_failure_is_an_error_and_leaks_nothing),
    };
    fake_warm_up();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
