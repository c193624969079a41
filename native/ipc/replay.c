/* SPDX-License-Identifier: MIT */
/* replay.c: the replayed process: its socket, its answers, its sessions. One thread a connection, so that a client who
 * says nothing keeps nobody else waiting (a real runtime has one thread for all). */
#include "ipc/replay.h"

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/utf.h"
#include "ipc/ipc_internal.h"
#include "ipc/replay_internal.h"

#define CONNECTIONS_MAX 256
#define SESSIONS_MAX    64 /* as a runtime has */
#define REQUEST_MS      5000
#define STOP_MS         60000
#define END_MS          3000 /* for sessions to end when the process does */

typedef struct play_session {
    uint64_t id; /* 0: free */
    int stop_fd;
} play_session;

static struct server {
    recording rec;
    replay_speed speed;
    const char *name, *command_line, *version;
    uint8_t cookie[16];
    char path[sizeof((struct sockaddr_un *)0)->sun_path];
    pthread_mutex_t lock;
    pthread_cond_t changed;
    play_session sessions[SESSIONS_MAX];
    uint64_t last_id;
    unsigned connections;
    bool ending;
} server = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* ---- answers ------------------------------------------------------------------------------------------------------
 */
static void put_head(buf *b, bool ok)
{
    buf_put(b, ipc__magic, sizeof ipc__magic);
    buf_u16(b, 0);
    buf_u8(b, 0xFF);
    buf_u8(b, ok ? 0x00 : 0xFF);
    buf_u16(b, 0);
}

static void put_text(buf *b, const char *s)
{
    size_t at = b->n;
    buf_u32(b, 0);
    utf8_to_utf16le(slice_str(s), b);
    buf_u16(b, 0);
    if (b->failed) return;
    uint32_t units = (uint32_t)((b->n - at - 4) / 2);
    memcpy(b->p + at, &units, sizeof units);
}

static bool send_bytes(int fd, slice s)
{
    while (s.n > 0) {
        ssize_t n = send(fd, s.p, s.n, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN && ipc__wait(fd, POLLOUT, deadline_in_ms(REQUEST_MS), NULL) == 0) continue;
        if (n < 0) return false;
        s = slice_of(s.p + n, s.n - (size_t)n);
    }
    return true;
}

static bool send_message(int fd, buf *b)
{
    if (b->failed || b->n > IPC_MESSAGE_MAX) return false;
    uint16_t size = (uint16_t)b->n;
    memcpy(b->p + 14, &size, sizeof size);
    return send_bytes(fd, buf_view(b));
}

static void answer_error(int fd, buf *b, uint32_t hresult)
{
    buf_reset(b);
    put_head(b, false);
    buf_u32(b, hresult);
    (void)send_message(fd, b);
}

static void answer_number(int fd, buf *b, uint64_t v, size_t size)
{
    buf_reset(b);
    put_head(b, true);
    buf_put(b, &v, size);
    (void)send_message(fd, b);
}

static void answer_info(int fd, buf *b, unsigned command)
{
    int form = command == IPC_PROCESS_INFO3 ? 3 : command == IPC_PROCESS_INFO2 ? 2 : 1;
    buf_reset(b);
    put_head(b, true);
    if (form == 3) buf_u32(b, 1);
    buf_u64(b, (uint64_t)getpid());
    buf_put(b, server.cookie, sizeof server.cookie);
    put_text(b, server.command_line);
    put_text(b, "Linux");
#if defined(__aarch64__)
    static const char arch[] = "arm64", rid[] = "linux-arm64";
#else
    static const char arch[] = "x64", rid[] = "linux-x64";
#endif
    put_text(b, arch);
    if (form >= 2) {
        put_text(b, server.name);
        put_text(b, server.version);
    }
    if (form == 3) put_text(b, rid);
    (void)send_message(fd, b);
}

static void answer_environment(int fd, buf *b)
{
    buf block;
    buf_init(&block, 0);
    buf_u32(&block, 1);
    put_text(&block, "LUNETTE_REPLAY=1");
    buf_reset(b);
    put_head(b, true);
    buf_u32(b, (uint32_t)block.n);
    buf_u16(b, 0);
    if (!block.failed && send_message(fd, b)) (void)send_bytes(fd, buf_view(&block));
    buf_fini(&block);
}

/* ---- sessions -----------------------------------------------------------------------------------------------------
 */
