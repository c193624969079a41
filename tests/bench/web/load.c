/* SPDX-License-Identifier: MIT */
/* load.c: GET requests over kept-alive connections to a port of this machine, so cheaply that the server has the CPU.
 * Each connection has as many requests under way as said. Prints requests= seconds= rps= errors=. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <netinet/tcp.h>

#define CONNECTIONS_MAX 64
#define DEPTH_MAX       64
#define SECONDS_MAX     120

static const char request[] = "GET /ok HTTP/1.1\r\nHost: localhost\r\n\r\n";
static const char head_end[] = "\r\n\r\nok\n"; /* every answer ends so, and has it nowhere else */

typedef struct connection {
    int fd;
    int under_way;
    size_t matched; /* characters of head_end seen last */
} connection;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int open_to(uint16_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) < 0) {
        perror("connect");
        exit(1);
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

static bool ask(connection *c, int n)
{
    char text[DEPTH_MAX * sizeof request];
    size_t size = 0;
    for (int i = 0; i < n; i++) {
        memcpy(text + size, request, sizeof request - 1);
        size += sizeof request - 1;
    }
    c->under_way += n;
    return send(c->fd, text, size, MSG_NOSIGNAL) == (ssize_t)size;
}

/* How many answers ended in what came. */
static int answers(connection *c, const char *p, size_t n)
{
    int ended = 0;
    for (size_t i = 0; i < n; i++) {
        if (p[i] != head_end[c->matched])
            c->matched = p[i] == '\r' ? 1 : 0;
        else if (++c->matched == sizeof head_end - 1) {
            ended++;
            c->matched = 0;
        }
    }
    return ended;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr,
                "usage: load PORT SECONDS CONNECTIONS [DEPTH [RATE]]   RATE: requests a second, 0: as many as go\n");
        return 2;
    }
    int seconds = atoi(argv[2]), n = atoi(argv[3]), depth = argc > 4 ? atoi(argv[4]) : 1;
    double rate = argc > 5 ? atof(argv[5]) : 0;
    if (seconds < 1 || seconds > SECONDS_MAX || n < 1 || n > CONNECTIONS_MAX || depth < 1 || depth > DEPTH_MAX)
        return 2;
    connection c[CONNECTIONS_MAX] = {0};
    int poll = epoll_create1(0);
    for (int i = 0; i < n; i++) {
        c[i].fd = open_to((uint16_t)atoi(argv[1]));
        epoll_ctl(poll, EPOLL_CTL_ADD, c[i].fd, &(struct epoll_event){.events = EPOLLIN, .data.ptr = &c[i]});
    }
    int64_t asked = 0, answered = 0, errors = 0;
    double start = now(), end = start + seconds, t;
    while ((t = now()) < end && errors == 0) {
        int64_t allowed = rate > 0 ? (int64_t)((t - start) * rate) - asked : INT64_MAX;
        for (int i = 0; i < n && allowed > 0; i++) {
            int more = depth - c[i].under_way;
            if (more > allowed) more = (int)allowed;
            if (more <= 0 || (rate <= 0 && c[i].under_way > 0)) continue;
            if (!ask(&c[i], more)) errors++;
            asked += more;
            allowed -= more;
        }
        struct epoll_event ready[CONNECTIONS_MAX];
        int k = epoll_wait(poll, ready, n, 1);
        for (int i = 0; i < k; i++) {
            connection *r = ready[i].data.ptr;
            char text[65536];
            ssize_t got = recv(r->fd, text, sizeof text, MSG_DONTWAIT);
            if (got == 0 || (got < 0 && errno != EAGAIN)) errors++;
            int ended = got > 0 ? answers(r, text, (size_t)got) : 0;
            r->under_way -= ended;
            answered += ended;
        }
    }
    double took = now() - start;
    printf("requests=%lld seconds=%.3f rps=%.0f errors=%lld\n", (long long)answered, took, (double)answered / took,
           (long long)errors);
    for (int i = 0; i < n; i++)
        close(c[i].fd);
    close(poll);
    return errors ? 1 : 0;
}
