/* SPDX-License-Identifier: MIT */
/* perf_decode.c: one record of a ring. Layout: man perf_event_open(2), "Overflow handling" and PERF_RECORD_…. */
#include "kernel/perf_internal.h"

enum { PATH_BYTES_MAX = 4096, CHAIN_MAX = 4096 };

int64_t perf__time_of(slice record)
{
    struct perf_event_header h;
    int64_t t = 0;
    if (record.n < sizeof h) return 0;
    memcpy(&h, record.p, sizeof h);
    size_t at = h.type == PERF_RECORD_SAMPLE ? sizeof h + 24 : record.n - PERF__TRAILER + 8;
    if (record.n < sizeof h + PERF__TRAILER) return 0;
    memcpy(&t, record.p + at, sizeof t);
    return t;
}

static void read_ids(cursor *c, perf_record *out)
{
    out->pid = cursor_i32(c);
    out->tid = cursor_i32(c);
}

/* Registers in the order of the kernel's numbers. */
static void read_regs(cursor *c, uint64_t mask, perf_record *out)
{
    uint64_t abi = cursor_u64(c);
    if (abi == PERF_SAMPLE_REGS_ABI_NONE) return;
    for (unsigned i = 0; i < 64; i++) {
        if (!(mask >> i & 1)) continue;
        uint64_t v = cursor_u64(c);
        int to = perf__reg_of(i);
        if (to < 0) continue;
        out->regs.r[to] = v;
        out->regs.known |= 1u << to;
    }
    out->has_regs = abi == PERF_SAMPLE_REGS_ABI_64;
}

static void read_chain(cursor *c, perf_record *out)
{
    uint64_t n = cursor_u64(c);
    if (n > CHAIN_MAX) {
        cursor_fail(c);
        return;
    }
    slice s = cursor_bytes(c, (size_t)n * sizeof *out->chain);
    out->chain = (const uint64_t *)(const void *)s.p;
    out->n_chain = cursor_ok(c) ? (uint32_t)n : 0;
}

static void read_stack(cursor *c, perf_record *out)
{
    uint64_t n = cursor_u64(c);
    if (n == 0) return;
    if (n > PERF__RECORD_MAX) {
        cursor_fail(c);
        return;
    }
    slice s = cursor_bytes(c, (size_t)n);
    uint64_t filled = cursor_u64(c);
    if (filled < s.n) s.n = (size_t)filled;
    if (cursor_ok(c)) out->stack = s;
}

static bool read_sample(cursor *c, perf_layout_fn layout_of, void *arg, perf_record *out)
{
    const perf_layout *l = layout_of(arg, cursor_u64(c));
    if (!l || (l->sample_type & PERF__COMMON) != PERF__COMMON) return false;
    out->spec = l->spec;
    out->ip = cursor_u64(c);
    read_ids(c, out);
    out->time = cursor_i64(c);
    if (l->sample_type & PERF_SAMPLE_ADDR) out->addr = cursor_u64(c);
    out->cpu = cursor_u32(c);
    cursor_skip(c, 4);
    out->period = l->sample_type & PERF_SAMPLE_PERIOD ? cursor_u64(c) : l->period;
    if (l->sample_type & PERF_SAMPLE_CALLCHAIN) read_chain(c, out);
    if (l->sample_type & PERF_SAMPLE_RAW) out->raw = cursor_bytes(c, cursor_u32(c));
    if (l->sample_type & PERF_SAMPLE_REGS_USER) read_regs(c, l->user_regs, out);
    if (l->sample_type & PERF_SAMPLE_STACK_USER) read_stack(c, out);
    return cursor_ok(c);
}

/* Text up to its NUL or the end. */
static slice text_of(cursor *c, size_t max)
{
    size_t n = cursor_left(c) < max ? cursor_left(c) : max;
    slice s = cursor_bytes(c, n);
    const void *end = s.n ? memchr(s.p, 0, s.n) : NULL;
    if (end) s.n = (size_t)((const uint8_t *)end - s.p);
    return s;
}