/* A session's slot; NULL: all are in use, or the process is ending. */
static play_session *session_begin(uint64_t *id)
{
    play_session *s = NULL;
    pthread_mutex_lock(&server.lock);
    for (int i = 0; i < SESSIONS_MAX && !s && !server.ending; i++)
        if (server.sessions[i].id == 0) s = &server.sessions[i];
    if (s) s->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s && s->stop_fd < 0) s = NULL;
    if (s) *id = s->id = ++server.last_id;
    pthread_mutex_unlock(&server.lock);
    return s;
}

static void session_end(play_session *s)
{
    pthread_mutex_lock(&server.lock);
    s->id = 0;
    ipc__close(&s->stop_fd);
    pthread_cond_broadcast(&server.changed);
    pthread_mutex_unlock(&server.lock);
}

/* The stream first, then the answer, as a runtime does. */
static void session_stop(uint64_t id)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += STOP_MS / 1000;
    pthread_mutex_lock(&server.lock);
    play_session *s = NULL;
    for (int i = 0; i < SESSIONS_MAX; i++)
        if (id != 0 && server.sessions[i].id == id) s = &server.sessions[i];
    uint64_t one = 1;
    int rc = s && write(s->stop_fd, &one, sizeof one) < 0 ? ETIMEDOUT : 0;
    while (s && s->id == id && rc == 0)
        rc = pthread_cond_timedwait(&server.changed, &server.lock, &until);
    pthread_mutex_unlock(&server.lock);
}

static void collect(int fd, buf *b)
{
    uint64_t id = 0;
    play_session *s = session_begin(&id);
    if (!s) {
        answer_error(fd, b, IPC_E_FAIL);
        return;
    }
    answer_number(fd, b, id, sizeof id);
    replay_play(&server.rec, &server.speed, fd, s->stop_fd);
    (void)shutdown(fd, SHUT_RDWR);
    session_end(s);
}

/* ---- connections --------------------------------------------------------------------------------------------------
 */
static void answer(int fd, buf *b, const ipc_request *r)
{
    switch ((ipc_command)r->command) {
    case IPC_PROCESS_INFO:
    case IPC_PROCESS_INFO2:
    case IPC_PROCESS_INFO3: answer_info(fd, b, r->command); return;
    case IPC_RESUME: answer_number(fd, b, 0, 4); return;
    case IPC_ENVIRONMENT: answer_environment(fd, b); return;
    case IPC_STOP_TRACING:
        session_stop(r->session_id);
        answer_number(fd, b, r->session_id, sizeof r->session_id);
        return;
    case IPC_COLLECT1:
    case IPC_COLLECT2:
    case IPC_COLLECT3:
    case IPC_COLLECT4:
    case IPC_COLLECT5: collect(fd, b); return;
    case IPC_COLLECT6: answer_error(fd, b, IPC_E_UNKNOWN_COMMAND); return;
    case IPC_DUMP1:
    case IPC_DUMP2:
    case IPC_DUMP3:
    case IPC_ATTACH_PROFILER:
    case IPC_STARTUP_PROFILER:
    case IPC_SET_ENVIRONMENT:
    case IPC_ENABLE_PERF_MAP:
    case IPC_DISABLE_PERF_MAP:
    case IPC_STARTUP_HOOK: break;
    }
    answer_error(fd, b, IPC_E_NOT_SUPPORTED);
}

static void serve(int fd)
{
    buf b;
    buf_init(&b, 0);
    int64_t deadline = deadline_in_ms(REQUEST_MS);
    ipc_request r;
    int rc = ipc__recv(fd, &b, IPC_HEADER_SIZE, deadline, NULL, NULL);
    int size = rc == 0 ? ipc_header_size(buf_view(&b), NULL) : 0;
    if (rc == 0 && size < 0)
        answer_error(fd, &b, memcmp(b.p, ipc__magic, sizeof ipc__magic) ? IPC_E_UNKNOWN_MAGIC : IPC_E_BAD_ENCODING);
    else if (rc == 0 && ipc__recv(fd, &b, (size_t)size - IPC_HEADER_SIZE, deadline, NULL, NULL) == 0) {
        rc = ipc_request_parse(buf_view(&b), &r, NULL);
        if (rc == 0)
            answer(fd, &b, &r);
        else
            answer_error(fd, &b, rc == -ERR_NOT_SUPPORTED ? IPC_E_UNKNOWN_COMMAND : IPC_E_BAD_ENCODING);
    }
    buf_fini(&b);
}

