/* SPDX-License-Identifier: MIT */
/* test_log.c: log lines as a reader of stderr sees them, and what happens when nobody can. */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "check.h"

/* stderr for the length of a test: a pipe whose read end we hold. */
typedef struct capture {
    int saved, out;
    buf text;
} capture;

static void capture_fd(capture *c, int write_end)
{
    fflush(stderr);
    c->saved = dup(STDERR_FILENO);
    assert_int_equal(dup2(write_end, STDERR_FILENO), STDERR_FILENO);
    close(write_end);
}

static void capture_begin(capture *c)
{
    int fd[2];
    assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
    *c = (capture){.out = fd[0]};
    capture_fd(c, fd[1]);
}

static void restore(capture *c)
{
    dup2(c->saved, STDERR_FILENO);
    close(c->saved);
}

/* Puts stderr back; c->text is what was written. */
static void capture_end(capture *c)
{
    restore(c);
    ssize_t n;
    uint8_t piece[65536];
    while ((n = read(c->out, piece, sizeof piece)) > 0)
        buf_put(&c->text, piece, (size_t)n);
    close(c->out);
}

static slice first_line(slice text)
{
    const uint8_t *end = text.n ? memchr(text.p, '\n', text.n) : NULL;
    assert_non_null(end);
    return slice_of(text.p, (size_t)(end - text.p));
}

/* The string or integer member of a one-level JSON object, as text; fails when it is not there. */
static void member(slice line, const char *key, char *to, size_t cap)
{
    jsonr r;
    jsonr_init(&r, line);
    assert_int_equal(jsonr_next(&r), JSON_OBJECT);
    bool found = false;
    json_tok t;
    while ((t = jsonr_next(&r)) == JSON_KEY) {
        bool wanted = slice_eq_str(r.str, key);
        t = jsonr_next(&r);
        if (!wanted) continue;
        found = true;
        if (t == JSON_STR) snprintf(to, cap, "%.*s", (int)r.str.n, (const char *)r.str.p);
        if (t == JSON_INT) snprintf(to, cap, "%lld", (long long)r.i);
        if (t == JSON_TRUE) snprintf(to, cap, "true");
    }
    assert_int_equal(t, JSON_OBJECT_END);
    assert_int_equal(jsonr_next(&r), JSON_END);
    jsonr_fini(&r);
    if (!found) fail_msg("no member %s in %.*s", key, (int)line.n, (const char *)line.p);
}

static void assert_member(slice line, const char *key, const char *want)
{
    char got[8192] = "";
    member(line, key, got, sizeof got);
    assert_string_equal(got, want);
}

static void a_json_line_has_its_members(void **state)
{
    (void)state;
    capture c;
    log_setup(LOG_INFO, LOG_JSON);
    capture_begin(&c);
    errno = EBUSY;
    log_msg(LOG_DEBUG, "ipc", "not seen");
    log_msg(LOG_WARNING, "ipc", "socket %d\nis \"old\"", 7);
    assert_int_equal(errno, EBUSY);
    capture_end(&c);
    slice line = first_line(buf_view(&c.text));
    assert_int_equal(line.n + 1, c.text.n);
    assert_member(line, "level", "warning");
    assert_member(line, "area", "ipc");
    assert_member(line, "msg", "socket 7\nis \"old\"");
    char ts[64];
    member(line, "ts", ts, sizeof ts);
    assert_int_equal(strlen(ts), strlen("2026-01-01T00:00:00.000Z"));
    assert_int_equal(ts[10], 'T');
    assert_int_equal(ts[23], 'Z');
    buf_fini(&c.text);
}

