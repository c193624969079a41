/* SPDX-License-Identifier: MIT */
/* fork_rounds: does freeze="fork" harm a process? Starts the memory target in its mode `toil` (work of every sort that
 * checks itself), forks it again and again, each time in a worker of its own, and asks after each round: does it run,
 * is nothing of ours left, does its diagnostics socket answer; and every CHECK_EVERY rounds the target itself: was
 * anything wrong, does everything go on. With `kill` the worker is killed in each round: at
 * the moments of mem__moment by turns, at the fork's call or at the reaping one, or at a random time.
 *
 *     fork_rounds TARGET_PROGRAM ROUNDS [fork|copy|kill] [N]
 *
 * Exit code 0: nothing was wrong. */
#include <ctype.h>
#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memory/fork_own.h"
#include "memory/heap.h"
#include "memory/heap_fields.h"

#define CHECK_EVERY 25
#define KNOWN       "Lunette.Target.Node"
#define KNOWN_COUNT 1000u
#define LINE        4096
#define ANSWER_MS   30000
#define CLEAN_LOOKS 400
#define KILL_US_MAX 300000u

typedef struct told {
    int kind; /* err_kind; ERR_NONE: done */
    int64_t stop_ns, fork_ns;
    uint64_t known, objects;
    char message[256];
} told;

typedef struct run {
    pid_t pid;
    FILE *to, *from;
    const char *how;
    unsigned bad, done, refused, killed;
    int64_t *stops;
    int64_t fork_ns;
} run;

static void complain(run *r, unsigned round, const char *what, const char *more)
{
    r->bad++;
    printf("WRONG\tround %u\t%s\t%s\n", round, what, more);
    fflush(stdout);
}

/* ---- one round ---- */

static void count_known(heap *h, told *out)
{
    char name[1024];
    for (size_t i = 0; i < heap_types_count(heap_types_in(h)); i++) {
        const heap_type *t = heap_type_at(heap_types_in(h), i);
        heap_sum s = heap_type_sum(t);
        out->objects += s.count;
        if (s.count && strcmp(heap_type_text(h, t->mt, name, sizeof name), KNOWN) == 0) out->known += s.count;
    }
}

static int look(const run *r, told *out, err *e)
{
    mem_target *t = NULL;
    dac *d = NULL;
    heap *h = NULL;
    heap_options o = {.stacks = true, .fork = strcmp(r->how, "copy") != 0, .threads = 1};
    int rc = mem_open_live(r->pid, 0, &t, e);
    if (rc >= 0) rc = dac_open(t, NULL, &d, e);
    if (rc >= 0) rc = heap_open(d, &o, &h, e);
    if (rc >= 0) {
        size_t n, k;
        heap_region *regions = heap_regions(h, &n);
        const heap_context *contexts = heap_contexts(h, &k);
        rc = heap_walk_stats(heap_types_in(h), regions, n, contexts, k, 1, e);
    }
    if (rc >= 0) {
        count_known(h, out);
        out->stop_ns = heap_facts_of(h)->stop_ns;
        out->fork_ns = heap_facts_of(h)->fork_ns;
        if (o.fork) rc = mem_fork_check(t, e);
    }
    heap_close(h);
    if (t && mem_note(t, 0)) snprintf(out->message, sizeof out->message, "note: %s", mem_note(t, 0));
    dac_close(d);
    mem_close(t);
    return rc;
}

