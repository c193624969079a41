/* SPDX-License-Identifier: MIT */
/* wakees.c: the text of the kernel's filter, from sorted threads. */
#include "offcpu/wakees.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernel/kernel.h"

bool oc_wakees_add(oc_wakees *w, int tid)
{
    if (w->n == w->cap) {
        size_t to = w->cap ? w->cap * 2 : 64;
        int *grown = mem_realloc(w->tids, to * sizeof *grown);
        if (!grown) return false;
        w->tids = grown;
        w->cap = to;
    }
    w->tids[w->n++] = tid;
    return true;
}

static int by_number(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

/* Ranges of sorted numbers that leave out gaps above `gap`: how many, and as text if out is there. */
static size_t ranges(const oc_wakees *w, size_t n, int gap, buf *out)
{
    size_t count = 0;
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && w->tids[end] - w->tids[end - 1] <= gap;)
            end++;
        const char *or_else = count++ ? "||" : "";
        if (!out) continue;
        if (w->tids[i] == w->tids[end - 1])
            buf_printf(out, "%spid==%d", or_else, w->tids[i]);
        else
            buf_printf(out, "%s(pid>=%d&&pid<=%d)", or_else, w->tids[i], w->tids[end - 1]);
    }
    return count;
}

bool oc_wakees_filter(oc_wakees *w, int last, buf *out)
{
    size_t n = w->n;
    if (n) qsort(w->tids, n, sizeof *w->tids, by_number);
    while (last >= 0 && n && w->tids[n - 1] > last)
        n--;
    int gap = 1;
    while (ranges(w, n, gap, NULL) > OC_WAKEES_RANGES && gap < INT_MAX / 2)
        gap *= 2;
    ranges(w, n, gap, out);
    if (last >= 0) buf_printf(out, "%spid>%d", n ? "||" : "", last);
    buf_u8(out, 0);
    return !out->failed && (n || last >= 0);
}

void oc_wakees_fini(oc_wakees *w)
{
    free(w->tids);
    *w = (oc_wakees){0};
}

int oc_last_tid(void)
{
    buf b;
    long last = 0;
    buf_init(&b, 0);
    if (kn_read("", "/proc/loadavg", KN_SMALL_MAX, &b, NULL) == 0) {
        buf_u8(&b, 0);
        const char *at = b.failed ? NULL : strrchr((const char *)b.p, ' ');
        if (at) last = strtol(at, NULL, 10);
    }
    buf_fini(&b);
    return last > 0 && last < INT_MAX ? (int)last : -1;
}

bool oc_is_nested(void)
{
    char to[64];
    ssize_t n = readlink("/proc/self/ns/pid", to, sizeof to - 1);
    if (n <= 0) return true;
    to[n] = 0;
    return strcmp(to, "pid:[4026531836]") != 0;
}
