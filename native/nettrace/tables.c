/* SPDX-License-Identifier: MIT */
/* tables.c: stacks and label lists: numbered entries that live until the next sequence point. */
#include "nettrace/nt_internal.h"

/* Room for need rows: where they are now, or NULL without memory (they stay where they were). */
static void *grow(nt_reader *r, void *rows, size_t *cap, size_t need, size_t each)
{
    if (rows && need <= *cap) return rows;
    size_t to = *cap * 2 > need ? *cap * 2 : need < 64 ? 64 : need;
    void *p = mem_realloc(rows, to * each);
    if (!p) return NULL;
    nt__account(r, (ptrdiff_t)((to - *cap) * each));
    *cap = to;
    return p;
}

void nt__table_clear(nt_reader *r, nt__table *t)
{
    while (t->chunks) {
        nt__chunk *c = t->chunks;
        t->chunks = c->next;
        nt__account(r, -(ptrdiff_t)(sizeof *c + c->n));
        free(c);
    }
    nt__account(r, -(ptrdiff_t)(t->cap_segments * sizeof *t->segments + t->cap_index * sizeof *t->index));
    free(t->segments);
    free(t->index);
    *t = (nt__table){0};
    r->table_epoch++;
}

/* Room for n bytes that live as long as the table, filled from p unless it is NULL. */
static uint8_t *keep(nt_reader *r, nt__table *t, const uint8_t *p, size_t n)
{
    nt__chunk *c = mem_alloc(sizeof *c + n);
    if (!c) return NULL;
    nt__account(r, (ptrdiff_t)(sizeof *c + n));
    c->next = t->chunks;
    c->n = n;
    if (p) memcpy(c->bytes, p, n);
    t->chunks = c;
    t->bytes += n;
    return c->bytes;
}

/* Makes room for n entries that start at first. Numbers that go back without a sequence point replace what was there,
 * once the events that used it are out. */
static int begin(nt_reader *r, nt__table *t, uint32_t first, uint32_t n)
{
    nt__segment *last = t->n_segments ? &t->segments[t->n_segments - 1] : NULL;
    if (last && first < (uint64_t)last->first + last->n) {
        int rc = nt__merge(r, INT64_MAX);
        if (rc < 0) return rc;
        nt__table_clear(r, t);
        last = NULL;
    }
    const uint8_t **index = grow(r, t->index, &t->cap_index, t->n_index + n, sizeof *index);
    if (!index) return nt__no_memory(r);
    t->index = index;
    if (last && first == last->first + last->n) {
        last->n += n;
        return 0;
    }
    nt__segment *segments = grow(r, t->segments, &t->cap_segments, t->n_segments + 1, sizeof *segments);
    if (!segments) return nt__no_memory(r);
    t->segments = segments;
    segments[t->n_segments++] = (nt__segment){first, n, (uint32_t)t->n_index};
    return 0;
}

const uint8_t *nt__table_find(const nt__table *t, uint32_t id)
{
    size_t lo = 0, hi = t->n_segments;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        const nt__segment *s = &t->segments[mid];
        if (id < s->first)
            hi = mid;
        else if (id - s->first >= s->n)
            lo = mid + 1;
        else
            return s->at + (id - s->first) < t->n_index ? t->index[s->at + (id - s->first)] : NULL;
    }
    return NULL;
}

/* An entry's bytes, which a length precedes. */
static slice entry(const nt__table *t, uint32_t id)
{
    const uint8_t *p = nt__table_find(t, id);
    if (!p) return (slice){0};
    uint32_t n;
    memcpy(&n, p, sizeof n);
    return slice_of(p + sizeof n, n);
}

/* ---- stacks ---- */

static int check_stacks(nt_reader *r, cursor c, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        int64_t at = cursor_offset(&c);
        uint32_t bytes = cursor_u32(&c);
        cursor_skip(&c, bytes);
        if (!cursor_ok(&c))
            return nt__fail(r, ERR_MALFORMED, at, "stack %u of %u passes the end of the block", i + 1, count);
        if (bytes > r->lim.stack_bytes)
            return nt__fail(r, ERR_LIMIT, at, "a stack of %u bytes, over the limit of %u", bytes, r->lim.stack_bytes);
        if (bytes % r->trace.pointer_size)
            return nt__fail(r, ERR_MALFORMED, at, "a stack of %u bytes is no list of pointers", bytes);
    }
    if (cursor_left(&c)) return nt__fail(r, ERR_MALFORMED, cursor_offset(&c), "bytes are left after the last stack");
    return 0;
}

int nt__stack_block(nt_reader *r, const uint8_t *p, size_t n, int64_t at)
{
    cursor c = cursor_of(slice_of(p, n), at);
    uint32_t first = cursor_u32(&c), count = cursor_u32(&c);
    if (!cursor_ok(&c) || count > cursor_left(&c) / 4)
        return nt__fail(r, ERR_MALFORMED, at, "%u stacks do not fit the block", count);
    int rc = check_stacks(r, c, count);
    if (rc < 0 || r->opt.no_stacks || count == 0) return rc;
    nt__table *t = &r->stacks;
    if (t->n_index + count > r->lim.stacks || t->bytes + n + 8 * (t->n_index + count) > r->lim.stacks_bytes) {
        r->stats.stacks_dropped += count;
        return 0;
    }
    if ((rc = begin(r, t, first, count)) < 0) return rc;
    const uint8_t *bytes = keep(r, t, p, n);
    if (!bytes) return nt__no_memory(r);
    c = cursor_of(slice_of(bytes, n), at);
    cursor_skip(&c, 8);
    for (uint32_t i = 0; i < count; i++) {
        t->index[t->n_index++] = c.p;
        cursor_skip(&c, cursor_u32(&c));
    }
    return 0;
}