static mem__moment die_at;
static unsigned die_skip;
static void die(mem__moment at)
{
    if (at != die_at || die_skip-- > 0) return;
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

static _Noreturn void worker(const run *r, int fd, unsigned round)
{
    die_at = (mem__moment)(round % (MEM_MOMENT_COUNT + 2));
    die_skip = round / (MEM_MOMENT_COUNT + 2) % 2; /* 1: the second call, which reaps */
    if (strcmp(r->how, "kill") == 0) mem__fork_hook = die;
    told out = {0};
    err e = {0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (look(r, &out, &e) < 0) {
        out.kind = e.kind;
        snprintf(out.message, sizeof out.message, "%s: %.200s", err_kind_name(e.kind), e.message);
    }
    if (write(fd, &out, sizeof out) != (ssize_t)sizeof out) _exit(1);
    _exit(0);
}

static void one_round(run *r, unsigned round)
{
    int fds[2], status = 0;
    told got = {.kind = ERR_INTERNAL};
    if (pipe(fds) != 0) return;
    pid_t pid = fork();
    if (pid == 0) worker(r, fds[1], round);
    close(fds[1]);
    bool kills = strcmp(r->how, "kill") == 0;
    if (kills && round % (MEM_MOMENT_COUNT + 2) >= MEM_MOMENT_COUNT) {
        usleep((unsigned)rand() % KILL_US_MAX);
        kill(pid, SIGKILL);
    }
    ssize_t n = read(fds[0], &got, sizeof got);
    close(fds[0]);
    waitpid(pid, &status, 0);
    if (n != (ssize_t)sizeof got) {
        r->killed++;
        if (!kills) complain(r, round, "the worker died", "");
        return;
    }
    /* The guard of a worker that was killed may hold the target for a moment yet. */
    if (got.kind == ERR_BUSY || (kills && got.kind == ERR_PERMISSION_DENIED)) {
        r->refused++;
        return;
    }
    if (got.kind != ERR_NONE || got.message[0]) return complain(r, round, "the walk", got.message);
    if (got.known != KNOWN_COUNT && strcmp(r->how, "copy") != 0) {
        snprintf(got.message, sizeof got.message, "%" PRIu64 " of %u, %" PRIu64 " objects", got.known, KNOWN_COUNT,
                 got.objects);
        complain(r, round, "known objects", got.message);
    }
    r->stops[r->done++] = got.stop_ns;
    r->fork_ns += got.fork_ns;
}

/* ---- what the target says ---- */

/* A child that we made: no signal at its end. */
static unsigned left_over(pid_t parent)
{
    char path[300], text[1024];
    glob_t g;
    unsigned n = 0;
    if (glob("/proc/[0-9]*/stat", 0, NULL, &g) != 0) return 0;
    for (size_t i = 0; i < g.gl_pathc; i++) {
        snprintf(path, sizeof path, "%s", g.gl_pathv[i]);
        FILE *f = fopen(path, "re");
        size_t got = f ? fread(text, 1, sizeof text - 1, f) : 0;
        if (f) fclose(f);
        text[got] = 0;
        char *p = strrchr(text, ')');
        long long field[53] = {0};
        for (int k = 3; p && k <= 52; k++) {
            p = strchr(p, ' ');
            if (p) field[k] = strtoll(++p, NULL, 10);
        }
        n += field[4] == parent && field[38] == 0;
    }
    globfree(&g);
    return n;
}

/* No thread is stopped or traced. */
static bool runs(pid_t pid)
{
    char pattern[64], line[256];
    bool ok = true;
    glob_t g;
    snprintf(pattern, sizeof pattern, "/proc/%d/task/*/status", (int)pid);
    if (glob(pattern, 0, NULL, &g) != 0) return false;
    for (size_t i = 0; i < g.gl_pathc; i++) {
        FILE *f = fopen(g.gl_pathv[i], "re");
        while (f && fgets(line, sizeof line, f)) {
            if (strncmp(line, "State:", 6) == 0) ok = ok && !strchr("Tt", line[7]);
            if (strncmp(line, "TracerPid:", 10) == 0) ok = ok && strtol(line + 10, NULL, 10) == 0;
        }
        if (f) fclose(f);
    }
    globfree(&g);
    return ok;
}

/* ProcessInfo of the diagnostics protocol. */
static bool socket_answers(pid_t pid)
{
    char pattern[64];
    uint8_t ask[20] = "DOTNET_IPC_V1", got[20] = {0};
    ask[14] = 20;
    ask[16] = 4;
    glob_t g;
    snprintf(pattern, sizeof pattern, "/tmp/dotnet-diagnostic-%d-*-socket", (int)pid);
    if (glob(pattern, 0, NULL, &g) != 0) return false;
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%s", g.gl_pathv[0]);
    globfree(&g);
    int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool ok = connect(s, (struct sockaddr *)&a, sizeof a) == 0 && write(s, ask, 20) == 20;
    struct pollfd p = {.fd = s, .events = POLLIN};
    ok = ok && poll(&p, 1, ANSWER_MS) == 1 && read(s, got, 20) == 20 && got[16] == 0xff && got[17] == 0;
    close(s);
    return ok;
}

static void ask(run *r, unsigned round)
{
    char line[LINE];
    struct pollfd p = {.fd = fileno(r->from), .events = POLLIN};
    fprintf(r->to, "check\n");
    fflush(r->to);
    if (poll(&p, 1, ANSWER_MS) != 1 || !fgets(line, sizeof line, r->from)) return complain(r, round, "no answer", "");
    line[strcspn(line, "\n")] = 0;
    if (!strstr(line, "wrong=0 ")) return complain(r, round, "the target", line);
    if (strcmp(r->how, "kill") != 0 && !strstr(line, "still= ")) printf("still\tround %u\t%s\n", round, line);
    if (round % 100 == 0) printf("round %u\tdone %u\tbusy %u\t%.200s\n", round, r->done, r->refused, line);
    fflush(stdout);
}

static void after(run *r, unsigned round)
{
    int left = CLEAN_LOOKS;
    while (left > 0 && (left_over(r->pid) || !runs(r->pid))) { /* a killed worker's guard takes a moment */
        usleep(10000);
        left--;
    }
    if (!left) {
        char text[64];
        snprintf(text, sizeof text, "%u children, runs %d", left_over(r->pid), runs(r->pid));
        complain(r, round, "left behind", text);
    }
    if (!socket_answers(r->pid)) complain(r, round, "the diagnostics socket", "does not answer");
    if (round % CHECK_EVERY == 0) ask(r, round);
}

static int start(run *r, const char *program, const char *n)
{
    int in[2], out[2];
    char line[LINE];
    if (pipe(in) != 0 || pipe(out) != 0) return -1;
    r->pid = fork();
    if (r->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[1]);
        close(out[0]);
        execl(program, program, "toil", n, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    r->to = fdopen(in[1], "w");
    r->from = fdopen(out[0], "r");
    return r->to && r->from && fgets(line, sizeof line, r->from) ? 0 : -1;
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
    if (argc < 3) return fprintf(stderr, "fork_rounds TARGET_PROGRAM ROUNDS [fork|copy|kill] [N]\n"), 2;
    unsigned rounds = (unsigned)strtoul(argv[2], NULL, 10);
    run r = {.how = argc > 3 ? argv[3] : "fork", .stops = calloc(rounds + 1, sizeof *r.stops)};
    signal(SIGPIPE, SIG_IGN);
    if (!r.stops) return 2;
    if (start(&r, argv[1], argc > 4 ? argv[4] : "1") < 0) {
        free(r.stops);
        return fprintf(stderr, "no target\n"), 2;
    }
    for (unsigned i = 1; i <= rounds && r.bad < 20; i++) {
        one_round(&r, i);
        after(&r, i);
        if (waitpid(r.pid, NULL, WNOHANG) == r.pid) {
            complain(&r, i, "the target", "has ended");
            break;
        }
    }
    sleep(1);
    ask(&r, 0);
    kill(r.pid, SIGKILL);
    qsort(r.stops, r.done, sizeof *r.stops, by_value);
    double sum = 0;
    for (unsigned i = 0; i < r.done; i++)
        sum += (double)r.stops[i];
    printf("rounds\t%u\ndone\t%u\nbusy\t%u\nkilled\t%u\nwrong\t%u\n", rounds, r.done, r.refused, r.killed, r.bad);
    size_t median = r.done / 2, late = (size_t)r.done * 99 / 100;
    if (r.done)
        printf("pause_ms\tmean %.2f\tmedian %.2f\tp99 %.2f\tworst %.2f\tclone %.2f\n", sum / r.done / 1e6,
               (double)r.stops[median] / 1e6, (double)r.stops[late] / 1e6, (double)r.stops[r.done - 1] / 1e6,
               (double)r.fork_ns / r.done / 1e6);
    free(r.stops);
    return r.bad != 0;
}
