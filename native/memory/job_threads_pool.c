/* SPDX-License-Identifier: MIT */
/* job_threads_pool.c: the managed thread pool: its counts, limits, queues and last adjustment, by the names of its
 * fields. Source: dotnet/runtime src/libraries/System.Private.CoreLib/src/System/Threading/PortableThreadPool*.cs,
 * ThreadPoolWorkQueue.cs, ConcurrentQueueSegment.cs. */
#include <string.h>

#include "memory/job_threads.h"

#define SEGMENTS_MAX   100000
#define LOCALS_MAX     4096
#define ARRAY_COUNT_AT 8
#define ARRAY_DATA_AT  16
#define LOG_ENTRY      20 /* tick, state, threads, samples: i32; mean: f32 */

static dac_addr type_of(snap *s, dac_addr object) { return dac_word(s->d, object) & ~(dac_addr)7; }

static bool number(snap *s, dac_addr object, const char *field, void *to, size_t n)
{
    uint32_t at = object ? clr_field(&s->names, type_of(s, object), field) : 0;
    return at && dac_read(s->d, object + at, to, n);
}

static dac_addr reference(snap *s, dac_addr object, const char *field)
{
    dac_addr v = 0;
    return number(s, object, field, &v, sizeof v) ? v : 0;
}

static void write_number(snap *s, const char *key, dac_addr object, const char *field, size_t n)
{
    int64_t v = 0;
    jsonw_key_lit(s->w, key);
    if (!number(s, object, field, &v, n))
        jsonw_null(s->w);
    else
        jsonw_int(s->w, n == 2 ? (int16_t)v : n == 4 ? (int32_t)v : v);
}

/* Items of a ConcurrentQueue: of each segment those between its head and its tail. -1: not to be read. */
static int64_t queue_length(snap *s, dac_addr queue)
{
    int64_t sum = 0;
    dac_addr segment = reference(s, queue, "_head");
    if (!segment) return -1;
    for (int i = 0; segment && i < SEGMENTS_MAX; i++) {
        int32_t head = 0, tail = 0, slots = 0;
        uint8_t frozen = 0;
        dac_addr array = reference(s, segment, "_slots");
        if (!array || !dac_read(s->d, array + ARRAY_COUNT_AT, &slots, sizeof slots)) return -1;
        if (!number(s, segment, "_headAndTail.Head", &head, 4) || !number(s, segment, "_headAndTail.Tail", &tail, 4))
            return -1;
        (void)number(s, segment, "_frozenForEnqueues", &frozen, 1);
        int64_t n = (int64_t)(uint32_t)(tail - head) - (frozen ? 2 * (int64_t)slots : 0);
        if (n > 0 && n <= slots) sum += n;
        segment = reference(s, segment, "_nextSegment");
    }
    return sum;
}

static void write_queue(snap *s, dac_addr work, const char *name)
{
    dac_addr queue = reference(s, work, name);
    int64_t n = queue ? queue_length(s, queue) : -1;
    if (n < 0) return;
    jsonw_object(s->w);
    jsonw_key_lit(s->w, "name");
    jsonw_cstr(s->w, name);
    jsonw_key_lit(s->w, "length");
    jsonw_int(s->w, n);
    jsonw_key_lit(s->w, "address");
    jsonw_hex(s->w, queue);
    jsonw_end_object(s->w);
}

/* Queues of an array of them, on machines with many processors. */
static void write_assignable(snap *s, dac_addr work)
{
    int32_t n = 0;
    dac_addr array = reference(s, work, "_assignableWorkItemQueues");
    if (!array || !dac_read(s->d, array + ARRAY_COUNT_AT, &n, sizeof n)) return;
    for (int32_t i = 0; i < n && i < LOCALS_MAX; i++) {
        dac_addr queue = dac_word(s->d, array + ARRAY_DATA_AT + 8 * (dac_addr)i);
        int64_t length = queue ? queue_length(s, queue) : -1;
        if (length < 0) continue;
        jsonw_object(s->w);
        jsonw_key_lit(s->w, "name");
        jsonw_cstr(s->w, "_assignableWorkItemQueues");
        jsonw_key_lit(s->w, "index");
        jsonw_int(s->w, i);
        jsonw_key_lit(s->w, "length");
        jsonw_int(s->w, length);
        jsonw_key_lit(s->w, "address");
        jsonw_hex(s->w, queue);
        jsonw_end_object(s->w);
    }
}

