/* SPDX-License-Identifier: MIT */
/* causality.c: the tree with the parts of one logical operation put together across its awaits.
 *
 * A method that goes on after an await stands on a stack of the pool, or of whoever completed what it waited for: its
 * callers are gone. Stacks tell all the same who awaits whom, in two places: where a method runs up to its first await
 * it stands below its caller; and where it ends and its caller goes on at once, the caller stands below it, entered
 * through the end of its state machine. A resumed method whose callers were always one and the same is put below that
 * one; of others nothing is made up. This joins methods, not calls: two operations of one method are one. */
#include <stdlib.h>

#include "profile/profile_internal.h"

/* What a frame is in this. */
typedef enum part {
    OTHER,
    BODY,    /* of an async method */
    BOX,     /* the runtime's box of a state machine: who is called through it goes on after an await */
    CONTEXT, /* stands between the box and the body */
    WAKER,   /* runs who waited for something that has ended: calls the box */
    MAKER,   /* the builder of a state machine: starts it, and ends it */
} part;

#define NOBODY  UINT32_MAX       /* no caller was seen */
#define SEVERAL (UINT32_MAX - 1) /* more than one */

typedef struct walk {
    const profile *p;
    profile *to;
    pf_raw raw;
    uint8_t *part;            /* by frame */
    uint32_t *caller;         /* by frame: the body that awaits it, NOBODY or SEVERAL */
    uint32_t *origin;         /* by frame: the node at which code that is not async called it, NOBODY or SEVERAL */
    uint32_t *chain;          /* by frame: its place in raw, + 1; 0: not looked for */
    uint32_t *node;           /* by node: its place in raw; NOBODY: hangs on a resumed body */
    uint32_t unseen, several; /* frames */
} walk;

static bool has(slice s, const char *text) { return memmem(s.p, s.n, text, strlen(text)) != NULL; }

static bool is_waker(const profile_frame *f)
{
    return has(f->type, "AwaitTaskContinuation") ||
           slice_starts(f->type, SLICE_LIT("System.Threading.ThreadPool+<>c")) ||
           (slice_eq_str(f->type, "System.Threading.Tasks.Task") && slice_eq_str(f->name, "RunContinuations"));
}

static part part_of(const profile_frame *f)
{
    if (f->type.n == 0) return OTHER;
    if (pf_is_async_body(f->type, f->name)) return BODY;
    if (!slice_starts(f->type, SLICE_LIT("System."))) return OTHER;
    if (has(f->type, "StateMachineBox`")) return BOX;
    if (slice_eq_str(f->type, "System.Threading.ExecutionContext")) return CONTEXT;
    if (is_waker(f)) return WAKER;
    bool maker = slice_starts(f->type, SLICE_LIT("System.Runtime.CompilerServices.Async")) ||
                 slice_starts(f->type, SLICE_LIT("System.Runtime.CompilerServices.Pooling"));
    return maker ? MAKER : OTHER;
}

static part at(const walk *w, uint32_t node) { return (part)w->part[w->p->frame[node]]; }

/* Is this the method that the author wrote, which makes the state machine and starts it? */
static bool is_kickoff(const walk *w, uint32_t node, uint32_t body)
{
    const profile_frame *f = &w->p->frames[w->p->frame[node]], *b = &w->p->frames[w->p->frame[body]];
    slice owner, name;
    return pf_async_parts(b->type, b->name, &owner, &name) && slice_eq(f->type, owner) && slice_starts(f->name, name);
}

/* The box that a body was entered through, or, where the compiler has put the box into another method, the frame that
 * stands in its place: only a box calls a body through a context, or is called by a waker. 0: the body was called. */
static uint32_t box_of(const walk *w, uint32_t body)
{
    uint32_t context = 0, up = w->p->parent[body];
    for (; up && at(w, up) == CONTEXT; up = w->p->parent[up])
        context = up;
    return up && (at(w, up) == BOX || at(w, up) == WAKER) ? up : context;
}

/* Whoever a body that was called was called by: its start and its kickoff do not count. */
static uint32_t called_by(const walk *w, uint32_t body)
{
    uint32_t up = w->p->parent[body];
    while (up && at(w, up) == MAKER)
        up = w->p->parent[up];
    return up && is_kickoff(w, up, body) ? w->p->parent[up] : up;
}

/* The nearest body above a node without a box or a waker in between; 0: none. *box: one came first. */
static uint32_t body_above(const walk *w, uint32_t node, bool *box)
{
    *box = false;
    for (uint32_t up = node; up; up = w->p->parent[up]) {
        if (at(w, up) == BODY) return up;
        if (at(w, up) != BOX && at(w, up) != WAKER) continue;
        *box = true;
        return 0;
    }
    return 0;
}