static void an_error_record_is_spelled_out(void **state)
{
    (void)state;
    capture c;
    err e = {0};
    err_at(&e, ERR_MALFORMED, 17, "block \"x\" is bad");
    err_detail(&e, "file.nettrace");
    err_hint(&e, "record it again");
    e.sys = 5;
    e.hresult = 0x80131385;
    capture_begin(&c);
    log_err(LOG_ERROR, "nettrace", "cannot read", &e);
    log_err(LOG_ERROR, "nettrace", "bare", NULL);
    log_raw(LOG_NOTICE, "x", "raw", "\"pid\":12");
    capture_end(&c);
    slice text = buf_view(&c.text), line = first_line(text);
    assert_member(line, "msg", "cannot read");
    assert_member(line, "kind", "MalformedInput");
    assert_member(line, "error", "block \"x\" is bad");
    assert_member(line, "detail", "file.nettrace");
    assert_member(line, "hint", "record it again");
    assert_member(line, "offset", "17");
    assert_member(line, "errno", "5");
    assert_member(line, "hresult", "0x80131385");
    text = slice_of(text.p + line.n + 1, text.n - line.n - 1);
    line = first_line(text);
    assert_member(line, "kind", "None");
    text = slice_of(text.p + line.n + 1, text.n - line.n - 1);
    assert_member(first_line(text), "pid", "12");
    assert_member(first_line(text), "level", "notice");
    buf_fini(&c.text);
}

static void a_text_line_commands_no_terminal(void **state)
{
    (void)state;
    capture c;
    log_setup(LOG_DEBUG, LOG_TEXT);
    assert_int_equal(log_level_min(), LOG_DEBUG);
    capture_begin(&c);
    log_raw(LOG_DEBUG, "http", "a\x1b[31mred\nline \xff", "\"pid\":1");
    capture_end(&c);
    log_setup(LOG_INFO, LOG_JSON);
    slice line = first_line(buf_view(&c.text));
    assert_int_equal(line.n + 1, c.text.n);
    assert_true(slice_ends(line, SLICE_LIT(" debug   http: a [31mred line \xef\xbf\xbd  {\"pid\":1}")));
    buf_fini(&c.text);
}

static void a_long_line_is_cut_and_says_so(void **state)
{
    (void)state;
    static char text[20000], members[6000];
    memset(text, 1, sizeof text - 1); /* six bytes each in JSON */
    snprintf(members, sizeof members, "\"m\":\"%0*d\"", 5000, 1);
    capture c;
    capture_begin(&c);
    log_raw(LOG_INFO, "x", text, NULL);
    log_raw(LOG_INFO, "x", "short", members);
    capture_end(&c);
    slice line = first_line(buf_view(&c.text));
    assert_true(line.n < LOG_LINE_MAX);
    assert_member(line, "truncated", "true");
    slice rest = slice_of(c.text.p + line.n + 1, c.text.n - line.n - 1);
    assert_member(first_line(rest), "msg", "short");
    assert_member(first_line(rest), "truncated", "true");
    buf_fini(&c.text);
}

static void a_full_pipe_drops_lines_and_counts_them(void **state)
{
    (void)state;
    capture c;
    capture_begin(&c);
    uint64_t before = log_dropped();
    static char text[2000];
    memset(text, 'x', sizeof text - 1);
    int64_t start = mono_ns();
    for (int i = 0; i < 200; i++) /* 400 KB into 64 KB that nobody reads */
        log_raw(LOG_INFO, "x", text, NULL);
    int64_t took_ms = (mono_ns() - start) / 1000000;
    uint64_t dropped = log_dropped() - before;
    assert_in_range(dropped, 150, 195);
    assert_true(took_ms < 1000); /* waits once, not 170 times */
    uint8_t piece[65536];
    assert_true(read(c.out, piece, sizeof piece) > 0);
    log_raw(LOG_INFO, "x", "told", NULL);
    log_raw(LOG_INFO, "x", "only once", NULL);
    capture_end(&c);
    char want[32], *told = strstr((char *)(buf_u8(&c.text, 0), c.text.p), "\"dropped\":");
    assert_non_null(told);
    snprintf(want, sizeof want, "\"dropped\":%llu}", (unsigned long long)dropped);
    assert_memory_equal(told, want, strlen(want));
    assert_null(strstr(told + 1, "\"dropped\":"));
    buf_fini(&c.text);
}

