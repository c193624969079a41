/* SPDX-License-Identifier: MIT */
/* fake_endpoint.c: a process with a diagnostics socket of its own that misbehaves in one way, for the live fault tests.
 * fake_endpoint MODE: silent (accepts, never answers), garbage (answers what is no message), close (hangs up at once),
 * short (the head of an answer, then nothing), huge (a head that promises 64 KB, then nothing), error (a proper error
 * answer). Prints READY. */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { MAX_CONNECTIONS = 256, HEAD = 20 };

/* The start time that a runtime puts into its socket's name: field 22 of /proc/self/stat. 0: cannot be read. */
static unsigned long long start_key(void)
{
    char text[4096];
    FILE *f = fopen("/proc/self/stat", "r");
    if (!f) return 0;
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = '\0';
    char *p = strrchr(text, ')');
    for (int field = 2; p && field < 22; field++)
        p = strchr(p + 1, ' ');
    return p ? strtoull(p + 1, NULL, 10) : 0;
}

/* An answer's head: magic, size, command set 0xFF (server), id (0: OK, 0xFF: error), reserved. */
static void head(uint8_t out[HEAD], uint16_t size, uint8_t id)
{
    memset(out, 0, HEAD);
    memcpy(out, "DOTNET_IPC_V1", 14);
    out[14] = (uint8_t)size;
    out[15] = (uint8_t)(size >> 8);
    out[16] = 0xFF;
    out[17] = id;
}

static void answer(int fd, const char *mode)
{
    uint8_t message[HEAD + 4];
    if (!strcmp(mode, "garbage")) {
        for (size_t i = 0; i < sizeof message; i++)
            message[i] = (uint8_t)(i * 37 + 5);
        (void)!write(fd, message, sizeof message);
    } else if (!strcmp(mode, "short")) {
        head(message, HEAD + 8, 0);
        (void)!write(fd, message, 11);
    } else if (!strcmp(mode, "huge")) {
        head(message, UINT16_MAX, 0);
        (void)!write(fd, message, HEAD);
    } else if (!strcmp(mode, "error")) {
        head(message, HEAD + 4, 0xFF);
        static const uint8_t unknown_command[4] = {0x85, 0x13, 0x13, 0x80}; /* 0x80131385 */
        memcpy(message + HEAD, unknown_command, sizeof unknown_command);
        (void)!write(fd, message, sizeof message);
    }
}

static struct sockaddr_un address;
static void leave(int signo)
{
    (void)signo;
    unlink(address.sun_path);
    _exit(0);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "silent", *tmp = getenv("TMPDIR");
    bool keeps = strcmp(mode, "close") != 0;
    address.sun_family = AF_UNIX;
    snprintf(address.sun_path, sizeof address.sun_path, "%s/dotnet-diagnostic-%d-%llu-socket", tmp ? tmp : "/tmp",
             (int)getpid(), start_key());
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, 64) < 0) {
        fprintf(stderr, "fake_endpoint: %s: %s\n", address.sun_path, strerror(errno));
        return 1;
    }
    signal(SIGTERM, leave);
    signal(SIGPIPE, SIG_IGN);
    printf("READY %d %s\n", (int)getpid(), mode);
    fflush(stdout);
    int kept[MAX_CONNECTIONS];
    for (size_t n = 0;; n++) {
        int c = accept(fd, NULL, NULL);
        if (c < 0) continue;
        if (keeps) answer(c, mode);
        if (keeps && n >= MAX_CONNECTIONS) close(kept[n % MAX_CONNECTIONS]);
        if (keeps)
            kept[n % MAX_CONNECTIONS] = c;
        else
            close(c);
    }
}
