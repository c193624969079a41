/* SPDX-License-Identifier: MIT */
/* test_discover.c: which processes are found, how they are reached, and why not. The processes are this program again,
 * as a child that plays a .NET process: it maps a file named as the runtime's library, and makes the socket that a test
 * asks for. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ipc/fake.h"

static char dir[32];     /* of this run */
static char library[64]; /* "libcoreclr.so" in it */

/* While set, what is sent waits until the other side has hung up: who closes at once always wins. */
static bool hang_up_first;
ssize_t __real_send(int fd, const void *p, size_t n, int flags);
ssize_t __wrap_send(int fd, const void *p, size_t n, int flags);
ssize_t __wrap_send(int fd, const void *p, size_t n, int flags)
{
    struct pollfd hung_up = {.fd = fd};
    if (hang_up_first) assert_int_equal(poll(&hung_up, 1, 5000), 1);
    return __real_send(fd, p, n, flags);
}

/* ---- the child ----------------------------------------------------------------------------------------------------
 */
static int listen_in(const char *folder, uint64_t key_offset, bool listening)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    (void)snprintf(a.sun_path, sizeof a.sun_path, "%.60s/dotnet-diagnostic-%d-%llu-socket", folder, getpid(),
                   (unsigned long long)(own_start_time() + key_offset));
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(fd, (struct sockaddr *)&a, sizeof a) < 0) _exit(3);
    if (listening && listen(fd, 16) < 0) _exit(4);
    return fd;
}
static void answer_for_ever(int listener, const char *how)
{
    for (;;) {
        uint8_t p[1024], m[1100];
        int fd = accept(listener, NULL, NULL);
        if (strcmp(how, "slam") != 0) (void)!read(fd, m, IPC_HEADER_SIZE);
        if (strcmp(how, "serve") == 0) fake_write(fd, m, fake_answer(m, true, p, fake_info(p, 3)));
        if (strcmp(how, "garbage") == 0) fake_write(fd, "this is not the protocol that you want", 38);
        if (strcmp(how, "refuse") == 0) fake_error(fd, IPC_E_FAIL);
        (void)close(fd);
    }
}
/* child HOW FOLDER: HOW is none, stale, old, silent, serve, garbage, refuse, close, slam (close unasked); "+lib" at its
 * end maps the library. */
static int child_main(char **argv)
{
    char how[16];
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test leaves nothing behind */
    (void)snprintf(how, sizeof how, "%s", argv[0]);
    char *plus = strchr(how, '+');
    if (plus) {
        *plus = 0;
        int fd = open(argv[2], O_RDONLY);
        if (fd < 0 || mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED) return 5;
        (void)close(fd);
    }
    int listener = -1;
    if (strcmp(how, "stale") == 0)
        (void)close(listen_in(argv[1], 0, false));
    else if (strcmp(how, "old") == 0)
        listener = listen_in(argv[1], 1, true);
    else if (strcmp(how, "none") != 0)
        listener = listen_in(argv[1], 0, true);
    if (write(STDOUT_FILENO, "R", 1) != 1) return 6;
    if (listener >= 0 && strcmp(how, "silent") != 0 && strcmp(how, "old") != 0) answer_for_ever(listener, how);
    for (;;)
        (void)pause();
}

static char *large_variable; /* comes first in a child's environment */

typedef struct child {
    pid_t pid;
} child;
/* What an earlier process of this number left in the common folder is no matter of these tests. */
static void remove_left_overs(void)
{
    char pattern[64];
    glob_t g;
    (void)snprintf(pattern, sizeof pattern, "/tmp/dotnet-diagnostic-%d-*", getpid());
    if (glob(pattern, 0, NULL, &g) != 0) return;
    for (size_t i = 0; i < g.gl_pathc; i++)
        (void)unlink(g.gl_pathv[i]);
    globfree(&g);
}

