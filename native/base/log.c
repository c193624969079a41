/* SPDX-License-Identifier: MIT */
/* log.c: one line a call to stderr. A line is at most PIPE_BUF bytes and is written only when poll says there is room,
 * so that a pipe that nobody reads delays a caller by WAIT_MS once and then by nothing. */
#include "base/log.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "base/utf.h"

#define WAIT_MS 20

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static log_level min_level = LOG_INFO; /* these are guarded by lock, but min_level, which is read by atomic load */
static log_format format = LOG_AUTO;
static uint64_t dropped;      /* in all */
static uint64_t dropped_told; /* of them told by a line that got through */
static bool stuck;            /* the last line found no room: do not wait again */
static bool mid_line;         /* the last write was cut short */

static const char *const names[] = {"debug", "info", "notice", "warning", "error"};

void log_setup(log_level min, log_format fmt)
{
    __atomic_store_n(&min_level, min, __ATOMIC_RELAXED);
    pthread_mutex_lock(&lock);
    format = fmt;
    pthread_mutex_unlock(&lock);
}

log_level log_level_min(void) { return __atomic_load_n(&min_level, __ATOMIC_RELAXED); }

uint64_t log_dropped(void)
{
    pthread_mutex_lock(&lock);
    uint64_t n = dropped;
    pthread_mutex_unlock(&lock);
    return n;
}

/* ---- writing ------------------------------------------------------------------------------------------------------
 */

/* write() with SIGPIPE kept from the process: a closed log is no reason to die. */
static ssize_t write_quietly(const uint8_t *p, size_t n)
{
    sigset_t pipe_only, before, pending;
    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &pipe_only, &before);
    ssize_t wrote = write(STDERR_FILENO, p, n);
    int sys = errno;
    if (wrote < 0 && sys == EPIPE && !sigismember(&pending, SIGPIPE)) {
        sigtimedwait(&pipe_only, NULL, &(struct timespec){0});
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = sys;
    return wrote;
}

static bool has_room(void)
{
    struct pollfd pf = {.fd = STDERR_FILENO, .events = POLLOUT};
    int rc = poll(&pf, 1, stuck ? 0 : WAIT_MS);
    stuck = rc == 0;
    return rc == 1 && (pf.revents & POLLOUT) && !(pf.revents & (POLLERR | POLLNVAL));
}

static void put_line(const buf *line) /* under the lock */
{
    ssize_t wrote = has_room() ? write_quietly(line->p, line->n) : 0;
    if (wrote == (ssize_t)line->n) {
        mid_line = false;
        dropped_told = dropped;
        return;
    }
    if (wrote > 0) mid_line = true;
    dropped++;
}

/* ---- the two forms of a line --------------------------------------------------------------------------------------
 */

static void put_time(buf *out, bool with_date)
{
    struct timespec now;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    char text[40];
    size_t n = strftime(text, sizeof text, with_date ? "%Y-%m-%dT%H:%M:%S" : "%H:%M:%S", &tm);
    buf_put(out, text, n);
    buf_printf(out, ".%03ldZ", now.tv_nsec / 1000000);
}

static void json_line(buf *out, log_level lv, const char *area, slice message, slice members, bool cut)
{
    buf ts = {0};
    put_time(&ts, true);
    jsonw w;
    jsonw_init(&w, out);
    jsonw_object(&w);
    jsonw_key_lit(&w, "ts");
    jsonw_str(&w, buf_view(&ts));
    jsonw_key_lit(&w, "level");
    jsonw_cstr(&w, names[lv]);
    jsonw_key_lit(&w, "area");
    jsonw_cstr(&w, area);
    jsonw_key_lit(&w, "msg");
    jsonw_str(&w, message);
    if (dropped > dropped_told) {
        jsonw_key_lit(&w, "dropped");
        jsonw_uint(&w, dropped - dropped_told);
    }
    if (cut) {
        jsonw_key_lit(&w, "truncated");
        jsonw_bool(&w, true);
    }
    if (members.n) {
        buf_u8(out, ',');
        buf_slice(out, members);
    }
    jsonw_end_object(&w);
    buf_u8(out, '\n');
    buf_fini(&ts);
}

