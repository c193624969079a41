/* SPDX-License-Identifier: MIT */
/* replay_play.c: one client's session: the recording's objects at their times, under a Trace object that says that it
 * is now and here. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "ipc/replay_internal.h"

#define PASS_MIN_NS INT64_C(1000000000) /* a recording that is looped takes at least this long */
#define DRAIN_MS    30000               /* for a client that was told the end to take what is left */
#define TAG_NULL    1
#define TAG_END     6

typedef struct player {
    const recording *r;
    const replay_speed *speed;
    int fd, stop_fd;
    uint64_t offset; /* of the stream so far: blocks are aligned by it */
    int64_t start_ns;
    bool gone; /* the client closed */
    buf block, out;
} player;

static bool stopped(const player *p)
{
    struct pollfd s = {.fd = p->stop_fd, .events = POLLIN};
    return poll(&s, 1, 0) > 0;
}

static bool send_all(player *p, const uint8_t *at, size_t n)
{
    int64_t deadline = DEADLINE_NEVER;
    p->offset += n;
    while (n > 0 && !p->gone) {
        ssize_t sent = send(p->fd, at, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent >= 0) {
            at += sent;
            n -= (size_t)sent;
            continue;
        }
        if (errno == EINTR) continue;
        if (errno != EAGAIN) p->gone = true;
        if (deadline == DEADLINE_NEVER && stopped(p)) deadline = deadline_in_ms(DRAIN_MS);
        struct pollfd w[2] = {{.fd = p->fd, .events = POLLOUT},
                              {.fd = deadline == DEADLINE_NEVER ? p->stop_fd : -1, .events = POLLIN}};
        if (!p->gone && poll(w, 2, deadline_poll_ms(deadline)) == 0) p->gone = true;
    }
    return !p->gone;
}

/* The Trace object as recorded, but for the wall clock and the process: times of events are relative to it, so all of
 * them move along. */
static bool send_opening(player *p)
{
    uint8_t t[REPLAY_TRACE_SIZE];
    memcpy(t, p->r->trace.p, sizeof t);
    int64_t now = wall_ns();
    time_t seconds = (time_t)(now / 1000000000);
    struct tm tm;
    gmtime_r(&seconds, &tm);
    const int16_t when[8] = {
        (int16_t)(tm.tm_year + 1900), (int16_t)(tm.tm_mon + 1), (int16_t)tm.tm_wday, (int16_t)tm.tm_mday,
        (int16_t)tm.tm_hour,          (int16_t)tm.tm_min,       (int16_t)tm.tm_sec,  (int16_t)(now / 1000000 % 1000)};
    int32_t pid = (int32_t)getpid();
    memcpy(t, when, sizeof when);
    memcpy(t + 36, &pid, sizeof pid);
    uint8_t end = TAG_END;
    return send_all(p, p->r->opening.p, p->r->opening.n) && send_all(p, t, sizeof t) && send_all(p, &end, 1);
}

static bool send_object(player *p, const replay_object *o, int64_t ticks)
{
    buf_reset(&p->block);
    buf_reset(&p->out);
    if (!recording_shift(o, ticks, &p->block)) return false;
    buf_slice(&p->out, o->head);
    buf_u32(&p->out, (uint32_t)p->block.n);
    while ((p->offset + p->out.n) % 4 != 0 && buf_u8(&p->out, 0))
        ;
    buf_slice(&p->out, buf_view(&p->block));
    buf_u8(&p->out, TAG_END);
    return !p->out.failed && send_all(p, p->out.p, p->out.n);
}

/* False: stopped, or the client is gone. */
static bool wait_until(player *p, int64_t deadline_ns)
{
    for (;;) {
        struct pollfd w[2] = {{.fd = p->stop_fd, .events = POLLIN}, {.fd = p->fd, .events = POLLRDHUP}};
        int n = poll(w, 2, deadline_poll_ms(deadline_ns));
        if (n > 0 && w[1].revents) p->gone = true;
        if (n > 0) return false;
        if (n == 0 && mono_ns() >= deadline_ns) return true;
    }
}

/* Once through. False: it is over, not just at its end. */
static bool play_pass(player *p, int64_t shift_ns)
{
    int64_t ticks = (int64_t)((__int128)shift_ns * p->r->frequency / 1000000000);
    for (size_t i = 0; i < p->r->n_objects; i++) {
        const replay_object *o = &p->r->objects[i];
        if (shift_ns > 0 && o->kind == REPLAY_METADATA) continue; /* a kind of event is told once in a stream */
        int64_t due =
            p->speed->factor > 0 ? p->start_ns + (int64_t)((double)(o->due_ns + shift_ns) / p->speed->factor) : 0;
        if (!wait_until(p, due) || !send_object(p, o, ticks)) return false;
    }
    return true;
}

void replay_play(const recording *r, const replay_speed *speed, int fd, int stop_fd)
{
    player p = {.r = r, .speed = speed, .fd = fd, .stop_fd = stop_fd, .start_ns = mono_ns()};
    buf_init(&p.block, 0);
    buf_init(&p.out, 0);
    int64_t pass = r->length_ns > PASS_MIN_NS ? r->length_ns : PASS_MIN_NS;
    bool on = send_opening(&p) && play_pass(&p, 0);
    for (int64_t shift = pass; on && speed->loop; shift += pass)
        on = play_pass(&p, shift);
    if (on) (void)wait_until(&p, DEADLINE_NEVER); /* nothing more was recorded: a silent process */
    uint8_t end = TAG_NULL;
    if (!p.gone) (void)send_all(&p, &end, 1);
    buf_fini(&p.block);
    buf_fini(&p.out);
}