/* Starts one and waits until it is ready. env: one more variable, or NULL. */
static child spawn(const char *how, const char *folder, const char *env)
{
    int p[2];
    char r;
    assert_int_equal(pipe(p), 0);
    child c = {.pid = fork()};
    if (c.pid == 0) {
        remove_left_overs();
        char *argv[] = {"test", "child", (char *)(uintptr_t)how, (char *)(uintptr_t)folder, library, NULL};
        char *envp[] = {large_variable ? large_variable : (char *)(uintptr_t)env, (char *)(uintptr_t)env, NULL};
        (void)dup2(p[1], STDOUT_FILENO);
        (void)close(p[0]);
        (void)close(p[1]);
        (void)execve("/proc/self/exe", argv, envp);
        _exit(9);
    }
    (void)close(p[1]);
    assert_int_equal(read(p[0], &r, 1), 1);
    (void)close(p[0]);
    return c;
}
static void reap(child *c)
{
    (void)kill(c->pid, SIGKILL);
    assert_int_equal(waitpid(c->pid, NULL, 0), c->pid);
}
static int make_run(void **state)
{
    (void)state;
    (void)snprintf(dir, sizeof dir, "/tmp/lunette-test-XXXXXX");
    if (!mkdtemp(dir)) return -1;
    (void)chmod(dir, 0755);
    (void)snprintf(library, sizeof library, "%s/libcoreclr.so", dir);
    int fd = open(library, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    return fd >= 0 && ftruncate(fd, 4096) == 0 ? close(fd) : -1;
}
static int drop_run(void **state)
{
    (void)state;
    char command[64];
    (void)snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

/* ---- looking ------------------------------------------------------------------------------------------------------
 */
static ipc_endpoints discover(int64_t probe_ms)
{
    const char *const more[] = {dir, NULL};
    ipc_discover_cfg cfg = {.tmpdirs = more, .probe_ms = probe_ms};
    ipc_endpoints l;
    err e = {0};
    assert_int_equal(ipc_discover(&cfg, NULL, &l, &e), 0);
    for (size_t i = 1; i < l.n; i++)
        assert_true(l.items[i - 1].pid < l.items[i].pid);
    return l;
}
static const ipc_endpoint *find(const ipc_endpoints *l, pid_t pid)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->items[i].pid == pid) return &l->items[i];
    return NULL;
}
/* Discovers, and asserts how it stands with one process. */
static void assert_cause(const child *c, ipc_cause cause, const char *message, const char *hint)
{
    ipc_endpoints l = discover(300);
    const ipc_endpoint *ep = find(&l, c->pid);
    assert_non_null(ep);
    assert_string_equal(ipc_cause_name(ep->cause), ipc_cause_name(cause));
    if (cause != IPC_OK) {
        assert_non_null(strstr(ep->why.message, message));
        assert_non_null(strstr(ep->why.hint, hint));
        assert_int_not_equal(ep->why.kind, ERR_NONE);
    } else
        assert_string_equal(ep->info.runtime_version, "10.0.9");
    ipc_endpoints_fini(&l);
}

/* ---- tests --------------------------------------------------------------------------------------------------------
 */
static void a_process_that_answers_is_found_with_its_info(void **state)
{
    (void)state;
    child c = spawn("serve+lib", dir, NULL);
    ipc_endpoints l = discover(2000);
    const ipc_endpoint *ep = find(&l, c.pid);
    assert_non_null(ep);
    assert_int_equal(ep->cause, IPC_OK);
    assert_int_equal(ep->runtime, IPC_RUNTIME_CORECLR);
    assert_int_equal(ep->nspid, c.pid);
    assert_true(ep->same_namespace);
    assert_int_equal(ep->uid, getuid());
    assert_int_equal(ep->n_sockets, 1);
    assert_true(ep->sockets[0].key_matches);
    assert_string_equal(ep->info.command_line, "/app/target --x");
    assert_int_equal(ep->info.command_version, 3);
    ipc_endpoints_fini(&l);
    reap(&c);
}

static void the_targets_own_tmpdir_is_looked_into(void **state)
{
    (void)state;
    char own[48], env[64];
    (void)snprintf(own, sizeof own, "%s/own", dir);
    (void)snprintf(env, sizeof env, "TMPDIR=%s/", own);
    assert_int_equal(mkdir(own, 0700), 0);
    child c = spawn("serve", own, env);
    assert_cause(&c, IPC_OK, NULL, NULL);
    ipc_endpoint ep;
    assert_int_equal(ipc_resolve(c.pid, NULL, &ep, NULL), 0);
    ipc_endpoint_fini(&ep);
    reap(&c);
}