static void connection_over(void)
{
    pthread_mutex_lock(&server.lock);
    server.connections--;
    pthread_cond_broadcast(&server.changed);
    pthread_mutex_unlock(&server.lock);
}

static void *connection_main(void *arg)
{
    int fd = (int)(intptr_t)arg;
    serve(fd);
    (void)close(fd);
    connection_over();
    return NULL;
}

static void accept_one(int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;
    pthread_mutex_lock(&server.lock);
    bool room = server.connections < CONNECTIONS_MAX;
    if (room) server.connections++;
    pthread_mutex_unlock(&server.lock);
    pthread_t t;
    pthread_attr_t a;
    pthread_attr_init(&a);
    pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED);
    if (!room || pthread_create(&t, &a, connection_main, (void *)(intptr_t)fd) != 0) {
        (void)close(fd);
        if (room) connection_over();
    }
    pthread_attr_destroy(&a);
}

/* Every session gets its end tag, as when a runtime ends in good order. */
static void end_all(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += END_MS / 1000;
    pthread_mutex_lock(&server.lock);
    server.ending = true;
    uint64_t one = 1;
    for (int i = 0; i < SESSIONS_MAX; i++)
        if (server.sessions[i].id && write(server.sessions[i].stop_fd, &one, sizeof one) < 0) continue;
    int rc = 0;
    while (server.connections > 0 && rc == 0)
        rc = pthread_cond_timedwait(&server.changed, &server.lock, &until);
    pthread_mutex_unlock(&server.lock);
}

/* ---- start --------------------------------------------------------------------------------------------------------
 */
static int make_socket(const char *dir, err *e)
{
    ipc__proc self;
    int rc = ipc__proc_read("/proc", getpid(), &self, e);
    if (rc < 0) return rc;
    ipc__proc_fini(&self);
    int n = snprintf(server.path, sizeof server.path, "%s/dotnet-diagnostic-%d-%llu-socket", dir, self.nspid,
                     (unsigned long long)self.start_time);
    if (n < 0 || (size_t)n >= sizeof server.path)
        return err_set(e, ERR_LIMIT, "the socket's path is too long: choose a shorter --socket-dir");
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    memcpy(a.sun_path, server.path, (size_t)n + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)unlink(server.path);
    mode_t before = umask(0177);
    rc = fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) < 0 || listen(fd, 255) < 0
             ? err_sys(e, ERR_IO, errno, "cannot make the socket")
             : fd;
    (void)umask(before);
    if (rc < 0) {
        err_detail(e, "%s", server.path);
        ipc__close(&fd);
    }
    return rc;
}