/* The body whose end led to this box: the first above it, if it was its builder that it called. 0: none. */
static uint32_t ended_above(const walk *w, uint32_t box)
{
    uint32_t below = box, up = w->p->parent[box];
    for (; up && at(w, up) != BODY; up = w->p->parent[up])
        below = up;
    return up && at(w, below) == MAKER ? up : 0;
}

static void note(uint32_t *seen, uint32_t what) { *seen = *seen == NOBODY || *seen == what ? what : SEVERAL; }

/* Who awaits whom, by all stacks. */
static void find_callers(walk *w)
{
    const profile *p = w->p;
    for (uint32_t i = 1; i < p->n; i++) {
        if (at(w, i) != BODY) continue;
        uint32_t box = box_of(w, i);
        if (box) { /* goes on because another one ended: it awaited that one */
            uint32_t ended = ended_above(w, box);
            if (ended && p->frame[ended] != p->frame[i]) note(&w->caller[p->frame[ended]], p->frame[i]);
            continue;
        }
        uint32_t by = called_by(w, i);
        bool in_box;
        uint32_t body = body_above(w, by, &in_box);
        if (body && p->frame[body] != p->frame[i])
            note(&w->caller[p->frame[i]], p->frame[body]);
        else if (!body && !in_box)
            note(&w->origin[p->frame[i]], by);
    }
}

/* ---- the new tree ------------------------------------------------------------------------------------------------ */

static bool is_resumed(const walk *w, uint32_t node) { return at(w, node) == BODY && box_of(w, node) != 0; }

/* The place of everything that hangs on no resumed body: as it was, but for what starts a body. */
static bool place_called(walk *w)
{
    const profile *p = w->p;
    w->node[0] = 0;
    for (uint32_t i = 1; i < p->n; i++) {
        uint32_t up = at(w, i) == BODY ? called_by(w, i) : p->parent[i];
        if (is_resumed(w, i) || w->node[up] == NOBODY) {
            w->node[i] = NOBODY;
            continue;
        }
        w->node[i] = pf_raw_child(&w->raw, w->node[up], p->frame[i]);
        if (w->node[i] == PF_NONE) return false;
    }
    return true;
}

#define CALLERS_MAX 64

/* Where the callers of a frame end that has no single async caller: at the code that called it, or at what is not
 * known. */
static uint32_t top_of(walk *w, uint32_t frame)
{
    uint32_t caller = w->caller[frame], origin = w->origin[frame];
    if (caller == NOBODY && origin < SEVERAL && w->node[origin] != NOBODY) return w->node[origin];
    return pf_raw_child(&w->raw, 0, caller == NOBODY && origin == NOBODY ? w->unseen : w->several);
}

/* The place of a body that goes on, below its caller's. PF_NONE: no memory. A circle of callers is no answer. */
static uint32_t place_of(walk *w, uint32_t frame)
{
    uint32_t path[CALLERS_MAX], n = 0, above = PF_NONE;
    for (uint32_t now = frame;;) {
        if (w->chain[now]) {
            above = w->chain[now] - 1;
            break;
        }
        path[n++] = now;
        uint32_t caller = w->caller[now];
        bool circle = n == CALLERS_MAX;
        for (uint32_t i = 0; i < n; i++)
            circle = circle || path[i] == caller;
        if (caller >= SEVERAL || w->origin[now] != NOBODY || circle) {
            above = circle ? pf_raw_child(&w->raw, 0, w->several) : top_of(w, now);
            break;
        }
        now = caller;
    }
    while (n > 0 && above != PF_NONE) {
        above = pf_raw_child(&w->raw, above, path[--n]);
        if (above != PF_NONE) w->chain[path[n]] = above + 1;
    }
    return above;
}

/* The frame on which the place of a body hangs in the end. */
static uint32_t root_of(const walk *w, uint32_t place)
{
    while (place && w->raw.parent[place])
        place = w->raw.parent[place];
    return w->raw.frame[place];
}

static bool place_resumed(walk *w)
{
    const profile *p = w->p;
    for (uint32_t i = 1; i < p->n; i++) {
        if (w->node[i] != NOBODY) continue;
        if (is_resumed(w, i)) {
            w->node[i] = place_of(w, p->frame[i]);
        } else {
            uint32_t up = at(w, i) == BODY ? called_by(w, i) : p->parent[i];
            w->node[i] = pf_raw_child(&w->raw, w->node[up], p->frame[i]);
        }
        if (w->node[i] == PF_NONE) return false;
    }
    return true;
}

