/* SPDX-License-Identifier: MIT */
/* test_source.c: the same events from a file and from a live session, filtered, bounded, cut anywhere, and ended in
 * each way. Recording: tests/data/ipc (57 events: 54 EventCounters, 2 of the GC, 1 ProcessInfo); the live target is a
 * server that plays it. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ipc/fake.h"
#include "ipc/replay_internal.h"
#include "probe/source.h"

#define FILE_NAME   LUNETTE_SOURCE_DIR "/tests/data/ipc/counters.nettrace"
#define FILE_EVENTS 57
#define COUNTERS    54

/* ---- a consumer
 * ------------------------------------------------------------------------------------------------------ */
typedef struct consumer {
    pthread_mutex_t lock;
    pthread_cond_t some;
    int wakes, lasts;
} consumer;
static void wake(void *arg, bool last)
{
    consumer *c = arg;
    pthread_mutex_lock(&c->lock);
    c->wakes++;
    c->lasts += last;
    pthread_cond_broadcast(&c->some);
    pthread_mutex_unlock(&c->lock);
}
static void consumer_init(consumer *c)
{
    *c = (consumer){0};
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->some, NULL);
}
static void wait_last(consumer *c)
{
    pthread_mutex_lock(&c->lock);
    while (!c->lasts)
        pthread_cond_wait(&c->some, &c->lock);
    pthread_mutex_unlock(&c->lock);
    assert_int_equal(c->lasts, 1);
}
static void wait_ready(consumer *c, source *s)
{
    pthread_mutex_lock(&c->lock);
    for (int seen = -1; seen != c->wakes;) {
        seen = c->wakes;
        pthread_mutex_unlock(&c->lock); /* wake comes with the source's lock held */
        bool ready = source_ready(s);
        pthread_mutex_lock(&c->lock);
        if (ready) break;
        while (seen == c->wakes)
            pthread_cond_wait(&c->some, &c->lock);
        seen = -1;
    }
    pthread_mutex_unlock(&c->lock);
}
/* Takes until the end; asserts the order of time; returns how many. */
static unsigned take_all(consumer *c, source *s, size_t at_a_time)
{
    unsigned n = 0;
    int64_t before = INT64_MIN;
    for (;;) {
        wait_ready(c, s);
        bool ended = source_ended(s);
        source_record *r = source_take(s, at_a_time, SIZE_MAX);
        if (!r && ended) return n;
        for (const source_record *i = r; i; i = i->next, n++) {
            assert_true(i->time_ns >= before);
            before = i->time_ns;
        }
        source_records_free(r);
    }
}
static source *open_file(consumer *c, const source_want *want, size_t n_want, size_t queue)
{
    consumer_init(c);
    source_cfg cfg = {.want = want, .n_want = n_want, .queue_events = queue, .wake = wake, .arg = c};
    source *s;
    err e = {0};
    assert_int_equal(source_open_file(FILE_NAME, &cfg, &s, &e), 0);
    return s;
}
static void drop(source *s)
{
    source_close(s);
    source_unref(s);
    assert_true(sources_wait(deadline_in_ms(5000)));
}

/* ---- a server that plays the recording
 * --------------------------------------------------------------------------------- */
