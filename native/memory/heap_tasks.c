/* SPDX-License-Identifier: MIT */
/* heap_tasks.c: timers with what they call, tasks, and async methods that wait. By the names of fields in
 * System.Private.CoreLib of .NET 5 to 10; a field that is not there is null. */
#include "memory/heap_details_own.h"

#define STATE_UNKNOWN INT32_MIN
#define DONE_FLAGS    0x1600000u /* a task that ran to its end, failed or was cancelled */
#define AWAITERS_MAX  16u

static uint64_t mt_of(heap *h, uint64_t object) { return object ? heap_word(h, object) & ~UINT64_C(7) : 0; }

/* A reference in a field; 0: null, or no such field. */
static uint64_t reference(heap *h, uint64_t object, const char *name)
{
    heap_field f;
    uint64_t mt = mt_of(h, object);
    return mt && heap_field_named(h, mt, name, &f) ? heap_word(h, object + f.offset) : 0;
}

static bool number(heap *h, uint64_t object, const char *name, int32_t *out)
{
    heap_field f;
    uint64_t mt = mt_of(h, object);
    return mt && heap_field_named(h, mt, name, &f) && heap_read(h, object + f.offset, out, 4);
}

/* ---- timers ------------------------------------------------------------------------------------------------------ */

typedef struct timer_group {
    heap_call call;
    uint64_t example;
} timer_group;

static int by_callback(const void *a, const void *b)
{
    const timer_group *x = a, *y = b;
    uint64_t m = x->call.method ? x->call.method : x->call.code, k = y->call.method ? y->call.method : y->call.code;
    if (x->call.target_mt != y->call.target_mt) return x->call.target_mt < y->call.target_mt ? -1 : 1;
    return m < k ? -1 : m > k;
}

static int by_timers(const void *a, const void *b)
{
    const timer_group *x = a, *y = b;
    return x->call.count < y->call.count ? 1 : x->call.count > y->call.count ? -1 : by_callback(a, b);
}

/* Timers by what they call. The caller frees. */
static timer_group *group_timers(heap_details *d, size_t *n)
{
    const heap_list *l = &d->of_kind[HEAP_TIMER_QUEUE_TIMER];
    timer_group *v = mem_calloc(l->n + 1, sizeof *v);
    *n = 0;
    for (size_t i = 0; v && i < l->n; i++) {
        timer_group *g = &v[i];
        uint64_t callback = reference(d->h, l->v[i], "_timerCallback");
        if (callback && heap__call_of(d, callback, &g->call)) g->call.method = heap__method_of(d->h, g->call.code);
        g->call.count = 1;
        g->example = l->v[i];
    }
    if (v && l->n) qsort(v, l->n, sizeof *v, by_callback);
    for (size_t i = 0; v && i < l->n; i++) {
        if (*n && by_callback(&v[*n - 1], &v[i]) == 0)
            v[*n - 1].call.count++;
        else
            v[(*n)++] = v[i];
    }
    if (v && *n) qsort(v, *n, sizeof *v, by_timers);
    return v;
}

typedef struct kind_type {
    const heap_type *t;
    heap_sum sum;
} kind_type;

static int by_objects(const void *a, const void *b)
{
    const kind_type *x = a, *y = b;
    if (x->sum.count != y->sum.count) return x->sum.count < y->sum.count ? 1 : -1;
    return x->t->mt < y->t->mt ? -1 : x->t->mt > y->t->mt;
}

static uint64_t count_of(const heap_details *d, heap_kind kind)
{
    uint64_t n = 0;
    for (size_t i = 0; i < heap_types_count(d->h->types); i++) {
        const heap_type *t = heap_type_at(d->h->types, i);
        if (t->kind == kind) n += heap_type_sum(t).count;
    }
    return n;
}

static void write_task_types(heap_details *d, jsonw *w)
{
    size_t n = heap_types_count(d->h->types), k = 0;
    uint64_t bytes = 0;
    kind_type *v = mem_calloc(n + 1, sizeof *v);
    for (size_t i = 0; v && i < n; i++) {
        const heap_type *t = heap_type_at(d->h->types, i);
        heap_sum s = heap_type_sum(t);
        if (!(t->flags & HEAP_TYPE_FREE)) bytes += s.bytes; /* as percentages of all views: of what objects take */
        if (s.count && (t->kind == HEAP_TASK || t->kind == HEAP_ASYNC_BOX || t->kind == HEAP_COMPLETION_SOURCE))
            v[k++] = (kind_type){t, s};
    }
    if (v && k) qsort(v, k, sizeof *v, by_objects);
    jsonw_array(w);
    for (size_t i = 0; i < k && i < HEAP_ROWS_MAX; i++) {
        const heap_module *m = heap__module_of_type(d->h, v[i].t->mt);
        jsonw_object(w);
        jsonw_key_lit(w, "typeFullName");
        heap__write_type_name(d->h, v[i].t->mt, w);
        jsonw_key_lit(w, "moduleName");
        heap__write_slice_or_null(m ? m->name : (slice){0}, w);
        jsonw_key_lit(w, "instanceCount");
        jsonw_uint(w, v[i].sum.count);
        jsonw_key_lit(w, "totalBytes");
        jsonw_uint(w, v[i].sum.bytes);
        jsonw_key_lit(w, "totalBytesPercent");
        jsonw_num(w, heap__percent(v[i].sum.bytes, bytes));
        jsonw_end_object(w);
    }
    jsonw_end_array(w);
    free(v);
}