static void move_samples(walk *w)
{
    const profile *p = w->p;
    profile_info *info = &w->to->info;
    bool *resumed = mem_calloc(p->n, sizeof *resumed);
    for (uint32_t i = 0; i < p->n; i++) {
        for (int c = 0; c < PF_COLUMNS; c++)
            if (w->raw.own[c] && p->own[c]) w->raw.own[c][w->node[i]] += p->own[c][i];
        if (!resumed) continue;
        resumed[i] = i > 0 && (resumed[p->parent[i]] || is_resumed(w, i));
        if (!resumed[i] || p->own[PF_SAMPLES][i] == 0) continue;
        uint32_t root = root_of(w, w->node[i]);
        uint64_t *count = root == w->unseen ? &info->unseen : root == w->several ? &info->several : &info->joined;
        *count += (uint64_t)p->own[PF_SAMPLES][i];
    }
    free(resumed);
}

/* What only led to what was put elsewhere is gone. */
static bool prune(walk *w)
{
    const pf_raw *r = &w->raw;
    pf_raw kept;
    unsigned columns = 0;
    for (unsigned c = 0; c < PF_COLUMNS; c++)
        if (r->own[c]) columns |= 1u << c;
    bool *holds = mem_calloc(r->n, sizeof *holds);
    uint32_t *to = mem_calloc(r->n, sizeof *to);
    bool ok = holds && to && pf_raw_init(&kept, columns, r->n);
    if (ok) {
        for (uint32_t i = r->n; i-- > 0;) {
            holds[i] = holds[i] || r->own[PF_SAMPLES][i] > 0;
            if (holds[i]) holds[r->parent[i]] = true;
        }
        for (uint32_t i = 0; ok && i < r->n; i++) {
            if (i > 0 && !holds[i]) continue;
            if (i > 0) to[i] = pf_raw_child(&kept, to[r->parent[i]], r->frame[i]);
            ok = to[i] != PF_NONE;
            for (int c = 0; ok && c < PF_COLUMNS; c++)
                if (r->own[c]) kept.own[c][to[i]] += r->own[c][i];
        }
        pf_raw_fini(&w->raw);
        w->raw = kept;
    }
    free(holds);
    free(to);
    return ok;
}

static uint32_t add_root(profile *p, slice name)
{
    p->frames[p->n_frames] =
        (profile_frame){.method = name, .kind = PROFILE_FRAME_ROOT, .module_index = PF_NONE, .wait = -1};
    return p->n_frames++;
}

static bool prepare(walk *w)
{
    const profile *p = w->p;
    profile *to = w->to;
    unsigned columns = 0;
    for (unsigned c = 0; c < PF_COLUMNS; c++)
        if (p->own[c]) columns |= 1u << c;
    w->part = mem_alloc(p->n_frames);
    w->caller = mem_alloc(p->n_frames * sizeof *w->caller);
    w->origin = mem_alloc(p->n_frames * sizeof *w->origin);
    w->chain = mem_calloc(p->n_frames, sizeof *w->chain);
    w->node = mem_alloc(p->n * sizeof *w->node);
    if (!w->part || !w->caller || !w->origin || !w->chain || !w->node || !pf_copy_frames(to, p, 2) ||
        !pf_raw_init(&w->raw, columns, p->n))
        return false;
    for (uint32_t i = 0; i < p->n_frames; i++) {
        w->part[i] = (uint8_t)part_of(&p->frames[i]);
        w->caller[i] = w->origin[i] = NOBODY;
    }
    w->unseen = add_root(to, SLICE_LIT("<async: caller not seen>"));
    w->several = add_root(to, SLICE_LIT("<async: several callers>"));
    to->info = p->info;
    to->info.memory = 0;
    to->info.causality = true;
    return true;
}

profile *profile_causality(const profile *p, err *e)
{
    walk w = {.p = p, .to = pf_profile_new()};
    bool ok = w.to && prepare(&w);
    if (ok) find_callers(&w);
    ok = ok && place_called(&w) && place_resumed(&w);
    if (ok) move_samples(&w);
    ok = ok && prune(&w) && pf_layout(w.to, &w.raw) && pf_count_frames(w.to);
    pf_raw_fini(&w.raw);
    free(w.part);
    free(w.caller);
    free(w.origin);
    free(w.chain);
    free(w.node);
    if (ok) {
        w.to->info.memory += sizeof *w.to + w.to->a.used + w.to->n_frames * sizeof *w.to->frames;
        return w.to;
    }
    profile_unref(w.to);
    (void)err_set(e, ERR_NO_MEMORY, "no memory to join the parts of operations");
    return NULL;
}