static void a_large_environment_is_read_to_its_end(void **state)
{
    (void)state;
    enum { LARGE = 100000 };
    large_variable = malloc(LARGE + 1);
    memset(large_variable, 'x', LARGE);
    large_variable[1] = '=';
    large_variable[LARGE] = 0;
    child c = spawn("none+lib", dir, "DOTNET_EnableDiagnostics=0");
    free(large_variable);
    large_variable = NULL;
    assert_cause(&c, IPC_DIAGNOSTICS_DISABLED, "DOTNET_EnableDiagnostics", "start it without");
    reap(&c);
}

static void silent_processes_cost_one_deadline_in_all(void **state)
{
    (void)state;
    enum { N = 8 };
    child c[N], good = spawn("serve", dir, NULL);
    for (int i = 0; i < N; i++)
        c[i] = spawn("silent", dir, NULL);
    assert_int_equal(kill(c[0].pid, SIGSTOP), 0);
    assert_int_equal(waitpid(c[0].pid, NULL, WUNTRACED), c[0].pid); /* it is stopped now */
    int64_t t = mono_ns();
    ipc_endpoints l = discover(1000);
    int64_t ms = (mono_ns() - t) / 1000000;
    assert_in_range(ms, 990, 5000); /* not 8 × 1000, on a busy machine too */
    for (int i = 0; i < N; i++) {
        const ipc_endpoint *ep = find(&l, c[i].pid);
        assert_non_null(ep);
        assert_int_equal(ep->cause, IPC_NOT_ANSWERING);
        assert_int_equal(ep->why.kind, ERR_TIMEOUT);
        assert_int_equal(ep->stopped, i == 0);
        assert_non_null(strstr(ep->why.hint, i == 0 ? "kill -CONT" : "try again"));
    }
    const ipc_endpoint *ep = find(&l, good.pid);
    assert_non_null(ep);
    assert_int_equal(ep->cause, IPC_OK);
    ipc_endpoints_fini(&l);
    for (int i = 0; i < N; i++)
        reap(&c[i]);
    reap(&good);
}

static void a_process_that_ends_while_it_is_asked_is_not_reported(void **state)
{
    (void)state;
    child stays = spawn("stale", dir, NULL), goes = spawn("stale", dir, NULL);
    ipc_endpoints l = discover(300);
    assert_non_null(find(&l, stays.pid));
    assert_non_null(find(&l, goes.pid));
    reap(&goes);
    ipc__forget_gone("/proc", &l);
    assert_non_null(find(&l, stays.pid));
    assert_null(find(&l, goes.pid));
    ipc_endpoints_fini(&l);
    reap(&stays);
}

static void answers_that_are_none_have_their_cause(void **state)
{
    (void)state;
    static const struct {
        const char *how;
        ipc_cause cause;
        const char *message, *hint;
    } cases[] = {{"garbage", IPC_GARBAGE, "magic", "not a .NET runtime"},
                 {"refuse", IPC_REFUSED, "E_FAIL", "command line"},
                 {"close", IPC_REFUSED, "closed the connection", "try again"},
                 {"stale", IPC_STALE_SOCKET, "refused", "nobody listens"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        child c = spawn(cases[i].how, dir, NULL);
        assert_cause(&c, cases[i].cause, cases[i].message, cases[i].hint);
        reap(&c);
    }
}

/* Asks that one process only. */
static void probe_one(const child *c, ipc_endpoint *ep)
{
    ipc_discover_cfg cfg = {.tmpdirs = (const char *const[]){dir, NULL}};
    err e = {0};
    assert_int_equal(ipc_resolve(c->pid, &cfg, ep, &e), 0);
    assert_int_equal(ipc__probe_all(ep, 1, 5000, NULL, &e), 0);
}

static void who_hangs_up_before_the_question_is_no_left_over(void **state)
{
    (void)state;
    child c = spawn("slam", dir, NULL);
    ipc_endpoint ep;
    hang_up_first = true;
    probe_one(&c, &ep);
    hang_up_first = false;
    assert_string_equal(ipc_cause_name(ep.cause), "refused");
    assert_non_null(strstr(ep.why.message, "closed the connection"));
    ipc_endpoint_fini(&ep);
    reap(&c);
}

static void the_limit_of_open_files_is_not_the_targets_fault(void **state)
{
    (void)state;
    child c = spawn("serve", dir, NULL);
    ipc_endpoint ep;
    struct rlimit before;
    err e = {0};
    probe_one(&c, &ep);
    assert_string_equal(ipc_cause_name(ep.cause), "ok");
    ipc_info_fini(&ep.info);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, before.rlim_max}), 0);
    assert_int_equal(ipc__probe_all(&ep, 1, 300, NULL, &e), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_string_equal(ipc_cause_name(ep.cause), "refused");
    assert_non_null(strstr(ep.why.hint, "ulimit -n"));
    ipc_endpoint_fini(&ep);
    reap(&c);
}

