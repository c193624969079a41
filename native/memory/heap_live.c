/* SPDX-License-Identifier: MIT */
/* heap_live.c: the heap of a live process: looked at first without a stop, for an estimate; then room is made, and only
 * then the process stands, for as long as its regions are copied and its roots are read. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "memory/heap_own.h"

#define COPY_PIECE       ((size_t)4 << 20) /* bytes of one call of the kernel */
#define COPY_THREADS_MAX 8u
#define MEASURED_BYTES   ((size_t)8 << 20)
#define TOUCHED_MORE     ((size_t)4 << 20)
#define THREAD_STACK_NS  INT64_C(400000) /* to read the roots on its stack */
#define SLOWEST_BYTES_S  UINT64_C(500000000)
#define PAGE             UINT64_C(4096)

static void tell(const heap *h, const char *what)
{
    if (h->o.progress) h->o.progress(h->o.arg, what);
}

/* ---- copying ----------------------------------------------------------------------------------------------------- */

typedef struct piece {
    uint64_t from;
    uint8_t *to;
    size_t n;
} piece;

typedef struct copying {
    pid_t pid;
    piece *pieces;
    size_t n;
    atomic_size_t next;
    atomic_bool failed; /* some piece could not be read this way: those are read again, one by one */
    _Atomic uint8_t *short_of;
} copying;

static void *copy_some(void *arg)
{
    copying *c = arg;
    for (size_t i; (i = atomic_fetch_add(&c->next, 1)) < c->n;) {
        piece *p = &c->pieces[i];
        struct iovec to = {p->to, p->n}, from = {(void *)(uintptr_t)p->from, p->n};
        if (process_vm_readv(c->pid, &to, 1, &from, 1, 0) != (ssize_t)p->n) {
            atomic_store(&c->short_of[i], 1);
            atomic_store(&c->failed, true);
        }
    }
    return NULL;
}

static void copy_all(copying *c, unsigned threads)
{
    pthread_t others[COPY_THREADS_MAX];
    unsigned started = 0;
    if (threads > COPY_THREADS_MAX) threads = COPY_THREADS_MAX;
    while (started + 1 < threads && started + 1 < c->n && pthread_create(&others[started], NULL, copy_some, c) == 0)
        started++;
    copy_some(c);
    for (unsigned i = 0; i < started; i++)
        pthread_join(others[i], NULL);
}

static size_t count_pieces(const heap *h)
{
    size_t n = 0;
    for (size_t i = 0; i < h->n_regions; i++)
        n += (size_t)((h->regions[i].end - h->regions[i].start + COPY_PIECE - 1) / COPY_PIECE);
    return n;
}

/* Bytes of the copy that the regions ask for: each at a page of its own. */
static size_t copy_bytes(const heap *h)
{
    size_t n = 0;
    for (size_t i = 0; i < h->n_regions; i++)
        n += (size_t)((h->regions[i].end - h->regions[i].start + PAGE - 1) & ~(PAGE - 1));
    return n;
}

/* Gives the regions their places in the copy. */
static void lay_out(heap *h, piece *pieces)
{
    uint8_t *to = h->copy;
    size_t k = 0;
    for (size_t i = 0; i < h->n_regions; i++) {
        heap_region *r = &h->regions[i];
        size_t n = (size_t)(r->end - r->start);
        r->bytes = to;
        r->held = n;
        for (size_t done = 0; done < n; done += COPY_PIECE)
            pieces[k++] = (piece){r->start + done, to + done, n - done < COPY_PIECE ? n - done : COPY_PIECE};
        to += (n + PAGE - 1) & ~(PAGE - 1);
    }
}

/* What the fast way could not read: through the target's own reader, as far as it goes. */
static void copy_again(heap *h, copying *c)
{
    uint64_t missing = 0;
    for (size_t i = 0; i < c->n; i++)
        if (c->short_of[i])
            missing += c->pieces[i].n - mem_read(h->t, c->pieces[i].from, c->pieces[i].to, c->pieces[i].n);
    if (missing)
        heap_add_note(h, "%llu bytes of the heap could not be read: objects there are missing.",
                      (unsigned long long)missing);
}

