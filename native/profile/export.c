/* SPDX-License-Identifier: MIT */
/* export.c: see export.h; and the formats that are plain text. */
#include "profile/export.h"

#include <stdlib.h>

#include "base/json.h"
#include "base/utf.h"

typedef bool (*export_fn)(const profile *p, const profile_export_cfg *cfg, buf *out);

int profile_export(const profile *p, const profile_export_cfg *cfg, buf *out, err *e)
{
    static const export_fn WRITERS[PROFILE_FORMATS] = {
        [PROFILE_SPEEDSCOPE] = profile_export_speedscope,
        [PROFILE_FOLDED] = profile_export_folded,
        [PROFILE_PPROF] = profile_export_pprof,
        [PROFILE_FLAME] = profile_export_flame,
    };
    if ((unsigned)cfg->format >= PROFILE_FORMATS) return err_set(e, ERR_INVALID_ARGUMENT, "there is no such format");
    if (cfg->by_weight && !profile_info_of(p)->weighted)
        return err_set(e, ERR_INVALID_ARGUMENT, "this profile counts samples only, it has no bytes");
    if (WRITERS[cfg->format](p, cfg, out)) return 0;
    return err_set(e, ERR_LIMIT,
                   "the export is longer than %zu MiB, or memory is out: export less, or a shorter window",
                   (out->max ? out->max : BUF_MAX_DEFAULT) >> 20);
}

bool profile_export_name(const profile *p, uint32_t frame, buf *out)
{
    const profile_frame *f = profile_frame_at(p, frame);
    if (f->kind == PROFILE_FRAME_ROOT) return buf_put(out, "<root>", 6);
    return buf_put(out, f->module.p, f->module.n) && buf_u8(out, '!') && buf_put(out, f->method.p, f->method.n);
}

/* ---- speedscope -------------------------------------------------------------------------------------------------- */
/* Source: speedscope's file format (file-format-schema.json). An evented profile opens and closes frames in order, so
 * the tree is written once, with its brothers side by side: the merged tree, heaviest first, on an axis of samples. */

static void event(jsonw *w, bool open, uint32_t frame, int64_t at)
{
    jsonw_object(w);
    jsonw_key_lit(w, "type");
    jsonw_cstr(w, open ? "O" : "C");
    jsonw_key_lit(w, "frame");
    jsonw_uint(w, frame);
    jsonw_key_lit(w, "at");
    jsonw_int(w, at);
    jsonw_end_object(w);
}

static void frames(jsonw *w, const profile *p)
{
    buf name = {0};
    jsonw_array(w);
    for (uint32_t i = 0, n = profile_frames(p); i < n; i++) {
        buf_reset(&name);
        if (!profile_export_name(p, i, &name)) w->failed = true;
        jsonw_object(w);
        jsonw_key_lit(w, "name");
        jsonw_str(w, buf_view(&name));
        jsonw_end_object(w);
    }
    jsonw_end_array(w);
    buf_fini(&name);
}

typedef struct open_node {
    uint32_t end, frame;
    int64_t start, length, used; /* used: by the children so far */
} open_node;

/* Every node under the root as a pair of events. A node's own samples come behind those of its children. */
static bool events(jsonw *w, const profile *p, const profile_export_cfg *cfg)
{
    uint32_t n = profile_nodes(p), depth = 0, room = 64;
    open_node *stack = mem_alloc(room * sizeof *stack);
    if (!stack) return false;
    bool ok = true;
    stack[0] = (open_node){.end = n};
    for (uint32_t i = 1; ok && i < n; i++) {
        while (i >= stack[depth].end) {
            event(w, false, stack[depth].frame, stack[depth].start + stack[depth].length);
            depth--;
        }
        profile_node node = profile_node_at(p, i);
        profile_counts c = profile_node_counts(p, i);
        int64_t all = profile_export_all(cfg, &c);
        open_node *up = &stack[depth];
        open_node mine = {.end = i + node.size, .frame = node.frame, .start = up->start + up->used, .length = all};
        up->used += all;
        if (++depth == room) {
            open_node *more = mem_realloc(stack, (size_t)room * 2 * sizeof *stack);
            ok = more != NULL;
            if (!ok) break;
            stack = more;
            room *= 2;
        }
        stack[depth] = mine;
        event(w, true, mine.frame, mine.start);
        ok = !w->out->failed;
    }
    for (; ok && depth > 0; depth--)
        event(w, false, stack[depth].frame, stack[depth].start + stack[depth].length);
    free(stack);
    return ok;
}