static void a_socket_of_an_earlier_process_of_that_pid_is_never_used(void **state)
{
    (void)state;
    char own[48], env[64];
    (void)snprintf(own, sizeof own, "%s/old", dir);
    (void)snprintf(env, sizeof env, "TMPDIR=%s", own);
    assert_int_equal(mkdir(own, 0700), 0);
    child c = spawn("old+lib", own, env);
    assert_cause(&c, IPC_STALE_SOCKET, "left behind by an earlier process", "restart");
    reap(&c);
    c = spawn("old", dir, NULL); /* nothing else says that this one is .NET: not ours to report */
    ipc_endpoints l = discover(300);
    assert_null(find(&l, c.pid));
    ipc_endpoints_fini(&l);
    ipc_endpoint ep;
    err e = {0};
    assert_int_equal(ipc_resolve(c.pid, NULL, &ep, &e), -ERR_NOT_A_DOTNET_PROCESS);
    ipc_endpoint_fini(&ep);
    reap(&c);
}

static void a_socket_planted_for_another_process_is_refused(void **state)
{
    (void)state;
    child c = spawn("none+lib", dir, NULL);
    ipc__proc p;
    assert_int_equal(ipc__proc_read("/proc", c.pid, &p, NULL), 0);
    ipc__proc_fini(&p);
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    (void)snprintf(a.sun_path, sizeof a.sun_path, "%s/dotnet-diagnostic-%d-%llu-socket", dir, c.pid,
                   (unsigned long long)p.start_time);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_cause(&c, IPC_STALE_SOCKET, "is served by process", "remove the file");
    if (geteuid() == 0) { /* a file of another user is not even tried */
        assert_int_equal(chown(a.sun_path, 12345, 12345), 0);
        assert_cause(&c, IPC_NO_SOCKET, "belongs to uid 12345", "look at the file");
    }
    (void)close(fd);
    reap(&c);
}

static void switched_off_diagnostics_are_named_with_their_variable(void **state)
{
    (void)state;
    static const char *const off[] = {"DOTNET_EnableDiagnostics=0", "COMPlus_EnableDiagnostics=00",
                                      "DOTNET_EnableDiagnostics_IPC=0x0"};
    for (size_t i = 0; i < 3; i++) {
        child c = spawn("none+lib", dir, off[i]);
        char name[64];
        (void)snprintf(name, sizeof name, "%.*s=0", (int)strcspn(off[i], "="), off[i]);
        assert_cause(&c, IPC_DIAGNOSTICS_DISABLED, name, "start it without");
        reap(&c);
    }
    child c = spawn("none+lib", dir, "DOTNET_EnableDiagnostics=1");
    assert_cause(&c, IPC_NO_SOCKET, "no diagnostics socket", "restart the process");
    reap(&c);
}

static void a_tmpdir_that_cannot_hold_a_socket_is_named(void **state)
{
    (void)state;
    char env[160] = "TMPDIR=/tmp/";
    memset(env + 12, 'x', 100);
    child c = spawn("none+lib", dir, env);
    assert_cause(&c, IPC_TMPDIR, "too long", "shorter TMPDIR");
    reap(&c);
    c = spawn("none+lib", dir, "TMPDIR=/nonexistent");
    assert_cause(&c, IPC_TMPDIR, "No such file", "TMPDIR that exists");
    reap(&c);
}