void heap__write_timers(heap_details *d, jsonw *w)
{
    size_t n = 0;
    timer_group *v = group_timers(d, &n);
    jsonw_object(w);
    jsonw_key_lit(w, "totalTimers");
    jsonw_uint(w, count_of(d, HEAP_TIMER_QUEUE_TIMER));
    jsonw_key_lit(w, "totalTasks");
    jsonw_uint(w, count_of(d, HEAP_TASK) + count_of(d, HEAP_ASYNC_BOX));
    jsonw_key_lit(w, "totalTaskCompletionSources");
    jsonw_uint(w, count_of(d, HEAP_COMPLETION_SOURCE));
    jsonw_key_lit(w, "timersByCallback");
    jsonw_array(w);
    for (size_t i = 0; i < n && i < HEAP_ROWS_MAX; i++) {
        jsonw_object(w);
        jsonw_key_lit(w, "targetTypeFullName");
        heap__write_type_name(d->h, v[i].call.target_mt, w);
        heap__write_method(d->h, v[i].call.method, v[i].call.code, w);
        jsonw_key_lit(w, "count");
        jsonw_uint(w, v[i].call.count);
        jsonw_key_lit(w, "exampleAddress");
        jsonw_hex(w, v[i].example);
        jsonw_end_object(w);
    }
    jsonw_end_array(w);
    jsonw_key_lit(w, "topTaskTypes");
    write_task_types(d, w);
    jsonw_key_lit(w, "notes");
    jsonw_array(w);
    jsonw_cstr(
        w, "Timers: each System.Threading.Timer has one TimerQueueTimer, which is what is counted; objects that wait "
           "for a collection count too.");
    jsonw_end_array(w);
    jsonw_end_object(w);
    free(v);
}

/* ---- async methods ----------------------------------------------------------------------------------------------- */

typedef struct machine {
    uint64_t box, mt; /* of the state machine */
    uint64_t at;      /* of its fields: the object's (less 8 when it is a value), so that offsets fit */
    uint64_t address; /* that is shown */
    int32_t state;
    uint64_t awaiter_mt;
} machine;

typedef struct awaiters {
    heap *h;
    uint64_t at;
    uint64_t mt[AWAITERS_MAX];
    bool live[AWAITERS_MAX]; /* some word of it is not 0 */
    size_t n;
} awaiters;

static bool collect_awaiter(void *arg, const heap_field *f)
{
    awaiters *a = arg;
    static const char prefix[] = "<>u__";
    if (f->is_static || f->name.n < sizeof prefix || memcmp(f->name.p, prefix, sizeof prefix - 1) != 0) return true;
    a->mt[a->n] = f->mt;
    a->live[a->n] = heap_word(a->h, a->at + f->offset) != 0;
    a->n++;
    return a->n < AWAITERS_MAX;
}

/* The machine of a box: a value inside it, or (debug builds) an object. */
static bool machine_of(heap *h, uint64_t box, machine *out)
{
    heap_field f, state;
    uint64_t mt = mt_of(h, box);
    if (!mt || !heap_field_named(h, mt, "StateMachine", &f)) return false;
    *out = (machine){.box = box, .state = STATE_UNKNOWN};
    if (f.element == HEAP_EL_VALUE) {
        out->mt = f.mt;
        out->address = box + f.offset;
        out->at = box + f.offset - 8; /* a value has no method table before its fields */
    } else {
        out->at = out->address = heap_word(h, box + f.offset);
        out->mt = mt_of(h, out->at);
    }
    if (!out->mt || !heap_field_named(h, out->mt, "<>1__state", &state)) return true;
    if (!heap_read(h, out->at + state.offset, &out->state, 4)) out->state = STATE_UNKNOWN;
    awaiters a = {.h = h, .at = out->at};
    heap_each_field(h, out->mt, collect_awaiter, &a);
    if (a.n && (out->state == 0 || a.n == 1)) out->awaiter_mt = a.mt[0];
    for (size_t i = 0, live = 0; i < a.n && a.n > 1 && out->state > 0; i++)
        if (a.live[i] && ++live == 1) out->awaiter_mt = a.mt[i];
    return true;
}