static void run(int listener)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    int signals = signalfd(-1, &set, SFD_CLOEXEC);
    printf("replaying as process %d (%s), %.1f s recorded, socket %s\n", getpid(), server.name,
           (double)server.rec.length_ns / 1e9, server.path);
    (void)fflush(stdout);
    for (;;) {
        struct pollfd p[2] = {{.fd = listener, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
        if (poll(p, 2, -1) < 0 && errno != EINTR) break;
        if (p[1].revents) break;
        if (p[0].revents) accept_one(listener);
    }
    (void)unlink(server.path);
    (void)close(listener);
    end_all();
    (void)close(signals);
}

static void usage(FILE *to)
{
    (void)fputs(
        "usage: lunette replay FILE [OPTION...]\n"
        "Plays a recorded .nettrace session as if it were a live .NET process: it is found, asked and traced like "
        "one.\n"
        "  --pid-name NAME        the name that the process goes by (default: from the recording's command line)\n"
        "  --command-line TEXT    its command line (default: the recording's)\n"
        "  --runtime-version V    its runtime's version (default: the recording's rundown, else 10.0.0-replay)\n"
        "  --socket-dir DIR       where its socket goes (default: $TMPDIR, else /tmp)\n"
        "  --speed X              X times as fast as recorded (default 1)\n"
        "  --instant              everything at once\n"
        "  --loop                 from the start again, with later times, when the recording is over;\n"
        "                         else the process is silent from then on, until the session is stopped\n",
        to);
}

/* The name of the program in a command line "HOST HOST.dll args": the last part of the path, without .dll. */
static void default_name(char *out, size_t cap)
{
    const char *from = server.command_line;
    size_t n = strcspn(from, " ");
    if (from[n] == ' ') { /* the second word is the managed program when it is a .dll */
        const char *second = from + n + 1;
        size_t m = strcspn(second, " ");
        if (m > 4 && strncmp(second + m - 4, ".dll", 4) == 0) {
            from = second;
            n = m - 4;
        }
    }
    for (size_t i = n; i > 0; i--)
        if (from[i - 1] == '/') {
            from += i;
            n -= i;
            break;
        }
    (void)snprintf(out, cap, "%.*s", (int)n, n ? from : "replay");
    if (n == 0) (void)snprintf(out, cap, "replay");
}

static int parse_args(int argc, char **argv, const char **file, const char **dir)
{
    enum { NAME = 1, LINE, VERSION, DIR_, SPEED, INSTANT, LOOP, HELP };
    static const struct option options[] = {
        {"pid-name", required_argument, NULL, NAME},
        {"command-line", required_argument, NULL, LINE},
        {"runtime-version", required_argument, NULL, VERSION},
        {"socket-dir", required_argument, NULL, DIR_},
        {"speed", required_argument, NULL, SPEED},
        {"instant", no_argument, NULL, INSTANT},
        {"loop", no_argument, NULL, LOOP},
        {"help", no_argument, NULL, HELP},
        {NULL, 0, NULL, 0},
    };
    server.speed.factor = 1;
    for (int c; (c = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
        char *end = NULL;
        switch (c) {
        case NAME: server.name = optarg; break;
        case LINE: server.command_line = optarg; break;
        case VERSION: server.version = optarg; break;
        case DIR_: *dir = optarg; break;
        case SPEED:
            server.speed.factor = strtod(optarg, &end);
            if (*end || !(server.speed.factor > 0)) {
                (void)fprintf(stderr, "lunette replay: --speed must be a number above 0\n");
                return 2;
            }
            break;
        case INSTANT: server.speed.factor = 0; break;
        case LOOP: server.speed.loop = true; break;
        case HELP:
        case 'h': usage(stdout); return 0;
        default: usage(stderr); return 2;
        }
    }
    if (optind != argc - 1 || (server.speed.loop && server.speed.factor == 0)) {
        usage(stderr);
        if (server.speed.loop && server.speed.factor == 0)
            (void)fprintf(stderr, "lunette replay: --instant and --loop together never end\n");
        return 2;
    }
    *file = argv[optind];
    return -1;
}

int replay__run(int argc, char **argv)
{
    const char *file = NULL, *dir = getenv("TMPDIR");
    char name[128];
    err e = {0};
    if (!dir || !*dir) dir = "/tmp";
    int rc = parse_args(argc, argv, &file, &dir);
    if (rc >= 0) return rc;
    int listener = recording_load(file, &server.rec, &e);
    if (listener == 0) {
        if (!server.command_line) server.command_line = server.rec.command_line[0] ? server.rec.command_line : file;
        if (!server.version) server.version = server.rec.version[0] ? server.rec.version : "10.0.0-replay";
        default_name(name, sizeof name);
        if (!server.name) server.name = name;
        if (getentropy(server.cookie, sizeof server.cookie) < 0) memset(server.cookie, 1, sizeof server.cookie);
        listener = make_socket(dir, &e);
    }
    if (listener < 0) {
        (void)fprintf(stderr, "lunette replay: %s%s%s\n", e.message, e.detail[0] ? ": " : "", e.detail);
        return 1;
    }
    run(listener);
    if (server.connections == 0) recording_free(&server.rec); /* else a thread may still read it */
    return 0;
}

/* Whoever looks for a process's socket looks into the TMPDIR that /proc tells of it, which is the one that it was
 * started with: start again. */
static void start_in(const char *dir, int argc, char **argv)
{
    const char *now = getenv("TMPDIR");
    char **again = mem_calloc((size_t)argc + 2, sizeof *again);
    if (again && (!now || strcmp(now, dir) != 0) && setenv("TMPDIR", dir, 1) == 0) {
        again[0] = program_invocation_name;
        memcpy(again + 1, argv, (size_t)argc * sizeof *argv);
        (void)execv("/proc/self/exe", again);
    }
    free(again);
}

int replay_main(int argc, char **argv)
{
    static const char option[] = "--socket-dir";
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], option) == 0 && i + 1 < argc)
            start_in(argv[i + 1], argc, argv);
        else if (strncmp(argv[i], option, sizeof option - 1) == 0 && argv[i][sizeof option - 1] == '=')
            start_in(argv[i] + sizeof option, argc, argv);
    }
    return replay__run(argc, argv);
}