int heap__copy(heap *h, err *e)
{
    copying c = {.pid = mem_memory_pid(h->t), .n = count_pieces(h)};
    size_t need = copy_bytes(h);
    if (need > h->copy_size) { /* it grew since the estimate */
        if (h->copy) munmap(h->copy, h->copy_size);
        h->copy = mmap(NULL, need, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (h->copy == MAP_FAILED) h->copy = NULL;
        h->copy_size = h->copy ? need : 0;
    }
    c.pieces = mem_calloc(c.n ? c.n : 1, sizeof *c.pieces);
    c.short_of = mem_calloc(c.n ? c.n : 1, 1);
    if ((need && !h->copy) || !c.pieces || !c.short_of) {
        free(c.pieces);
        free((void *)c.short_of);
        return err_set(e, ERR_NO_MEMORY, "no memory for a copy of %zu bytes of the heap", need);
    }
    lay_out(h, c.pieces);
    copy_all(&c, h->o.threads);
    if (atomic_load(&c.failed)) copy_again(h, &c);
    h->facts.copied = need;
    free(c.pieces);
    free((void *)c.short_of);
    return 0;
}

/* ---- the estimate ------------------------------------------------------------------------------------------------ */

/* Half of what the machine has left. (What the container has left is a matter of who starts the worker.) */
static uint64_t memory_to_spend(const heap *h)
{
    if (h->o.memory) return h->o.memory;
    FILE *f = fopen("/proc/meminfo", "re");
    char line[128];
    unsigned long long kb = 0;
    while (f && !kb && fgets(line, sizeof line, f))
        if (strncmp(line, "MemAvailable:", 13) == 0) kb = strtoull(line + 13, NULL, 10);
    if (f) fclose(f);
    return kb ? kb * 1024 / 2 : UINT64_C(1) << 30;
}

/* Bytes a second that this machine reads of that process, by a piece of the largest region. */
static uint64_t measured_rate(const heap *h)
{
    const heap_region *largest = NULL;
    for (size_t i = 0; i < h->n_regions; i++)
        if (!largest || h->regions[i].end - h->regions[i].start > largest->end - largest->start)
            largest = &h->regions[i];
    size_t n = largest ? (size_t)(largest->end - largest->start) : 0;
    if (n > MEASURED_BYTES) n = MEASURED_BYTES;
    if (n < MEASURED_BYTES / 8 || n > h->copy_size) return SLOWEST_BYTES_S;
    struct iovec to = {h->copy, n}, from = {(void *)(uintptr_t)largest->start, n};
    int64_t t0 = mono_ns();
    ssize_t got = process_vm_readv(mem_pid(h->t), &to, 1, &from, 1, 0);
    int64_t took = mono_ns() - t0;
    if (got <= 0 || took <= 0) return SLOWEST_BYTES_S;
    uint64_t rate = (uint64_t)((double)got * 1e9 / (double)took);
    return rate < SLOWEST_BYTES_S ? SLOWEST_BYTES_S : rate;
}

typedef struct touching {
    uint8_t *p;
    size_t n;
} touching;

static void *touch(void *arg)
{
    const touching *t = arg;
    for (size_t i = 0; i < t->n; i += PAGE)
        *(volatile uint8_t *)(t->p + i) = 0;
    return NULL;
}

/* Room for the copy, its pages there already: a fault costs more than copying the page does. What the heap may grow by
 * until then has addresses only. */
static int make_room(heap *h, size_t bytes, err *e)
{
    size_t touched = (bytes + TOUCHED_MORE) & ~(PAGE - 1);
    h->copy_size = (bytes + (bytes >> 4) + 4 * TOUCHED_MORE) & ~(PAGE - 1);
    h->copy = mmap(NULL, h->copy_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (h->copy == MAP_FAILED) {
        h->copy = NULL;
        return err_set(e, ERR_NO_MEMORY, "no memory for a copy of %zu bytes of the heap", bytes);
    }
    madvise(h->copy, h->copy_size, MADV_HUGEPAGE);
    size_t half = (touched / 2) & ~(PAGE - 1);
    touching a = {h->copy, half}, b = {h->copy + half, touched - half};
    pthread_t other;
    if (h->o.threads > 1 && pthread_create(&other, NULL, touch, &a) == 0) {
        touch(&b);
        pthread_join(other, NULL);
    } else {
        touch(&a);
        touch(&b);
    }
    return 0;
}

static int refuse_memory(uint64_t bytes, uint64_t limit, err *e)
{
    int rc = err_set(e, ERR_LIMIT, "the heap of %llu MB would have to be copied, and %llu MB may be used",
                     (unsigned long long)(bytes >> 20), (unsigned long long)(limit >> 20));
    err_hint(e, "Write a dump (collect_process_dump) and open it with source=\"dump\", which needs no copy; or use "
                "source=\"gcdump\".");
    return rc;
}

int heap__fits(const heap *h, err *e)
{
    return copy_bytes(h) > h->o.memory ? refuse_memory(copy_bytes(h), h->o.memory, e) : 0;
}

int heap__make_room(heap *h, err *e)
{
    size_t bytes = copy_bytes(h);
    uint64_t limit = h->o.memory = memory_to_spend(h);
    tell(h, "making room for a copy");
    return bytes > limit ? refuse_memory(bytes, limit, e) : make_room(h, bytes, e);
}

static int estimate(heap *h, err *e)
{
    int rc = heap__layout(h, e);
    if (rc == 0) rc = heap__make_room(h, e);
    if (rc < 0) return rc;
    size_t bytes = copy_bytes(h);
    double rate = (double)measured_rate(h);
    h->facts.estimate_ns = (int64_t)((double)bytes * 1e9 / rate) +
                           (int64_t)h->facts.threads * (HEAP_THREAD_STOP_NS + (h->o.stacks ? THREAD_STACK_NS : 0)) +
                           5000000;
    if (h->facts.estimate_ns <= h->o.pause_ns) return 0;
    rc = err_set(e, ERR_LIMIT,
                 "the process would stand for about %lld ms while %llu MB are copied, and may stand for %lld ms",
                 (long long)(h->facts.estimate_ns / 1000000), (unsigned long long)(bytes >> 20),
                 (long long)(h->o.pause_ns / 1000000));
    err_hint(e, "Write a dump (collect_process_dump) at a quiet time and open it with source=\"dump\".");
    return rc;
}

/* ---- the stop ---------------------------------------------------------------------------------------------------- */

static int64_t sooner(int64_t a, int64_t b) { return a < b ? a : b; }

/* While a process stands nothing is more urgent than letting it go. (Without the right to, we are as urgent as others.)
 */
void heap__hurry(bool on, int *before)
{
    id_t self = (id_t)syscall(SYS_gettid);
    if (on) *before = getpriority(PRIO_PROCESS, self);
    (void)setpriority(PRIO_PROCESS, self, on ? -20 : *before);
}

/* One stop. 1: a collection was at work. */
static int stop_and_read(heap *h, bool last, err *e)
{
    int64_t begin = mono_ns();
    int before = 0;
    heap__hurry(true, &before);
    int rc = mem_stop(h->t, begin + h->o.pause_ns, e);
    if (rc < 0) {
        heap__hurry(false, &before);
        return rc;
    }
    dac_flush(h->d);
    rc = heap__layout(h, e);
    if (rc == 0 && h->facts.gc_at_work && !last) rc = 1;
    if (rc == 0) rc = heap__fits(h, e);
    int64_t t0 = mono_ns();
    if (rc == 0) rc = heap__copy(h, e);
    int64_t t1 = mono_ns();
    if (rc == 0) rc = heap__roots(h, sooner(t1 + HEAP_STACK_NS, begin + h->o.pause_ns), e);
    if (rc == 0) heap__list_loaded(h);
    mem_resume(h->t);
    heap__hurry(false, &before);
    h->facts.stop_copy_ns = t1 - t0;
    h->facts.stop_roots_ns = mono_ns() - t1;
    return rc;
}

void heap__say_gc(heap *h)
{
    if (h->facts.gc_at_work)
        heap_add_note(
            h, "A garbage collection was at work at each of %d stops: objects may be counted twice or not at all.",
            HEAP_GC_TRIES);
}

int heap__capture_live(heap *h, err *e)
{
    tell(h, "looking at the heap");
    int rc = estimate(h, e);
    if (rc < 0) return rc;
    int64_t expected = h->facts.estimate_ns;
    tell(h, "copying the heap");
    for (int i = 0; i < HEAP_GC_TRIES; i++) {
        rc = stop_and_read(h, i + 1 == HEAP_GC_TRIES, e);
        if (rc <= 0) break;
        struct timespec wait = {.tv_nsec = HEAP_GC_WAIT_NS};
        nanosleep(&wait, NULL); /* a collection ends by itself, and nothing tells us when */
    }
    h->facts.stop_ns = mem_stop_ns(h->t);
    h->facts.estimate_ns = expected;
    if (rc == 0) heap__say_gc(h);
    return rc;
}
