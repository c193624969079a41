/* SPDX-License-Identifier: MIT */
/* standing.c: what no switch tells: the threads that wait already when a window begins. Where they do is read from
 * /proc: the kernel's part as text, the program's from the stack pointer of the system call that they are in. Formats:
 * man proc(5), /proc/PID/task/TID/stack and syscall. */
#include "offcpu/standing.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "kernel/kernel.h"
#include "offcpu/place.h"

enum { FRAME_POINTER_WORDS = 96 };

static bool read_task(const oc_standing *c, int tid, const char *name, buf *out)
{
    char rel[64];
    snprintf(rel, sizeof rel, "/proc/%d/task/%d/%s", c->pid, tid, name);
    buf_reset(out);
    return kn_read("", rel, KN_SMALL_MAX, out, NULL) >= 0;
}

/* Lines "[<0>] futex_do_wait+0x3d/0xa0" of /proc/PID/task/TID/stack, leaf first, as addresses. */
static uint32_t standing_kernel(const oc_standing *c, int tid, buf *text, uint64_t *out)
{
    uint32_t n = 0;
    if (!read_task(c, tid, "stack", text) || !buf_u8(text, 0)) return 0;
    for (const char *p = (const char *)text->p; n < OC_KERNEL_MAX && (p = strstr(p, "] "));) {
        p += 2;
        const char *plus = strpbrk(p, "+\n");
        if (!plus) break;
        uint64_t at = naming_kernel_address(c->names, slice_of(p, (size_t)(plus - p)));
        if (at && *plus == '+') out[n++] = at + strtoull(plus + 1, NULL, 16);
        p = plus;
    }
    return n;
}

/* Walks from a stack pointer and an instruction. The frame pointer is not known: where the way ends for want of it, it
 * is looked for near the stack pointer, and the one with which the way goes on to the root is it. */
static uint32_t walk_standing(const oc_standing *c, uw_regs regs, uw_frame *out, uw_end *end)
{
    uint32_t n = uw_walk(c->space, &regs, NULL, out, OC_FRAMES_MAX, end);
    uint64_t sp = out[n - 1].sp;
    for (int i = 0; *end == UW_END_NO_INFO && i < FRAME_POINTER_WORDS; i++) {
        uw_frame frames[OC_FRAMES_MAX];
        uw_end how;
        regs.r[UW_RBP] = sp + 8 * (uint64_t)i;
        regs.known |= 1u << UW_RBP;
        uint32_t m = uw_walk(c->space, &regs, NULL, frames, OC_FRAMES_MAX, &how);
        if (how != UW_END_ROOT || m <= n) continue;
        memcpy(out, frames, m * sizeof *out);
        *end = how;
        return m;
    }
    return n;
}

/* "NR ARG1 … ARG6 SP PC" of /proc/PID/task/TID/syscall; NR is -1 outside of calls. */
static uint32_t standing_user(const oc_standing *c, int tid, buf *text, uint64_t *out, oc_place *at)
{
    uint64_t v[8];
    uw_frame frames[OC_FRAMES_MAX];
    uw_end end;
    if (!read_task(c, tid, "syscall", text) || !buf_u8(text, 0)) return 0;
    const char *p = (const char *)text->p;
    char *end_of;
    long nr = strtol(p, &end_of, 10); /* "running" is no number */
    bool ok = end_of != p;
    for (int i = 0; ok && i < 8; i++) {
        p = end_of;
        v[i] = strtoull(p, &end_of, 16);
        ok = end_of != p;
    }
    if (!ok) return 0;
    uw_regs regs = {.known = 1u << UW_RSP | 1u << UW_RIP};
    regs.r[UW_RSP] = v[6];
    regs.r[UW_RIP] = v[7];
    regs.r[UW_RSI] = v[1];
    regs.r[UW_RAX] = OC_IN_SYSCALL;
    if (nr >= 0 && nr < UINT16_MAX - 1) at->call = (uint16_t)(nr + 1);
    at->sync = (uint8_t)oc_sync_of(&regs);
    uint32_t n = walk_standing(c, regs, frames, &end);
    for (uint32_t i = 0; i < n; i++)
        out[i] = frames[i].ip | (frames[i].exact || i == 0 ? OC_EXACT : 0);
    return n;
}

static bool state_of(const oc_standing *c, int tid, buf *text, uint8_t *out)
{
    kn_stat s;
    if (!read_task(c, tid, "stat", text) || kn_parse_stat(buf_view(text), &s, NULL) < 0) return false;
    switch (s.state) {
    case 'S': *out = OC_SLEEP; return true;
    case 'D': *out = OC_DISK; return true;
    case 'I': *out = OC_IDLE; return true;
    case 'T': *out = OC_STOPPED; return true;
    case 't': *out = OC_TRACED; return true;
    default: return false; /* it runs, or wants to */
    }
}

static void read_place(const oc_standing *c, int tid, buf *text, oc_place *at)
{
    uint64_t kernel[OC_KERNEL_MAX], user[OC_FRAMES_MAX];
    uint32_t n_kernel = standing_kernel(c, tid, text, kernel);
    uint32_t n_user = standing_user(c, tid, text, user, at);
    at->stack = oc_stacks_put(c->stacks, kernel, n_kernel, user, n_user);
}

static void list(oc_standing *c)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", c->pid);
    DIR *d = opendir(path);
    if (!d) return;
    c->tids = mem_alloc(OC_STANDING_MAX * sizeof *c->tids);
    for (struct dirent *x; c->tids && c->n < OC_STANDING_MAX && (x = readdir(d));) {
        int tid = (int)strtol(x->d_name, NULL, 10);
        if (tid > 0) c->tids[c->n++] = tid;
    }
    closedir(d);
}

void oc_standing_begin(oc_standing *c, int64_t begin_ns)
{
    buf text;
    buf_init(&text, 0);
    c->begin_ns = begin_ns;
    list(c);
    for (uint32_t i = 0; i < c->n; i++) {
        oc_place at = {0};
        if (!state_of(c, c->tids[i], &text, &at.state)) continue;
        if (mono_ns() - begin_ns < OC_STANDING_NS) read_place(c, c->tids[i], &text, &at);
        oc_stand(c->spans, c->tids[i], begin_ns, mono_ns(), at);
    }
    buf_fini(&text);
}

uint32_t oc_standing_end(oc_standing *c)
{
    uint32_t n = 0;
    buf text;
    buf_init(&text, 0);
    for (uint32_t i = 0; i < c->n; i++) {
        oc_place at = {0};
        if (oc_seen(c->spans, c->tids[i]) || !state_of(c, c->tids[i], &text, &at.state)) continue;
        if (!oc_stands(c->spans, c->tids[i])) {
            read_place(c, c->tids[i], &text, &at);
            oc_stand(c->spans, c->tids[i], c->begin_ns, c->begin_ns, at);
        }
        n++;
    }
    buf_fini(&text);
    return n;
}

void oc_standing_fini(oc_standing *c)
{
    free(c->tids);
    c->tids = NULL;
    c->n = 0;
}