typedef struct tape {
    recording r;
    size_t cut;       /* bytes that come, then the connection closes; SIZE_MAX: all, then it waits for the stop */
    size_t damage_at; /* one byte there is wrong; SIZE_MAX: none */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stop, ended;
} tape;
static void tape_init(tape *t)
{
    *t = (tape){.cut = SIZE_MAX, .damage_at = SIZE_MAX};
    assert_int_equal(recording_load(FILE_NAME, &t->r, NULL), 0);
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->changed, NULL);
}
static void wait_for(tape *t, const bool *what)
{
    pthread_mutex_lock(&t->lock);
    while (!*what)
        pthread_cond_wait(&t->changed, &t->lock);
    pthread_mutex_unlock(&t->lock);
}
static void set(tape *t, bool *what)
{
    pthread_mutex_lock(&t->lock);
    *what = true;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
}
static void serve(fake *f, int fd, const ipc_request *r, slice raw)
{
    (void)raw;
    tape *t = f->arg;
    uint64_t id = 42;
    if (r->command == IPC_STOP_TRACING) {
        set(t, &t->stop);
        wait_for(t, &t->ended);
        fake_ok(fd, &r->session_id, 8);
        return;
    }
    fake_ok(fd, &id, sizeof id);
    size_t n = t->cut < t->r.n - 1 ? t->cut : t->r.n - 1; /* all but the end mark */
    for (size_t at = 0; at < n; at += 777) {
        size_t part = n - at < 777 ? n - at : 777;
        uint8_t chunk[777];
        memcpy(chunk, t->r.bytes + at, part);
        if (t->damage_at >= at && t->damage_at < at + part) chunk[t->damage_at - at] ^= 0xFF;
        fake_write(fd, chunk, part);
    }
    if (t->cut == SIZE_MAX) {
        wait_for(t, &t->stop);
        fake_write(fd, "\x01", 1);
    }
    (void)shutdown(fd, SHUT_RDWR);
    set(t, &t->ended);
}
static int open_live(const fake *f, consumer *c, const source_cfg *with, source **out, err *e)
{
    ipc_endpoint ep = fake_endpoint(f);
    ipc_provider p = {.name = "System.Runtime", .level = 4};
    ipc_collect_cfg collect = {.providers = &p, .n_providers = 1, .buffer_mb = 1, .format = 1};
    source_cfg cfg = with ? *with : (source_cfg){0};
    consumer_init(c);
    cfg.wake = wake;
    cfg.arg = c;
    int rc = source_open_live(&ep, &collect, &cfg, deadline_in_ms(5000), NULL, out, e);
    ipc_endpoint_fini(&ep);
    return rc;
}

/* ---- files
 * --------------------------------------------------------------------------------------------------------------- */
static void a_file_gives_all_its_events_and_totals(void **state)
{
    (void)state;
    consumer c;
    source *s = open_file(&c, NULL, 0, 0);
    assert_int_equal(take_all(&c, s, 10), FILE_EVENTS);
    wait_last(&c);
    source_summary sum;
    assert_true(source_summary_of(s, &sum));
    assert_true(sum.complete);
    assert_int_equal(sum.events, FILE_EVENTS);
    assert_int_equal(sum.bytes, 10442);
    assert_int_equal(sum.lost, 0);
    assert_int_equal(sum.dropped, 0);
    assert_int_equal(sum.pointer_size, 8);
    assert_int_equal(sum.processors, 2);
    assert_true(sum.pid > 0);
    assert_in_range(sum.duration_ns / 1000000, 2200, 2500);
    assert_int_equal(sum.collect_version, 0);
    uint64_t all = 0;
    for (uint32_t i = 0; i < source_kinds(s); i++)
        all += source_kind(s, i)->count;
    assert_int_equal(all, FILE_EVENTS);
    drop(s);
}