static void read_map(cursor *c, const struct perf_event_header *h, perf_record *out)
{
    perf_map *m = &out->map;
    read_ids(c, out);
    m->start = cursor_u64(c);
    m->size = cursor_u64(c);
    m->file_offset = cursor_u64(c);
    if (h->type == PERF_RECORD_MMAP2) {
        if (h->misc & PERF_RECORD_MISC_MMAP_BUILD_ID) {
            uint8_t n = cursor_u8(c);
            cursor_skip(c, 3);
            slice id = cursor_bytes(c, 20);
            m->build_id = slice_of(id.p, n < id.n ? n : id.n);
        } else {
            m->major = cursor_u32(c);
            m->minor = cursor_u32(c);
            m->inode = cursor_u64(c);
            m->inode_generation = cursor_u64(c);
        }
        m->prot = cursor_u32(c);
        cursor_skip(c, 4);
    } else {
        m->prot = h->misc & PERF_RECORD_MISC_MMAP_DATA ? 3 : 5; /* data or code */
    }
    m->path = text_of(c, PATH_BYTES_MAX);
}

static void read_task(cursor *c, perf_record *out)
{
    out->pid = cursor_i32(c);
    out->ppid = cursor_i32(c);
    out->tid = cursor_i32(c);
    out->ptid = cursor_i32(c);
}

static bool read_other(cursor *c, const struct perf_event_header *h, perf_record *out)
{
    switch (h->type) {
    case PERF_RECORD_MMAP:
    case PERF_RECORD_MMAP2:
        out->kind = PERF_MMAP;
        read_map(c, h, out);
        return cursor_ok(c);
    case PERF_RECORD_COMM:
        out->kind = PERF_COMM;
        out->exec = h->misc & PERF_RECORD_MISC_COMM_EXEC;
        read_ids(c, out);
        out->comm = text_of(c, 64);
        return cursor_ok(c);
    case PERF_RECORD_FORK:
    case PERF_RECORD_EXIT:
        out->kind = h->type == PERF_RECORD_FORK ? PERF_FORK : PERF_EXIT;
        read_task(c, out);
        return cursor_ok(c);
    case PERF_RECORD_LOST:
        cursor_skip(c, 8);
        out->kind = PERF_LOST;
        out->lost = cursor_u64(c);
        return cursor_ok(c);
    case PERF_RECORD_LOST_SAMPLES:
        out->kind = PERF_LOST;
        out->lost = cursor_u64(c);
        return cursor_ok(c);
    case PERF_RECORD_THROTTLE: out->kind = PERF_THROTTLE; return true;
    case PERF_RECORD_SWITCH:
        out->kind = PERF_SWITCH;
        out->out = h->misc & PERF_RECORD_MISC_SWITCH_OUT;
        out->preempted = h->misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT;
        return true;
    default: out->kind = PERF_OTHER; return true;
    }
}

bool perf_decode(slice record, perf_layout_fn layout_of, void *arg, perf_record *out)
{
    struct perf_event_header h;
    *out = (perf_record){.kind = PERF_SAMPLE};
    if (record.n < sizeof h) return false;
    memcpy(&h, record.p, sizeof h);
    if (h.size != record.n) return false;
    if (h.type == PERF_RECORD_SAMPLE) {
        cursor c = cursor_of(slice_of(record.p + sizeof h, record.n - sizeof h), sizeof h);
        return read_sample(&c, layout_of, arg, out);
    }
    if (record.n < sizeof h + PERF__TRAILER) return false;
    cursor body = cursor_of(slice_of(record.p + sizeof h, record.n - sizeof h - PERF__TRAILER), sizeof h);
    cursor tail = cursor_of(slice_of(record.p + record.n - PERF__TRAILER, PERF__TRAILER), 0);
    read_ids(&tail, out);
    out->time = cursor_i64(&tail);
    out->cpu = cursor_u32(&tail);
    return read_other(&body, &h, out);
}