/* A terminal obeys control characters; what comes from outside must not command it. */
static void defuse(uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (p[i] < 0x20 || p[i] == 0x7f) p[i] = ' ';
    }
}

static void text_line(buf *out, log_level lv, const char *area, slice message, slice members, bool cut)
{
    put_time(out, false);
    buf_printf(out, " %-7s %s: ", names[lv], area);
    size_t start = out->n;
    utf8_sanitize(message, out);
    if (members.n) {
        buf_str(out, "  {");
        utf8_sanitize(members, out);
        buf_str(out, "}");
    }
    if (out->n > start) defuse(out->p + start, out->n - start);
    if (cut) buf_str(out, " [truncated]");
    if (dropped > dropped_told) {
        uint64_t n = dropped - dropped_told;
        buf_printf(out, " [%llu line%s dropped before this]", (unsigned long long)n, n == 1 ? "" : "s");
    }
    buf_u8(out, '\n');
}

static void build(buf *out, log_level lv, const char *area, slice message, slice members, bool cut)
{
    buf_reset(out);
    if (mid_line) buf_u8(out, '\n');
    if (format == LOG_TEXT)
        text_line(out, lv, area, message, members, cut);
    else
        json_line(out, lv, area, message, members, cut);
}

static void emit(log_level lv, const char *area, const char *message, const char *members)
{
    slice text = slice_str(message), extra = slice_str(members);
    buf line = {0};
    pthread_mutex_lock(&lock);
    if (format == LOG_AUTO) format = isatty(STDERR_FILENO) ? LOG_TEXT : LOG_JSON;
    build(&line, lv, area, text, extra, false);
    if (line.n > LOG_LINE_MAX) {
        /* A byte of text can take six in JSON; this cut always fits. */
        text.n = utf8_cut(text, (LOG_LINE_MAX - 512) / 6);
        build(&line, lv, area, text, (slice){0}, true);
    }
    if (line.failed || line.n > LOG_LINE_MAX)
        dropped++;
    else
        put_line(&line);
    pthread_mutex_unlock(&lock);
    buf_fini(&line);
}

/* ---- what callers use ---------------------------------------------------------------------------------------------
 */

void log_raw(log_level lv, const char *area, const char *message, const char *json_members)
{
    if (lv < log_level_min()) return;
    int saved = errno;
    emit(lv, area ? area : "", message ? message : "", json_members);
    errno = saved;
}

void log_msg(log_level lv, const char *area, const char *fmt, ...)
{
    if (lv < log_level_min()) return;
    char text[LOG_LINE_MAX];
    va_list ap;
    va_start(ap, fmt);
    if (vsnprintf(text, sizeof text, fmt, ap) < 0) text[0] = '\0';
    va_end(ap);
    log_raw(lv, area, text, NULL);
}

void log_err(log_level lv, const char *area, const char *what, const err *e)
{
    if (lv < log_level_min()) return;
    buf out = {0};
    jsonw w;
    jsonw_init(&w, &out);
    jsonw_object(&w);
    jsonw_key_lit(&w, "kind");
    jsonw_cstr(&w, err_kind_name(e ? e->kind : ERR_NONE));
    if (e && e->message[0]) {
        jsonw_key_lit(&w, "error");
        jsonw_cstr(&w, e->message);
    }
    if (e && e->detail[0]) {
        jsonw_key_lit(&w, "detail");
        jsonw_cstr(&w, e->detail);
    }
    if (e && e->hint[0]) {
        jsonw_key_lit(&w, "hint");
        jsonw_cstr(&w, e->hint);
    }
    if (e && e->has_offset) {
        jsonw_key_lit(&w, "offset");
        jsonw_int(&w, e->offset);
    }
    if (e && e->sys) {
        jsonw_key_lit(&w, "errno");
        jsonw_int(&w, e->sys);
    }
    if (e && e->hresult) {
        jsonw_key_lit(&w, "hresult");
        jsonw_hex(&w, e->hresult);
    }
    jsonw_end_object(&w);
    /* The members without the braces, which log_raw puts around its own. */
    bool ok = jsonw_done(&w);
    if (ok) out.p[out.n - 1] = '\0';
    log_raw(lv, area, what, ok ? (const char *)out.p + 1 : NULL);
    buf_fini(&out);
}