static void a_closed_pipe_or_full_disk_harms_nobody(void **state)
{
    (void)state;
    signal(SIGPIPE, SIG_DFL); /* would kill this program */
    capture c;
    capture_begin(&c);
    close(c.out);
    uint64_t before = log_dropped();
    log_msg(LOG_INFO, "x", "nobody hears");
    log_msg(LOG_INFO, "x", "nobody hears");
    assert_int_equal(log_dropped() - before, 2);
    restore(&c);
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_true(full >= 0);
    capture_fd(&c, full);
    log_msg(LOG_INFO, "x", "no space");
    assert_int_equal(log_dropped() - before, 3);
    close(STDERR_FILENO);
    log_msg(LOG_INFO, "x", "no descriptor");
    assert_int_equal(log_dropped() - before, 4);
    restore(&c);
}

/* A file that takes 100 bytes and no more: a line is cut in its middle, and the next that gets through begins on a line
 * of its own. */
static void a_line_cut_by_the_disk_spoils_no_other(void **state)
{
    (void)state;
    FILE *f = tmpfile();
    struct rlimit old, small = {.rlim_cur = 100};
    capture c;
    assert_non_null(f);
    capture_begin(&c);
    log_msg(LOG_INFO, "x", "this one tells what other tests dropped");
    capture_end(&c);
    buf_fini(&c.text);
    int fd = dup(fileno(f));
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    small.rlim_max = old.rlim_max;
    log_setup(LOG_INFO, LOG_TEXT);
    capture_fd(&c, fd);
    uint64_t before = log_dropped();
    setrlimit(RLIMIT_FSIZE, &small);
    log_msg(LOG_INFO, "x", "%0*d", 200, 1);
    setrlimit(RLIMIT_FSIZE, &old);
    log_msg(LOG_INFO, "x", "after");
    restore(&c);
    log_setup(LOG_INFO, LOG_JSON);
    assert_int_equal(log_dropped() - before, 1);
    char text[512];
    size_t n = (size_t)pread(fileno(f), text, sizeof text - 1, 0);
    fclose(f);
    assert_true(n > 100 && text[100] == '\n');
    text[n] = '\0';
    assert_non_null(strstr(text + 101, " x: after [1 line dropped before this]\n"));
}

static void *log_many(void *arg)
{
    for (int i = 0; i < 100; i++)
        log_msg(LOG_INFO, arg, "line %d", i);
    return NULL;
}

static void *read_all(void *arg)
{
    capture *c = arg;
    uint8_t piece[4096];
    ssize_t n;
    while ((n = read(c->out, piece, sizeof piece)) > 0)
        buf_put(&c->text, piece, (size_t)n);
    return NULL;
}

static void lines_of_threads_do_not_mix(void **state)
{
    (void)state;
    capture c;
    capture_begin(&c);
    pthread_t reader, writers[4];
    pthread_create(&reader, NULL, read_all, &c);
    char *names[] = {"w0", "w1", "w2", "w3"};
    uint64_t before = log_dropped();
    for (int i = 0; i < 4; i++)
        pthread_create(&writers[i], NULL, log_many, names[i]);
    for (int i = 0; i < 4; i++)
        pthread_join(writers[i], NULL);
    restore(&c);
    pthread_join(reader, NULL);
    close(c.out);
    size_t lines = 0;
    for (slice rest = buf_view(&c.text); rest.n > 0; lines++) {
        slice line = first_line(rest);
        assert_member(line, "level", "info");
        rest = slice_of(rest.p + line.n + 1, rest.n - line.n - 1);
    }
    assert_int_equal(lines + (log_dropped() - before), 400);
    buf_fini(&c.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_json_line_has_its_members),
        cmocka_unit_test(an_error_record_is_spelled_out),
        cmocka_unit_test(a_text_line_commands_no_terminal),
        cmocka_unit_test(a_long_line_is_cut_and_says_so),
        cmocka_unit_test(a_full_pipe_drops_lines_and_counts_them),
        cmocka_unit_test(a_closed_pipe_or_full_disk_harms_nobody),
        cmocka_unit_test(a_line_cut_by_the_disk_spoils_no_other),
        cmocka_unit_test(lines_of_threads_do_not_mix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