static heap_kind kind_of_object(heap *h, uint64_t object)
{
    uint32_t t = object ? heap_type_of_object(h, object) : GRAPH_NONE;
    return t == GRAPH_NONE ? HEAP_PLAIN : (heap_kind)heap_type_at(h->types, t)->kind;
}

/* What goes on when a task is done: another async method's box where there is one, through the usual wrappers. */
static uint64_t next_box(heap_details *d, uint64_t task, uint64_t *continuation)
{
    heap *h = d->h;
    uint64_t at = reference(h, task, "m_continuationObject");
    *continuation = at;
    for (int i = 0; at && i < 4; i++) {
        heap_kind kind = kind_of_object(h, at);
        if (kind == HEAP_ASYNC_BOX) return at;
        if (kind == HEAP_TASK) return 0;
        if (kind == HEAP_DELEGATE) {
            at = reference(h, at, "_target");
            continue;
        }
        uint64_t inner = reference(h, at, "m_task");
        if (!inner) inner = reference(h, at, "m_action");
        if (!inner) inner = reference(h, at, "_continuation");
        if (!inner) { /* a list of them: the first one */
            uint64_t items = reference(h, at, "_items");
            uint32_t n = 0;
            if (items && heap_read(h, items + 8, &n, 4) && n) inner = heap_word(h, items + 16);
        }
        at = inner;
    }
    return 0;
}

static void write_frame(heap_details *d, const machine *m, uint64_t continuation, jsonw *w)
{
    int32_t id = 0;
    jsonw_key_lit(w, "stateMachineTypeFullName");
    heap__write_type_name(d->h, m->mt, w);
    jsonw_key_lit(w, "state");
    jsonw_int(w, m->state);
    jsonw_key_lit(w, "awaiterTypeFullName");
    heap__write_type_name(d->h, m->awaiter_mt, w);
    jsonw_key_lit(w, "stateMachineAddress");
    jsonw_hex(w, m->address);
    jsonw_key_lit(w, "taskAddress");
    jsonw_hex(w, m->box);
    jsonw_key_lit(w, "taskId");
    if (number(d->h, m->box, "m_taskId", &id) && id)
        jsonw_int(w, id);
    else
        jsonw_null(w);
    jsonw_key_lit(w, "continuationObjectTypeFullName");
    heap__write_type_name(d->h, mt_of(d->h, continuation), w);
}

static void write_operation(heap_details *d, const machine *m, uint64_t order, jsonw *w)
{
    uint64_t continuation = 0, next = next_box(d, m->box, &continuation);
    jsonw_object(w);
    write_frame(d, m, continuation, w);
    jsonw_key_lit(w, "directSizeBytes");
    jsonw_uint(w, heap_size_of_object(d->h, m->box));
    jsonw_key_lit(w, "taskTypeFullName");
    heap__write_type_name(d->h, mt_of(d->h, m->box), w);
    jsonw_key_lit(w, "stack");
    jsonw_array(w);
    for (unsigned i = 0; next && i < HEAP_CHAIN_MAX; i++) {
        machine outer;
        uint64_t at = next;
        if (!machine_of(d->h, at, &outer)) break;
        next = next_box(d, at, &continuation);
        jsonw_object(w);
        write_frame(d, &outer, continuation, w);
        jsonw_end_object(w);
    }
    jsonw_end_array(w);
    jsonw_key_lit(w, "observedOrder");
    jsonw_uint(w, order);
    jsonw_end_object(w);
}

static bool is_done(heap *h, uint64_t box)
{
    int32_t flags = 0;
    return number(h, box, "m_stateFlags", &flags) && ((uint32_t)flags & DONE_FLAGS) != 0;
}

void heap__write_async(heap_details *d, jsonw *w)
{
    const heap_list *l = &d->of_kind[HEAP_ASYNC_BOX];
    size_t rows = 0, more = 0;
    jsonw_array(w);
    for (size_t i = 0; i < l->n; i++) {
        machine m;
        if (is_done(d->h, l->v[i]) || !machine_of(d->h, l->v[i], &m)) continue;
        if (rows >= HEAP_ROWS_MAX) {
            more++;
            continue;
        }
        write_operation(d, &m, rows++, w);
    }
    jsonw_end_array(w);
    d->total = (heap_total){.rows = rows + more, .objects = rows + more};
    if (more) heap_add_note(d->h, "AsyncOperations: %zu more of them are left out.", more);
}