static void processes_that_are_not_dotnet_or_not_there_are_told_apart(void **state)
{
    (void)state;
    ipc_endpoint ep;
    err e = {0};
    child c = spawn("none", dir, NULL);
    assert_int_equal(ipc_resolve(c.pid, NULL, &ep, &e), -ERR_NOT_A_DOTNET_PROCESS);
    (void)kill(c.pid, SIGKILL);
    siginfo_t si;
    assert_int_equal(waitid(P_PID, (id_t)c.pid, &si, WEXITED | WNOWAIT), 0); /* a zombie */
    err_clear(&e);
    assert_int_equal(ipc_resolve(c.pid, NULL, &ep, &e), -ERR_PROCESS_EXITED);
    reap(&c);
    err_clear(&e);
    assert_int_equal(ipc_resolve(c.pid, NULL, &ep, &e), -ERR_PROCESS_NOT_FOUND);
    err_clear(&e);
    assert_int_equal(ipc_resolve(0, NULL, &ep, &e), -ERR_INVALID_ARGUMENT);
}

/* Runs fn in a child that is another user; skips when we are not root. */
static void without_privileges(void (*fn)(pid_t target), pid_t target)
{
    if (geteuid() != 0) skip();
    pid_t pid = fork();
    if (pid == 0) {
        if (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0) _exit(20);
        fn(target);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}
static void expect_permission(pid_t target)
{
    const char *const more[] = {dir, NULL};
    ipc_discover_cfg cfg = {.tmpdirs = more, .probe_ms = 300};
    ipc_endpoints l;
    if (ipc_discover(&cfg, NULL, &l, NULL) < 0) _exit(21);
    const ipc_endpoint *ep = find(&l, target);
    if (!ep) _exit(22);
    if (ep->cause != IPC_PERMISSION) _exit(23);
    if (!strstr(ep->why.hint, "run lunette as")) _exit(24);
    if (ep->why.kind != ERR_PERMISSION_DENIED) _exit(25);
    ipc_info info = {0};
    err e = {0};
    if (ipc_process_info(ep, deadline_in_ms(300), NULL, &info, &e) != -ERR_PERMISSION_DENIED) _exit(26);
    if (strcmp(e.hint, ep->why.hint) != 0) _exit(27); /* who asks it by its number is told the cure too */
}
static void another_users_process_is_listed_with_the_cure(void **state)
{
    (void)state;
    mode_t before = umask(0177);
    child c = spawn("serve", dir, NULL);
    (void)umask(before);
    without_privileges(expect_permission, c.pid);
    reap(&c);
}

/* In a PID and a mount namespace of its own, with its own /tmp: what a container looks like from outside. */
static void container(int ready)
{
    if (unshare(CLONE_NEWNS | CLONE_NEWPID) < 0) _exit(30);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    pid_t inner = fork();
    if (inner == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 || mount("none", "/tmp", "tmpfs", 0, NULL) < 0)
            _exit(31);
        char self[32];
        ssize_t n = readlink("/proc/self", self, sizeof self - 1); /* the outer /proc: our number out there */
        if (n <= 0) _exit(32);
        self[n] = 0;
        ipc__proc p;
        if (ipc__proc_read("/proc", atoi(self), &p, NULL) < 0) _exit(33);
        struct sockaddr_un a = {.sun_family = AF_UNIX};
        (void)snprintf(a.sun_path, sizeof a.sun_path, "/tmp/dotnet-diagnostic-%d-%llu-socket", getpid(),
                       (unsigned long long)p.start_time);
        ipc__proc_fini(&p);
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        if (bind(fd, (struct sockaddr *)&a, sizeof a) < 0 || listen(fd, 8) < 0) _exit(34);
        int32_t pid = atoi(self);
        if (write(ready, &pid, sizeof pid) != sizeof pid) _exit(35);
        answer_for_ever(fd, "serve");
    }
    (void)waitpid(inner, NULL, 0);
    _exit(0);
}
static void a_container_is_reached_through_its_root(void **state)
{
    (void)state;
    if (geteuid() != 0) skip();
    int p[2];
    assert_int_equal(pipe(p), 0);
    pid_t outer = fork();
    if (outer == 0) {
        (void)close(p[0]);
        container(p[1]);
    }
    (void)close(p[1]);
    int32_t pid = 0;
    ssize_t n = read(p[0], &pid, sizeof pid);
    (void)close(p[0]);
    if (n != sizeof pid) { /* unshare or mount is not allowed here */
        (void)waitpid(outer, NULL, 0);
        skip();
    }
    child c = {.pid = pid};
    ipc_endpoints l = discover(2000);
    const ipc_endpoint *ep = find(&l, c.pid);
    assert_non_null(ep);
    assert_int_equal(ep->cause, IPC_OK);
    assert_int_equal(ep->nspid, 1);
    assert_false(ep->same_namespace);
    assert_non_null(strstr(ep->sockets[0].path, "/root/tmp/dotnet-diagnostic-1-"));
    assert_int_equal(ep->info.process_id, 1); /* the namespace's number: never compared with ours */
    ipc_endpoints_fini(&l);
    (void)kill(c.pid, SIGKILL);
    assert_int_equal(waitpid(outer, NULL, 0), outer);
}

