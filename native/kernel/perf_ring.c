/* SPDX-License-Identifier: MIT */
/* perf_ring.c: the memory that the kernel writes records of one CPU into. Only one that goes round the end is copied.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernel/perf_internal.h"

int perf__ring_map(perf__ring *r, int fd, int cpu, size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    *r = (perf__ring){.fd = fd, .cpu = cpu, .page = page};
    r->scratch = mem_alloc(PERF__RECORD_MAX);
    if (!r->scratch) return -ENOMEM;
    int sys = EINVAL;
    for (; bytes >= page; bytes /= 2) {
        void *p = mmap(NULL, page + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (p != MAP_FAILED) {
            r->base = p;
            r->bytes = bytes;
            return 0;
        }
        sys = errno;
        if (sys != EPERM && sys != ENOMEM) break; /* EPERM: over perf_event_mlock_kb */
    }
    free(r->scratch);
    r->scratch = NULL;
    return -sys;
}

void perf__ring_unmap(perf__ring *r)
{
    if (r->base) munmap(r->base, r->page + r->bytes);
    free(r->scratch);
    *r = (perf__ring){.fd = -1};
}

void perf__ring_look(perf__ring *r)
{
    const struct perf_event_mmap_page *m = r->base;
    if (r->base) r->head = __atomic_load_n(&m->data_head, __ATOMIC_ACQUIRE);
}

static const uint8_t *data_of(const perf__ring *r) { return (const uint8_t *)r->base + r->page; }

/* Copies out of the ring, which may go round. */
static void copy_out(const perf__ring *r, uint64_t at, void *out, size_t n)
{
    size_t from = (size_t)(at & (r->bytes - 1)), first = r->bytes - from < n ? r->bytes - from : n;
    memcpy(out, data_of(r) + from, first);
    memcpy((uint8_t *)out + first, data_of(r), n - first);
}

bool perf__ring_peek(perf__ring *r, uint64_t *damaged)
{
    if (r->next.n) return true;
    struct perf_event_header h;
    uint64_t left = r->head - r->at;
    if (!r->base || left == 0) return false;
    if (left >= sizeof h) copy_out(r, r->at, &h, sizeof h);
    if (left < sizeof h || h.size < sizeof h ||
        h.size > left) { /* never seen; a ring that cannot be trusted is empty */
        r->at = r->head;
        ++*damaged;
        return false;
    }
    size_t from = (size_t)(r->at & (r->bytes - 1));
    if (from + h.size > r->bytes) {
        copy_out(r, r->at, r->scratch, h.size);
        r->next = slice_of(r->scratch, h.size);
    } else {
        r->next = slice_of(data_of(r) + from, h.size);
    }
    r->next_time = perf__time_of(r->next);
    return true;
}

void perf__ring_pass(perf__ring *r)
{
    r->at += r->next.n;
    r->next = (slice){0};
}

void perf__ring_free(perf__ring *r)
{
    struct perf_event_mmap_page *m = r->base;
    if (r->base) __atomic_store_n(&m->data_tail, r->at, __ATOMIC_RELEASE);
}
