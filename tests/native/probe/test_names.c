/* SPDX-License-Identifier: MIT */
/* test_names.c: a session that breaks off has no rundown: another session of the same process names its stacks.
 * Recording: tests/data/recordings/throw (60 throws, then the rundown); the live target is a server that plays it. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ipc/fake.h"
#include "ipc/replay_internal.h"
#include "probe/source.h"

#define FILE_NAME LUNETTE_SOURCE_DIR "/tests/data/recordings/throw.nettrace"
#define EVENTS    240 /* throw, catch, its end, the end of each of 60 */

/* ---- a server that plays the recording: the first session breaks off, each later one is whole ---- */
typedef struct tape {
    recording r;
    size_t cut;
    int sessions;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stop, ended;
} tape;

static void set(tape *t, bool *what)
{
    pthread_mutex_lock(&t->lock);
    *what = true;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

static void wait_for(tape *t, const bool *what)
{
    pthread_mutex_lock(&t->lock);
    while (!*what)
        pthread_cond_wait(&t->changed, &t->lock);
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
    if (t->sessions++ == 0) {
        fake_write(fd, t->r.bytes, t->cut);
    } else {
        wait_for(t, &t->stop); /* a rundown comes when the session is stopped */
        fake_write(fd, t->r.bytes, t->r.n);
        set(t, &t->ended);
    }
    (void)shutdown(fd, SHUT_RDWR);
}

/* ---- a consumer that waits for the end only ---- */
typedef struct consumer {
    pthread_mutex_t lock;
    pthread_cond_t some;
    bool last;
} consumer;

static void wake(void *arg, bool last)
{
    consumer *c = arg;
    pthread_mutex_lock(&c->lock);
    c->last = c->last || last;
    pthread_cond_broadcast(&c->some);
    pthread_mutex_unlock(&c->lock);
}

static void wait_last(consumer *c)
{
    pthread_mutex_lock(&c->lock);
    while (!c->last)
        pthread_cond_wait(&c->some, &c->lock);
    pthread_mutex_unlock(&c->lock);
}

static source *open_live(const fake *f, consumer *c, const probe_program *program, source *names_for)
{
    ipc_endpoint ep = fake_endpoint(f);
    ipc_provider p = {.name = "Microsoft-Windows-DotNETRuntime", .keywords = 0x8000, .level = 4};
    ipc_collect_cfg collect = {.providers = &p, .n_providers = 1, .buffer_mb = 1, .format = 1};
    *c = (consumer){.lock = PTHREAD_MUTEX_INITIALIZER, .some = PTHREAD_COND_INITIALIZER};
    source_cfg cfg = {.program = program, .names_for = names_for, .wake = wake, .arg = c};
    source *s;
    err e = {0};
    assert_int_equal(source_open_live(&ep, &collect, &cfg, deadline_in_ms(5000), NULL, &s, &e), 0);
    ipc_endpoint_fini(&ep);
    return s;
}

static bool result_has(source *s, const char *text)
{
    buf out;
    buf_init(&out, 0);
    assert_true(source_result(s, &out));
    bool has = memmem(out.p, out.n, text, strlen(text)) != NULL;
    buf_fini(&out);
    return has;
}

static size_t boundary(const recording *r, size_t i) { return (size_t)(r->objects[i].head.p - r->bytes); }

/* Bytes up to which all throws have come and no method yet. */
static size_t before_the_rundown(const recording *r)
{
    for (size_t i = 0; i < r->n_objects; i++) {
        nt_options o = nt_options_default();
        nt_reader *reader = nt_new(&o, &(nt_sink){0}, NULL, NULL);
        assert_non_null(reader);
        (void)nt_feed(reader, r->bytes, boundary(r, i), NULL);
        uint64_t events = nt_stats_of(reader)->events;
        nt_free(reader);
        if (events >= EVENTS) return boundary(r, i);
    }
    fail_msg("the recording has fewer events than its description says");
    return 0;
}

static void another_session_names_the_stacks_of_one_that_broke_off(void **state)
{
    (void)state;
    int fds = count_fds(), threads = count_threads();
    tape t = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    assert_int_equal(recording_load(FILE_NAME, &t.r, NULL), 0);
    t.cut = before_the_rundown(&t.r);
    fake f = {0};
    fake_start(&f, serve, &t, 0);

    const probe_named event = {"throw", "Microsoft-Windows-DotNETRuntime/Exception/Start"},
                      column = {"stack", "@stack"};
    const probe_spec keep = {.name = "last", .op = PROBE_LAST, .n = 1, .row = {&column, 1}};
    const probe_program program = {.events = &event, .n_events = 1, .keep = &keep, .n_keep = 1};
    consumer c, c2;
    source *s = open_live(&f, &c, &program, NULL);
    wait_last(&c);
    source_summary sum;
    assert_true(source_summary_of(s, &sum));
    assert_false(sum.complete);
    assert_false(result_has(s, "Throwing.ThrowOrder"));

    source *naming = open_live(&f, &c2, NULL, s);
    source_stop(naming, deadline_in_ms(5000));
    wait_last(&c2);
    assert_true(source_summary_of(naming, &sum));
    assert_true(sum.complete);
    assert_null(source_take(naming, 1, SIZE_MAX)); /* its events are for the names only */
    source_close(naming);
    source_unref(naming);
    assert_true(result_has(s, "Throwing.ThrowOrder"));

    source_close(s);
    source_unref(s);
    assert_true(sources_wait(deadline_in_ms(5000)));
    fake_stop(&f);
    recording_free(&t.r);
    assert_nothing_leaked(fds, threads);
}

/* The one that is named may be let go first: what its helper holds is freed with the helper. */
static void the_named_source_may_go_before_the_other(void **state)
{
    (void)state;
    int fds = count_fds(), threads = count_threads();
    tape t = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    assert_int_equal(recording_load(FILE_NAME, &t.r, NULL), 0);
    t.cut = before_the_rundown(&t.r);
    fake f = {0};
    fake_start(&f, serve, &t, 0);
    consumer c, c2;
    source *s = open_live(&f, &c, NULL, NULL);
    source *naming = open_live(&f, &c2, NULL, s);
    wait_last(&c);
    source_close(s);
    source_unref(s);
    source_stop(naming, deadline_in_ms(5000));
    wait_last(&c2);
    source_close(naming);
    source_unref(naming);
    assert_true(sources_wait(deadline_in_ms(5000)));
    fake_stop(&f);
    recording_free(&t.r);
    assert_nothing_leaked(fds, threads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_session_names_the_stacks_of_one_that_broke_off),
        cmocka_unit_test(the_named_source_may_go_before_the_other),
    };
    fake_warm_up();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