static void an_elf_file_tells_a_single_file_or_native_program(void **state)
{
    (void)state;
    assert_int_equal(ipc__elf_runtime("/proc/self/exe"), IPC_RUNTIME_UNKNOWN);
    assert_int_equal(ipc__elf_runtime("/nonexistent"), IPC_RUNTIME_UNKNOWN);
    assert_int_equal(ipc__elf_runtime(library), IPC_RUNTIME_UNKNOWN); /* no ELF at all */
    assert_int_equal(ipc__elf_runtime("/dev/null"), IPC_RUNTIME_UNKNOWN);
}

static void discovery_can_be_cancelled_and_leaks_nothing(void **state)
{
    (void)state;
    int fds = count_fds(), threads = count_threads();
    child c = spawn("silent", dir, NULL);
    ipc_cancel cancel;
    assert_int_equal(ipc_cancel_init(&cancel, NULL), 0);
    ipc_cancel_fire(&cancel);
    ipc_endpoints l;
    err e = {0};
    assert_int_equal(ipc_discover(NULL, &cancel, &l, &e), -ERR_CANCELLED);
    assert_int_equal(l.n, 0);
    ipc_cancel_fini(&cancel);
    reap(&c);
    err_clear(&e);
    ipc_discover_cfg cfg = {.proc_root = "/nonexistent"};
    assert_int_equal(ipc_discover(&cfg, NULL, &l, &e), -ERR_IO);
    assert_nothing_leaked(fds, threads);
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "child") == 0) return child_main(argv + 2);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_that_answers_is_found_with_its_info),
        cmocka_unit_test(the_targets_own_tmpdir_is_looked_into),
        cmocka_unit_test(a_large_environment_is_read_to_its_end),
        cmocka_unit_test(silent_processes_cost_one_deadline_in_all),
        cmocka_unit_test(a_process_that_ends_while_it_is_asked_is_not_reported),
        cmocka_unit_test(answers_that_are_none_have_their_cause),
        cmocka_unit_test(who_hangs_up_before_the_question_is_no_left_over),
        cmocka_unit_test(the_limit_of_open_files_is_not_the_targets_fault),
        cmocka_unit_test(a_socket_of_an_earlier_process_of_that_pid_is_never_used),
        cmocka_unit_test(a_socket_planted_for_another_process_is_refused),
        cmocka_unit_test(switched_off_diagnostics_are_named_with_their_variable),
        cmocka_unit_test(a_tmpdir_that_cannot_hold_a_socket_is_named),
        cmocka_unit_test(processes_that_are_not_dotnet_or_not_there_are_told_apart),
        cmocka_unit_test(another_users_process_is_listed_with_the_cure),
        cmocka_unit_test(a_container_is_reached_through_its_root),
        cmocka_unit_test(an_elf_file_tells_a_single_file_or_native_program),
        cmocka_unit_test(discovery_can_be_cancelled_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, make_run, drop_run);
}
