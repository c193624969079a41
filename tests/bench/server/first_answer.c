/* SPDX-License-Identifier: MIT */
/* Measures the time from exec to the first answered request of an HTTP server, and its resident memory when idle after
 * that. Usage: first_answer PORT IDLE_MS COMMAND ARGS…   prints "<milliseconds> <kB>". */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int ask(unsigned short port)
{
    static const char request[] = "GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    char got[16] = {0};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    int ok = connect(fd, (struct sockaddr *)&a, sizeof a) == 0 &&
             write(fd, request, sizeof request - 1) == (ssize_t)sizeof request - 1 && read(fd, got, 12) == 12 &&
             memcmp(got, "HTTP/1.1 200", 12) == 0;
    close(fd);
    return ok;
}

static long resident_kb(pid_t pid)
{
    char path[64], line[256];
    long kb = -1;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, "VmRSS:", 6) == 0) kb = strtol(line + 6, NULL, 10);
    if (f) fclose(f);
    return kb;
}

int main(int argc, char **argv)
{
    if (argc < 4) return 2;
    unsigned short port = (unsigned short)strtol(argv[1], NULL, 10);
    long idle_ms = strtol(argv[2], NULL, 10);
    double start = now_ms(), answered = 0;
    pid_t pid = fork();
    if (pid == 0) {
        if (!freopen("/dev/null", "w", stdout)) _exit(126);
        execv(argv[3], argv + 3);
        _exit(127);
    }
    while (!answered && now_ms() - start < 10000) {
        if (ask(port))
            answered = now_ms();
        else
            usleep(200);
    }
    usleep((useconds_t)idle_ms * 1000);
    long kb = resident_kb(pid);
    kill(pid, SIGTERM);
    waitpid(pid, NULL, 0);
    if (!answered) return 1;
    printf("%.1f %ld\n", answered - start, kb);
    return 0;
}