static void wants_choose_by_provider_and_event(void **state)
{
    (void)state;
    static const struct {
        source_want want[2];
        size_t n;
        unsigned events;
    } cases[] = {
        {{{"System.Runtime", "EventCounters"}}, 1, COUNTERS},
        {{{"system.runtime", NULL}}, 1, COUNTERS},
        {{{"System.Runtime", "*"}}, 1, COUNTERS},
        {{{"System.Runtime", "eventcounters"}}, 1, 0},
        {{{"System.Runtime2", NULL}}, 1, 0},
        {{{"Microsoft-Windows-DotNETRuntime", "GC/FinalizersStart"}}, 1, 1},
        {{{"Microsoft-Windows-DotNETRuntime", NULL}, {"Microsoft-DotNETCore-EventPipe", "ProcessInfo"}}, 2, 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        consumer c;
        source *s = open_file(&c, cases[i].want, cases[i].n, 0);
        assert_int_equal(take_all(&c, s, 1000), cases[i].events);
        source_summary sum;
        assert_true(source_summary_of(s, &sum));
        assert_int_equal(sum.events, FILE_EVENTS); /* the others are counted */
        drop(s);
    }
}

static void a_record_is_read_with_its_kind(void **state)
{
    (void)state;
    consumer c;
    const source_want want = {"System.Runtime", "EventCounters"};
    source *s = open_file(&c, &want, 1, 0);
    wait_last(&c);
    source_record *r = source_take(s, 1, SIZE_MAX);
    assert_non_null(r);
    assert_null(r->next);
    assert_true(slice_eq_str(r->kind->provider, "System.Runtime"));
    assert_true(slice_eq_str(r->kind->display, "EventCounters"));
    int i = nt_field_index(r->kind->schema, SLICE_LIT("Name"));
    assert_true(i >= 0);
    nt_value v;
    char text[64];
    assert_true(nt_get(r->kind->schema, slice_of(r->payload, r->n), (uint32_t)i, &v));
    size_t n = nt_utf8(v.raw, text, sizeof text);
    assert_true(slice_eq_str(slice_of(text, n), "cpu-usage"));
    assert_in_range(r->time_ns / 1000000, 900, 1200);
    assert_int_equal(r->unix_ns - r->time_ns, ({
                         source_summary sum;
                         (void)source_summary_of(s, &sum);
                         sum.start_unix_ns;
                     }));
    source_records_free(r);
    drop(s);
}

static void a_file_waits_for_a_slow_consumer(void **state)
{
    (void)state;
    consumer c;
    source *s = open_file(&c, NULL, 0, 3);
    wait_ready(&c, s);
    assert_false(source_ended(s)); /* it cannot have: 57 do not fit in 3 */
    assert_int_equal(take_all(&c, s, 2), FILE_EVENTS);
    source_summary sum;
    assert_true(source_summary_of(s, &sum));
    assert_int_equal(sum.dropped, 0);
    drop(s);
}

static void stopping_a_file_counts_the_rest(void **state)
{
    (void)state;
    consumer c;
    source *s = open_file(&c, NULL, 0, 5);
    wait_ready(&c, s);
    source_stop(s, deadline_in_ms(5000));
    wait_last(&c);
    source_summary sum;
    assert_true(source_summary_of(s, &sum));
    assert_true(sum.complete);
    assert_int_equal(sum.events, FILE_EVENTS);
    assert_int_equal(sum.dropped, 0); /* nobody wanted them any more */
    unsigned kept = take_all(&c, s, 100);
    assert_in_range(kept, 1, 5); /* what was queued is still to be had */
    drop(s);
}

static void a_file_stopped_without_time_is_incomplete(void **state)
{
    (void)state;
    consumer c;
    source *s = open_file(&c, NULL, 0, 1);
    wait_ready(&c, s);
    source_stop(s, mono_ns());
    wait_last(&c);
    source_summary sum;
    assert_true(source_summary_of(s, &sum));
    assert_false(sum.complete);
    assert_int_equal(sum.incomplete.kind, ERR_TIMEOUT);
    drop(s);
}

static void closing_a_file_ends_it_at_once(void **state)
{
    (void)state;
    int fds = count_fds(), threads = count_threads();
    consumer c;
    source *s = open_file(&c, NULL, 0, 1);
    wait_ready(&c, s);
    source_close(s);
    wait_last(&c);
    source_summary sum;
    assert_true(source_summary_of(s, &sum));
    assert_false(sum.complete);
    assert_int_equal(sum.incomplete.kind, ERR_CANCELLED);
    assert_null(source_take(s, 10, SIZE_MAX));
    drop(s);
    assert_nothing_leaked(fds, threads);
}

static void files_that_cannot_be_are_refused_at_once(void **state)
{
    (void)state;
    source *s;
    err e = {0};
    source_cfg cfg = {.wake = wake};
    assert_int_equal(source_open_file("/nonexistent", &cfg, &s, &e), -ERR_NOT_FOUND);
    assert_string_equal(e.detail, "/nonexistent");
    err_clear(&e);
    assert_int_equal(source_open_file("/dev/zero", &cfg, &s, &e), -ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(e.message, "a plain file"));
    err_clear(&e);
    cfg.save_to = "/tmp/x";
    assert_int_equal(source_open_file(FILE_NAME, &cfg, &s, &e), -ERR_INVALID_ARGUMENT);
    err_clear(&e);
    cfg.save_to = NULL;
    cfg.n_want = SOURCE_WANTS_MAX + 1;
    assert_int_equal(source_open_file(FILE_NAME, &cfg, &s, &e), -ERR_LIMIT);
    assert_null(s);
}

/* Offsets at which one object ends and the next begins. */
static size_t boundary(const recording *r, size_t i)
{
    return i < r->n_objects ? (size_t)(r->objects[i].head.p - r->bytes) : r->n - 1;
}

static void a_file_cut_at_every_block_keeps_what_came_before(void **state)
{
    (void)state;
    tape t;
    tape_init(&t);
    char path[] = "/tmp/lunette-test-XXXXXX";
    int fd = mkstemp(path);
    uint64_t before = 0;
    for (size_t i = 0; i <= t.r.n_objects; i++) {
        size_t n = boundary(&t.r, i);
        assert_int_equal(pwrite(fd, t.r.bytes, n, 0), (ssize_t)n);
        consumer c;
        consumer_init(&c);
        source_cfg cfg = {.wake = wake, .arg = &c};
        source *s;
        assert_int_equal(source_open_file(path, &cfg, &s, NULL), 0);
        unsigned taken = take_all(&c, s, 100);
        wait_last(&c);
        source_summary sum;
        assert_true(source_summary_of(s, &sum));
        assert_false(sum.complete);
        assert_int_equal(sum.incomplete.kind, ERR_TRUNCATED);
        assert_int_equal(sum.events, taken);
        assert_true(sum.events >= before);
        before = sum.events;
        drop(s);
    }
    assert_int_equal(before, FILE_EVENTS);
    (void)close(fd);
    (void)unlink(path);
    recording_free(&t.r);
}

/* ---- live sessions
 * ------------------------------------------------------------------------------------------------------- */
static void a_live_session_gives_the_same_as_its_file(void **state)
{
    (void)state;
    int fds = count_fds(), threads = count_threads();
    char saved[64];
    tape t;
    tape_init(&t);
    fake f = {0};
    fake_start(&f, serve, &t, 0);
    (void)snprintf(saved, sizeof saved, "%s/saved", f.dir);
    consumer c;
    source *s;
    source_cfg cfg = {.save_to = saved};
    err e = {0};
    assert_int_equal(open_live(&f, &c, &cfg, &s, &e), 0);
    unsigned n = 0;
    while (n < FILE_EVENTS) { /* they come before any stop */
        wait_ready(&c, s);
        source_record *r = source_take(s, 7, SIZE_MAX);
        for (const source_record *i = r; i; i = i->next)
            n++;
        source_records_free(r);
    }
    source_stop(s, deadline_in_ms(5000));
    wait_last(&c);
    source_summary sum;
    assert_true(source_summary_of(s, &sum));
    assert_true(sum.complete);
    assert_int_equal(sum.events, FILE_EVENTS);
    assert_int_equal(sum.bytes, t.r.n);
    assert_int_equal(sum.saved_bytes, t.r.n);
    assert_int_equal(sum.collect_version, 5);
    assert_int_equal(f.stops, 1);
    struct stat st;
    assert_int_equal(stat(saved, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    recording again;
    assert_int_equal(recording_load(saved, &again, NULL), 0);
    assert_int_equal(again.n, t.r.n);
    assert_memory_equal(again.bytes, t.r.bytes, t.r.n);
    recording_free(&again);
    drop(s);
    t.stop = t.ended = false;
    assert_int_equal(open_live(&f, &c, &cfg, &s, &e), -ERR_CONFLICT); /* never over another file */
    assert_string_equal(e.detail, saved);
    (void)unlink(saved);
    fake_stop(&f);
    recording_free(&t.r);
    assert_nothing_leaked(fds, threads);
}

static void a_live_session_drops_what_nobody_takes_and_says_so(void **state)
{
    (void)state;
    tape t;
    tape_init(&t);
    fake f = {0};
    fake_start(&f, serve, &t, 0);
    consumer c;
    source *s;
    source_cfg cfg = {.queue_events = 5};
    assert_int_equal(open_live(&f, &c, &cfg, &s, NULL), 0);
    source_stop(s, deadline_in_ms(5000));
    wait_last(&c);
    source_summary sum;
    assert_true(source_summary_of(s, &sum));
    assert_true(sum.complete);
    assert_int_equal(sum.events, FILE_EVENTS);
    assert_int_equal(sum.dropped, FILE_EVENTS - 5);
    assert_int_equal(take_all(&c, s, 100), 5);
    drop(s);
    fake_stop(&f);
    recording_free(&t.r);
}

static void a_target_that_dies_at_every_block_leaves_what_came_before(void **state)
{
    (void)state;
    int fds = count_fds(), threads = count_threads();
    uint64_t before = 0;
    tape t;
    tape_init(&t);
    for (size_t i = 0; i <= t.r.n_objects; i++)
        for (int inside = 0; inside <= 1; inside++) {
            t.cut = boundary(&t.r, i) - (size_t)(inside * 3);
            t.ended = t.stop = false;
            fake f = {0};
            fake_start(&f, serve, &t, 0);
            consumer c;
            source *s;
            assert_int_equal(open_live(&f, &c, NULL, &s, NULL), 0);
            wait_last(&c);
            source_summary sum;
            assert_true(source_summary_of(s, &sum));
            assert_false(sum.complete);
            assert_int_equal(sum.incomplete.kind, ERR_PROCESS_EXITED);
            assert_int_equal(sum.bytes, t.cut);
            assert_int_equal(sum.events, take_all(&c, s, 1000));
            if (!inside) {
                assert_true(sum.events >= before);
                before = sum.events;
            }
            assert_int_equal(f.stops, 0);
            drop(s);
            fake_stop(&f);
        }
    assert_int_equal(before, FILE_EVENTS);
    recording_free(&t.r);
    assert_nothing_leaked(fds, threads);
}

static void a_damaged_stream_ends_the_session_and_says_where(void **state)
{
    (void)state;
    tape t;
    tape_init(&t);
    t.damage_at = boundary(&t.r, t.r.n_objects / 2); /* a begin tag */
    fake f = {0};
    fake_start(&f, serve, &t, 0);
    consumer c;
    source *s;
    assert_int_equal(open_live(&f, &c, NULL, &s, NULL), 0);
    wait_last(&c);
    source_summary sum;
    assert_true(source_summary_of(s, &sum));
    assert_false(sum.complete);
    assert_int_equal(sum.incomplete.kind, ERR_MALFORMED);
    assert_true(sum.incomplete.has_offset);
    assert_int_equal(sum.incomplete.offset, t.damage_at);
    assert_true(sum.events > 0 && sum.events < FILE_EVENTS);
    assert_int_equal(f.stops, 1); /* the target is not left with a session */
    drop(s);
    fake_stop(&f);
    recording_free(&t.r);
}

static void closing_a_live_session_stops_it_on_the_target(void **state)
{
    (void)state;
    int fds = count_fds(), threads = count_threads();
    tape t;
    tape_init(&t);
    fake f = {0};
    fake_start(&f, serve, &t, 0);
    consumer c;
    source *s;
    assert_int_equal(open_live(&f, &c, NULL, &s, NULL), 0);
    wait_ready(&c, s);
    int64_t from = mono_ns();
    drop(s);
    assert_true(mono_ns() - from < 950000000);
    assert_int_equal(f.stops, 1);
    assert_int_equal(sources_live(), 0);
    fake_stop(&f);
    recording_free(&t.r);
    assert_nothing_leaked(fds, threads);
}

static void saving_is_bounded_and_a_full_disk_is_told(void **state)
{
    (void)state;
    for (int full = 0; full <= 1; full++) {
        tape t;
        tape_init(&t);
        fake f = {0};
        fake_start(&f, serve, &t, 0);
        char saved[64];
        (void)snprintf(saved, sizeof saved, "%s/saved", f.dir);
        consumer c;
        source *s;
        source_cfg cfg = {.save_to = saved, .save_max = full ? 0 : 1000};
        struct rlimit old, small = {1000, RLIM_INFINITY};
        assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
        (void)signal(SIGXFSZ, SIG_IGN);
        if (full) assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0); /* stands in for a full disk */
        assert_int_equal(open_live(&f, &c, &cfg, &s, NULL), 0);
        source_stop(s, deadline_in_ms(5000));
        wait_last(&c);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
        source_summary sum;
        assert_true(source_summary_of(s, &sum));
        assert_true(sum.complete); /* the session itself is none the worse */
        assert_int_equal(sum.events, FILE_EVENTS);
        assert_int_equal(sum.saved_bytes, 1000);
        assert_int_equal(sum.save_truncated, !full);
        assert_int_equal(sum.save_error.kind, full ? ERR_IO : ERR_NONE);
        drop(s);
        (void)unlink(saved);
        fake_stop(&f);
        recording_free(&t.r);
    }
}

static void a_session_that_cannot_start_leaves_no_file(void **state)
{
    (void)state;
    int fds = count_fds(), threads = count_threads();
    fake f = {0};
    fake_start(&f, serve, NULL, 0);
    fake_stop(&f); /* nobody listens there now */
    char saved[] = "/tmp/lunette-test-saved";
    consumer c;
    source *s;
    err e = {0};
    source_cfg cfg = {.save_to = saved};
    assert_int_equal(open_live(&f, &c, &cfg, &s, &e), -ERR_ENDPOINT_UNAVAILABLE);
    assert_null(s);
    assert_int_equal(access(saved, F_OK), -1);
    assert_int_equal(c.wakes, 0);
    assert_int_equal(sources_live(), 0);
    assert_nothing_leaked(fds, threads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_gives_all_its_events_and_totals),
        cmocka_unit_test(wants_choose_by_provider_and_event),
        cmocka_unit_test(a_record_is_read_with_its_kind),
        cmocka_unit_test(a_file_waits_for_a_slow_consumer),
        cmocka_unit_test(stopping_a_file_counts_the_rest),
        cmocka_unit_test(a_file_stopped_without_time_is_incomplete),
        cmocka_unit_test(closing_a_file_ends_it_at_once),
        cmocka_unit_test(files_that_cannot_be_are_refused_at_once),
        cmocka_unit_test(a_file_cut_at_every_block_keeps_what_came_before),
        cmocka_unit_test(a_live_session_gives_the_same_as_its_file),
        cmocka_unit_test(a_live_session_drops_what_nobody_takes_and_says_so),
        cmocka_unit_test(a_target_that_dies_at_every_block_leaves_what_came_before),
        cmocka_unit_test(a_damaged_stream_ends_the_session_and_says_where),
        cmocka_unit_test(closing_a_live_session_stops_it_on_the_target),
        cmocka_unit_test(saving_is_bounded_and_a_full_disk_is_told),
        cmocka_unit_test(a_session_that_cannot_start_leaves_no_file),
    };
    fake_warm_up();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