static void write_locals(snap *s)
{
    int32_t n = 0;
    dac_addr list = clr_type(&s->names, "System.Threading", "ThreadPoolWorkQueue+WorkStealingQueueList");
    dac_addr array = list ? clr_static(&s->names, list, "_queues") : 0;
    jsonw_key_lit(s->w, "local");
    jsonw_array(s->w);
    if (array) (void)dac_read(s->d, array + ARRAY_COUNT_AT, &n, sizeof n);
    for (int32_t i = 0; i < n && i < LOCALS_MAX; i++) {
        dac_addr queue = dac_word(s->d, array + ARRAY_DATA_AT + 8 * (dac_addr)i);
        int32_t head = 0, tail = 0;
        if (!queue || !number(s, queue, "m_headIndex", &head, 4) || !number(s, queue, "m_tailIndex", &tail, 4))
            continue;
        jsonw_object(s->w);
        jsonw_key_lit(s->w, "index");
        jsonw_int(s->w, i);
        jsonw_key_lit(s->w, "length");
        jsonw_int(s->w, tail > head ? (int64_t)tail - head : 0);
        jsonw_key_lit(s->w, "address");
        jsonw_hex(s->w, queue);
        jsonw_end_object(s->w);
    }
    jsonw_end_array(s->w);
}

static void write_climbing(snap *s)
{
    dac_addr type = clr_type(&s->names, "System.Threading", "PortableThreadPool+HillClimbing");
    dac_addr climber = type ? clr_static(&s->names, type, "ThreadPoolHillClimber") : 0;
    dac_addr log = reference(s, climber, "_log");
    int32_t start = 0, size = 0, n = 0;
    uint8_t entry[LOG_ENTRY];
    if (!log || !number(s, climber, "_logStart", &start, 4) || !number(s, climber, "_logSize", &size, 4) ||
        !dac_read(s->d, log + ARRAY_COUNT_AT, &n, sizeof n) || n <= 0 || size <= 0)
        return;
    uint32_t last = (uint32_t)(start + size - 1) % (uint32_t)n;
    if (!dac_read(s->d, log + ARRAY_DATA_AT + (dac_addr)last * LOG_ENTRY, entry, sizeof entry)) return;
    int32_t v[4];
    float mean;
    memcpy(v, entry, sizeof v);
    memcpy(&mean, entry + 16, sizeof mean);
    static const char *const names[] = {"tick", "transition", "threads", "samples"};
    jsonw_key_lit(s->w, "climbing");
    jsonw_object(s->w);
    for (int i = 0; i < 4; i++) {
        jsonw_key_lit(s->w, names[i]);
        jsonw_int(s->w, v[i]);
    }
    jsonw_key_lit(s->w, "throughput");
    jsonw_num(s->w, mean);
    write_number(s, "intervalMs", climber, "_currentSampleMs", 4);
    jsonw_end_object(s->w);
}

void snap_pool(snap *s)
{
    static const char *const queues[] = {"workItems", "highPriorityWorkItems", "lowPriorityWorkItems",
                                         "timeSensitiveWorkQueue"};
    jsonw *w = s->w;
    dac_addr type = clr_type(&s->names, "System.Threading", "PortableThreadPool");
    dac_addr pool = type ? clr_static(&s->names, type, "ThreadPoolInstance") : 0;
    dac_addr threads = clr_type(&s->names, "System.Threading", "ThreadPool");
    dac_addr work = threads ? clr_static(&s->names, threads, "s_workQueue") : 0;
    uint64_t counts = 0;
    jsonw_key_lit(w, "pool");
    if (!pool || !number(s, pool, "_separated.counts._data", &counts, sizeof counts)) {
        jsonw_null(w);
        return;
    }
    jsonw_object(w);
    jsonw_key_lit(w, "counts");
    jsonw_hex(w, counts);
    write_number(s, "min", pool, "_minThreads", 2);
    write_number(s, "max", pool, "_maxThreads", 2);
    write_number(s, "minIo", pool, "_legacy_minIOCompletionThreads", 2);
    write_number(s, "maxIo", pool, "_legacy_maxIOCompletionThreads", 2);
    write_number(s, "cpu", pool, "_cpuUtilization", 4);
    jsonw_key_lit(w, "queues");
    jsonw_array(w);
    for (size_t i = 0; work && i < sizeof queues / sizeof queues[0]; i++)
        write_queue(s, work, queues[i]);
    if (work) write_assignable(s, work);
    jsonw_end_array(w);
    write_locals(s);
    write_climbing(s);
    jsonw_end_object(w);
}