slice nt_stack(const nt_reader *r, const nt_event *ev) { return entry(&r->stacks, ev->stack); }

uint32_t nt_stack_epoch(const nt_reader *r) { return r->table_epoch; }

/* ---- label lists (V6) ---- */

#define LAST_LABEL 0x80

static bool read_named(cursor *c, uint8_t kind, nt_label *out)
{
    out->key = cursor_bytes(c, cursor_varu32(c));
    out->is_number = kind == 6;
    if (kind == 5) {
        out->text = cursor_bytes(c, cursor_varu32(c));
    } else {
        uint64_t z = cursor_varu64(c);
        out->number = (int64_t)(z >> 1) ^ -(int64_t)(z & 1);
    }
    return cursor_ok(c);
}

/* Reads one label into *l. Returns its kind with the last-label bit, or -1: unknown kind, or cut. */
static int read_label(cursor *c, nt_labels *l)
{
    uint8_t head = cursor_u8(c), kind = head & 0x7F;
    nt_label named;
    switch (kind) {
    case 1: l->activity = cursor_bytes(c, 16).p; break;
    case 2: l->related = cursor_bytes(c, 16).p; break;
    case 3: l->trace_id = cursor_bytes(c, 16).p; break;
    case 4: l->span_id = cursor_bytes(c, 8).p; break;
    case 5:
    case 6: read_named(c, kind, &named); break;
    case 7: l->opcode = cursor_u8(c); break;
    case 8:
        l->keywords = cursor_u64(c);
        l->has_keywords = true;
        break;
    case 9: l->level = cursor_u8(c); break;
    case 10: l->version = cursor_u8(c); break;
    default: return -1;
    }
    return cursor_ok(c) ? head : -1;
}

static bool read_list(cursor *c, nt_labels *l)
{
    *l = (nt_labels){.opcode = -1, .level = -1, .version = -1};
    int head;
    do
        head = read_label(c, l);
    while (head >= 0 && !(head & LAST_LABEL));
    return head >= 0;
}

int nt__label_block(nt_reader *r, const uint8_t *p, size_t n, int64_t at)
{
    cursor c = cursor_of(slice_of(p, n), at);
    uint32_t first = cursor_u32(&c), count = cursor_u32(&c);
    if (!cursor_ok(&c) || first == 0 || count > cursor_left(&c) / 2)
        return nt__fail(r, ERR_MALFORMED, at, "%u label lists from number %u on do not fit the block", count, first);
    if (count == 0) return 0;
    nt__table *t = &r->labels;
    if (t->n_index + count > r->lim.label_lists || t->bytes + n > r->lim.label_bytes)
        return nt__fail(r, ERR_LIMIT, at, "over %u label lists or %zu bytes of them between sequence points",
                        r->lim.label_lists, r->lim.label_bytes);
    int rc = begin(r, t, first, count);
    if (rc < 0) return rc;
    uint8_t *to = keep(r, t, NULL, n + (size_t)4 * count);
    if (!to) return nt__no_memory(r);
    bool readable = true;
    for (uint32_t i = 0; i < count;
         i++) { /* after a label of an unknown sort the rest of the block cannot be read: no such lists */
        const uint8_t *start = c.p;
        nt_labels l;
        readable = readable && read_list(&c, &l);
        t->index[t->n_index++] = readable ? to : NULL;
        if (!readable) continue;
        uint32_t bytes = (uint32_t)(c.p - start);
        memcpy(to, &bytes, sizeof bytes);
        memcpy(to + sizeof bytes, start, bytes);
        to += sizeof bytes + bytes;
    }
    r->stats.skipped_blocks += !readable;
    return 0;
}

void nt__label_ids(const nt_reader *r, uint32_t list, const uint8_t **activity, const uint8_t **related)
{
    nt_labels l;
    cursor c = cursor_of(entry(&r->labels, list), 0);
    if (!read_list(&c, &l)) return;
    *activity = l.activity;
    *related = l.related;
}

bool nt_labels_of(const nt_reader *r, const nt_event *ev, nt_labels *out)
{
    slice list = ev->labels ? entry(&r->labels, ev->labels) : (slice){0};
    cursor c = cursor_of(list, 0);
    if (!read_list(&c, out)) return false;
    out->pairs = list;
    return true;
}

bool nt_label_next(const nt_labels *l, size_t *pos, nt_label *out)
{
    nt_labels other;
    while (*pos < l->pairs.n) {
        cursor c = cursor_of(slice_of(l->pairs.p + *pos, l->pairs.n - *pos), 0);
        uint8_t kind = *c.p & 0x7F;
        *out = (nt_label){0};
        if (kind == 5 || kind == 6) {
            cursor_skip(&c, 1);
            bool ok = read_named(&c, kind, out);
            *pos += (size_t)cursor_offset(&c);
            return ok;
        }
        if (read_label(&c, &other) < 0) return false;
        *pos += (size_t)cursor_offset(&c);
    }
    return false;
}
