/* SPDX-License-Identifier: MIT */
/* record.c: runs the workload and records it over the diagnostics socket: record OUT.nettrace DOTNET Workload.dll
 * ROUNDS */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ipc/ipc.h"

extern char **environ;

typedef struct recording {
    FILE *to;
    bool whole;
} recording;

static int on_bytes(void *arg, slice bytes)
{
    recording *r = arg;
    return fwrite(bytes.p, 1, bytes.n, r->to) == bytes.n ? 0 : -1;
}

static void on_end(void *arg, const ipc_session_end *end)
{
    recording *r = arg;
    r->whole = end->reason == IPC_END_STOPPED;
}

static int die(const err *e)
{
    fprintf(stderr, "record: %s\n", e->message);
    return 1;
}

static pid_t start(char **argv, int *to_child, int *from_child)
{
    int in[2], out[2];
    pid_t pid = -1;
    posix_spawn_file_actions_t fa;
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) return -1;
    posix_spawn_file_actions_init(&fa);
    posix_spawn_file_actions_adddup2(&fa, in[0], 0);
    posix_spawn_file_actions_adddup2(&fa, out[1], 1);
    if (posix_spawnp(&pid, argv[0], &fa, NULL, argv, environ) != 0) pid = -1;
    posix_spawn_file_actions_destroy(&fa);
    close(in[0]);
    close(out[1]);
    *to_child = in[1];
    *from_child = out[0];
    return pid;
}

/* Waits for the child's next line. */
static bool line(int fd)
{
    char c = 0;
    while (c != '\n')
        if (read(fd, &c, 1) != 1) return false;
    return true;
}

static int record(pid_t pid, recording *r, int to_child, int from_child)
{
    static const ipc_provider providers[] = {
        {.name = "Microsoft-Windows-DotNETRuntime", .keywords = UINT64_C(0x100003C01D), .level = 5},
        {.name = "System.Threading.Tasks.TplEventSource", .keywords = 0x43, .level = 5},
        {.name = "System.Diagnostics.Eventing.FrameworkEventSource", .keywords = 0x2, .level = 5},
        {.name = "System.Runtime", .level = 4, .args = "EventCounterIntervalSec=1"},
        {.name = "Lunette-Bench-Shop", .keywords = UINT64_MAX, .level = 5}};
    ipc_session_cfg cfg = {.collect = {.providers = providers,
                                       .n_providers = 5,
                                       .buffer_mb = 1024,
                                       .format = 1,
                                       .rundown_keywords = IPC_RUNDOWN_DEFAULT,
                                       .stacks = true},
                           .on_bytes = on_bytes,
                           .on_end = on_end,
                           .arg = r};
    ipc_endpoint ep;
    ipc_session *s = NULL;
    err e = {0};
    int rc = ipc_resolve(pid, NULL, &ep, &e);
    if (rc >= 0) rc = ipc_session_open(&ep, &cfg, deadline_in_ms(10000), NULL, &s, &e);
    if (rc >= 0 && (write(to_child, "\n", 1) != 1 || !line(from_child)))
        rc = err_set(&e, ERR_IO, "the workload ended early");
    if (rc >= 0) {
        ipc_session_stop(s, deadline_in_ms(120000));
        ipc_session_wait(s, DEADLINE_NEVER);
    }
    ipc_session_free(s);
    ipc_sessions_wait(deadline_in_ms(5000));
    ipc_endpoint_fini(&ep);
    return rc < 0 ? die(&e) : 0;
}

int main(int argc, char **argv)
{
    recording r = {0};
    int to_child, from_child, status;
    if (argc != 5 || !(r.to = fopen(argv[1], "wb"))) {
        fprintf(stderr, "use: record OUT.nettrace DOTNET Workload.dll ROUNDS\n");
        return 2;
    }
    pid_t pid = start(argv + 2, &to_child, &from_child);
    if (pid < 0 || !line(from_child)) {
        fprintf(stderr, "record: the workload does not start\n");
        return 1;
    }
    int rc = record(pid, &r, to_child, from_child);
    close(to_child); /* the end of its input lets it go */
    waitpid(pid, &status, 0);
    close(from_child);
    if (fclose(r.to) != 0 || !r.whole) rc = 1;
    return rc;
}
