/* SPDX-License-Identifier: MIT */
/* export_flame.c: what share/flamegraph.html draws. One JSON object:
 *   title, unit ("samples" or "bytes"), total, before (total of the other profile; absent without one),
 *   left_out (nodes that were too small), modules [text], reasons [text: why a leaf waits],
 *   frames [[module index or -1, method, kind 0 managed 1 dynamic 2 native 3 kernel 4 unresolved, reason index or -1]],
 *   nodes in preorder, as four lists: f frame, d depth, v value, and b value before (with `before`). */
#include <stdlib.h>

#include "base/json.h"
#include "profile/export.h"

typedef struct choice {
    int64_t floor; /* nodes of less are left out */
    uint32_t kept, left_out;
} choice;

static int64_t size_of(const profile *p, const profile_export_cfg *cfg, uint32_t i)
{
    profile_counts now = profile_node_counts(p, i);
    int64_t size = profile_export_all(cfg, &now);
    if (profile_has_before(p)) {
        profile_counts was = profile_node_before(p, i);
        if (profile_export_all(cfg, &was) > size) size = profile_export_all(cfg, &was);
    }
    return size;
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

/* The least size that lets no more than max nodes in. A node is never larger than its parent, so what is kept hangs
 * together. */
static bool choose(const profile *p, const profile_export_cfg *cfg, uint32_t max, choice *out)
{
    uint32_t n = profile_nodes(p);
    *out = (choice){.floor = 1, .kept = n};
    if (n <= max) return true;
    int64_t *sizes = mem_alloc((size_t)n * sizeof *sizes);
    if (!sizes) return false;
    for (uint32_t i = 0; i < n; i++)
        sizes[i] = size_of(p, cfg, i);
    qsort(sizes, n, sizeof *sizes, by_size);
    out->floor = sizes[max] + 1; /* all that are as large as the first too many stay out */
    out->kept = 0;
    while (out->kept < max && sizes[out->kept] >= out->floor)
        out->kept++;
    out->left_out = n - out->kept;
    free(sizes);
    return true;
}

static int shown_kind(profile_frame_kind kind)
{
    switch (kind) {
    case PROFILE_FRAME_ROOT:
    case PROFILE_FRAME_MANAGED: return 0;
    case PROFILE_FRAME_DYNAMIC: return 1;
    case PROFILE_FRAME_NATIVE: return 2;
    case PROFILE_FRAME_KERNEL: return 3;
    default: return 4;
    }
}

static void put_names(jsonw *w, const profile *p, uint32_t n_used, const uint32_t *used)
{
    jsonw_key_lit(w, "modules");
    jsonw_array(w);
    for (uint32_t i = 0, n = profile_modules(p); i < n; i++)
        jsonw_str(w, profile_module_at(p, i)->name);
    jsonw_end_array(w);
    jsonw_key_lit(w, "reasons");
    jsonw_array(w);
    for (int32_t i = 0; profile_wait_reason(p, i); i++)
        jsonw_cstr(w, profile_wait_reason(p, i));
    jsonw_end_array(w);
    jsonw_key_lit(w, "frames");
    jsonw_array(w);
    for (uint32_t i = 0; i < n_used; i++) {
        const profile_frame *f = profile_frame_at(p, used[i]);
        jsonw_array(w);
        jsonw_int(w, f->module_index == UINT32_MAX ? -1 : (int64_t)f->module_index);
        jsonw_str(w, f->method);
        jsonw_int(w, shown_kind(f->kind));
        jsonw_int(w, f->wait);
        jsonw_end_array(w);
    }
    jsonw_end_array(w);
}

/* The nodes that are shown, by number; depth[i] of each. */
typedef struct shown {
    uint32_t *node, *depth;
    uint32_t n;
} shown;

static bool show(const profile *p, const profile_export_cfg *cfg, const choice *c, shown *s)
{
    uint32_t n = profile_nodes(p), depth = 0, room = 64;
    uint32_t *ends = mem_alloc(room * sizeof *ends);
    s->node = mem_alloc(((size_t)c->kept + 1) * sizeof *s->node);
    s->depth = mem_alloc(((size_t)c->kept + 1) * sizeof *s->depth);
    bool ok = ends && s->node && s->depth;
    for (uint32_t i = 0; ok && i < n;) {
        profile_node node = profile_node_at(p, i);
        while (depth > 0 && i >= ends[depth - 1])
            depth--;
        if (i > 0 && size_of(p, cfg, i) < c->floor) {
            i += node.size;
            continue;
        }
        if (s->n > c->kept) break;
        s->node[s->n] = i;
        s->depth[s->n++] = depth;
        if (depth == room) {
            uint32_t *more = mem_realloc(ends, (size_t)room * 2 * sizeof *ends);
            ok = more != NULL;
            if (!ok) break;
            ends = more;
            room *= 2;
        }
        ends[depth++] = i + node.size;
        i++;
    }
    free(ends);
    return ok;
}

/* By node: frame, depth, value and value before; and what of these is its own, where that cannot be told from the
 * values of its children since some are left out. */
static void put_nodes(jsonw *w, const profile *p, const profile_export_cfg *cfg, const shown *s, const uint32_t *number,
                      bool whole)
{
    enum { FRAME, DEPTH, ALL, BEFORE, OWN, OWN_BEFORE, KEYS };
    static const char *const NAMES[KEYS] = {"f", "d", "v", "b", "o", "ob"};
    for (unsigned k = 0; k < KEYS; k++) {
        bool before = k == BEFORE || k == OWN_BEFORE;
        if ((before && !profile_has_before(p)) || (whole && k >= OWN)) continue;
        jsonw_key_lit(w, NAMES[k]);
        jsonw_array(w);
        for (uint32_t i = 0; i < s->n; i++) {
            profile_counts c = before ? profile_node_before(p, s->node[i]) : profile_node_counts(p, s->node[i]);
            if (k == FRAME)
                jsonw_uint(w, number[profile_node_at(p, s->node[i]).frame]);
            else if (k == DEPTH)
                jsonw_uint(w, s->depth[i]);
            else
                jsonw_int(w, k >= OWN ? profile_export_own(cfg, &c) : profile_export_all(cfg, &c));
        }
        jsonw_end_array(w);
    }
}

/* '<' would end the script element that holds the object; elsewhere than in a text there is none. */
static bool put_guarded(buf *out, slice json)
{
    for (size_t from = 0; from < json.n;) {
        const uint8_t *at = memchr(json.p + from, '<', json.n - from);
        size_t n = at ? (size_t)(at - json.p) - from : json.n - from;
        if (!buf_put(out, json.p + from, n) || (at && !buf_put(out, "\\u003c", 6))) return false;
        from += n + (at ? 1 : 0);
    }
    return true;
}

bool profile_export_flame(const profile *p, const profile_export_cfg *cfg, buf *out)
{
    choice c;
    shown s = {0};
    uint32_t n_frames = profile_frames(p), n_used = 0;
    uint32_t *number = mem_calloc(n_frames, sizeof *number), *used = mem_alloc((size_t)n_frames * sizeof *used);
    bool *seen = mem_calloc(n_frames, sizeof *seen);
    bool ok = number && used && seen && choose(p, cfg, cfg->max_nodes ? cfg->max_nodes : PROFILE_FLAME_NODES, &c) &&
              show(p, cfg, &c, &s);
    for (uint32_t i = 0; ok && i < s.n; i++) {
        uint32_t frame = profile_node_at(p, s.node[i]).frame;
        if (seen[frame]) continue;
        seen[frame] = true;
        number[frame] = n_used;
        used[n_used++] = frame;
    }
    buf json = {.max = PROFILE_EXPORT_MAX};
    if (ok) {
        jsonw w;
        jsonw_init(&w, &json);
        jsonw_object(&w);
        jsonw_key_lit(&w, "title");
        jsonw_str(&w, cfg->title);
        jsonw_key_lit(&w, "unit");
        jsonw_cstr(&w, cfg->by_weight ? "bytes" : "samples");
        profile_counts all = profile_node_counts(p, 0);
        jsonw_key_lit(&w, "total");
        jsonw_int(&w, profile_export_all(cfg, &all));
        if (profile_has_before(p)) {
            all = profile_node_before(p, 0);
            jsonw_key_lit(&w, "before");
            jsonw_int(&w, profile_export_all(cfg, &all));
        }
        jsonw_key_lit(&w, "left_out");
        jsonw_uint(&w, c.left_out);
        put_names(&w, p, n_used, used);
        put_nodes(&w, p, cfg, &s, number, c.left_out == 0);
        jsonw_end_object(&w);
        ok = jsonw_done(&w) && !json.failed && put_guarded(out, buf_view(&json));
    }
    buf_fini(&json);
    free(number);
    free(used);
    free(seen);
    free(s.node);
    free(s.depth);
    return ok && !out->failed;
}