bool profile_export_speedscope(const profile *p, const profile_export_cfg *cfg, buf *out)
{
    jsonw w;
    jsonw_init(&w, out);
    profile_counts all = profile_node_counts(p, 0);
    jsonw_object(&w);
    jsonw_key_lit(&w, "$schema");
    jsonw_cstr(&w, "https://www.speedscope.app/file-format-schema.json");
    jsonw_key_lit(&w, "exporter");
    jsonw_cstr(&w, "lunette");
    jsonw_key_lit(&w, "name");
    jsonw_str(&w, cfg->title);
    jsonw_key_lit(&w, "activeProfileIndex");
    jsonw_int(&w, 0);
    jsonw_key_lit(&w, "shared");
    jsonw_object(&w);
    jsonw_key_lit(&w, "frames");
    frames(&w, p);
    jsonw_end_object(&w);
    jsonw_key_lit(&w, "profiles");
    jsonw_array(&w);
    jsonw_object(&w);
    jsonw_key_lit(&w, "type");
    jsonw_cstr(&w, "evented");
    jsonw_key_lit(&w, "name");
    jsonw_str(&w, cfg->title);
    jsonw_key_lit(&w, "unit");
    jsonw_cstr(&w, cfg->by_weight ? "bytes" : "none");
    jsonw_key_lit(&w, "startValue");
    jsonw_int(&w, 0);
    jsonw_key_lit(&w, "endValue");
    jsonw_int(&w, profile_export_all(cfg, &all));
    jsonw_key_lit(&w, "events");
    jsonw_array(&w);
    bool ok = events(&w, p, cfg);
    jsonw_end_array(&w);
    jsonw_end_object(&w);
    jsonw_end_array(&w);
    jsonw_end_object(&w);
    return ok && jsonw_done(&w) && !out->failed;
}

/* ---- folded ------------------------------------------------------------------------------------------------------ */

/* A name in a line of its own: ';' parts frames, a line ends at its end, and control characters (C0, DEL, C1) would
 * speak to whoever shows it. */
static bool put_plain(buf *out, slice name)
{
    size_t to = out->n;
    if (!utf8_sanitize(name, out)) return false;
    for (size_t i = to; i < out->n; i++) {
        uint8_t c = out->p[i];
        bool c1 = c == 0xC2 && i + 1 < out->n && out->p[i + 1] < 0xA0;
        if (c < ' ' || c == 0x7F || c1) c = ' ';
        if (c1) i++;
        out->p[to++] = c == ';' ? ',' : c;
    }
    out->n = to;
    return true;
}

bool profile_export_folded(const profile *p, const profile_export_cfg *cfg, buf *out)
{
    uint32_t n = profile_nodes(p), depth = 0;
    buf path = {.max = PROFILE_EXPORT_MAX}, name = {0};
    uint32_t *ends = mem_alloc(((size_t)PROFILE_DEPTH_MAX + 2) * sizeof *ends);     /* of the open nodes */
    size_t *lengths = mem_alloc(((size_t)PROFILE_DEPTH_MAX + 2) * sizeof *lengths); /* of the path before them */
    bool ok = ends && lengths;
    for (uint32_t i = 0; ok && i < n; i++) {
        while (depth > 0 && i >= ends[depth - 1])
            path.n = lengths[--depth];
        profile_node node = profile_node_at(p, i);
        profile_counts c = profile_node_counts(p, i);
        int64_t own = profile_export_own(cfg, &c);
        if (i > 0 && depth <= PROFILE_DEPTH_MAX) {
            ends[depth] = i + node.size;
            lengths[depth++] = path.n;
            buf_reset(&name);
            ok = profile_export_name(p, node.frame, &name) && (path.n == 0 || buf_u8(&path, ';')) &&
                 put_plain(&path, buf_view(&name));
        }
        if (ok && own > 0) {
            slice line = path.n ? buf_view(&path) : SLICE_LIT("<root>");
            ok = buf_put(out, line.p, line.n) && buf_printf(out, " %lld\n", (long long)own);
        }
    }
    free(ends);
    free(lengths);
    buf_fini(&path);
    buf_fini(&name);
    return ok && !out->failed;
}
