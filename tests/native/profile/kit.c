/* SPDX-License-Identifier: MIT */
/* kit.c: see kit.h. */
#include "kit.h"

#define STACK_MAX 16384

profile_builder *kit_builder(const profile_cfg *cfg)
{
    err e = {0};
    profile_builder *b = profile_builder_new(cfg, &e);
    assert_non_null(b);
    return b;
}

static uint64_t frame(profile_builder *b, slice text)
{
    slice kernel = SLICE_LIT("(kernel)"), module = SLICE_LIT("app");
    bool in_kernel = slice_starts(text, kernel);
    if (in_kernel) text = slice_of(text.p + kernel.n, text.n - kernel.n);
    const uint8_t *mark = memchr(text.p, '!', text.n);
    if (mark) {
        module = slice_of(text.p, (size_t)(mark - text.p));
        text = slice_of(mark + 1, text.n - module.n - 1);
    }
    return profile_symbol(b, module, text, in_kernel);
}

bool kit_add(profile_builder *b, const char *stack, uint64_t n, uint64_t thread, profile_state state, uint64_t weight)
{
    static uint64_t ips[STACK_MAX];
    uint32_t count = 0;
    const char *end = stack + strlen(stack);
    while (end > stack) { /* leaf first */
        const char *from = end;
        while (from > stack && from[-1] != '>')
            from--;
        assert_true(count < STACK_MAX);
        ips[count++] = frame(b, slice_of(from, (size_t)(end - from)));
        end = from > stack ? from - 1 : stack;
    }
    profile_sample s = {
        .ips = ips, .n = count, .thread = thread, .time = 1, .state = state, .samples = n, .weight = weight};
    return profile_add(b, &s);
}

profile *kit_build(profile_builder *b)
{
    err e = {0};
    profile *p = profile_build(b, &e);
    assert_non_null(p);
    profile_builder_unref(b);
    return p;
}

static char *text_of(buf *b)
{
    assert_true(buf_u8(b, 0));
    char *s = strdup((const char *)b->p);
    buf_fini(b);
    return s;
}

static void put(buf *b, const profile *p, uint32_t frame_no, int64_t inclusive, int64_t exclusive)
{
    slice m = profile_frame_at(p, frame_no)->method;
    buf_printf(b, "%.*s %lld/%lld", (int)m.n, (const char *)m.p, (long long)inclusive, (long long)exclusive);
}

static void close_to(buf *b, uint32_t *depth, uint32_t to)
{
    for (; *depth > to; --*depth)
        buf_str(b, ")");
}

/* Before a node at this depth. */
static void open_at(buf *b, uint32_t *depth, uint32_t at)
{
    if (at > *depth) {
        buf_str(b, " (");
        *depth = at;
        return;
    }
    close_to(b, depth, at);
    if (at > 0) buf_str(b, ", ");
}

char *kit_tree(const profile *p)
{
    buf b;
    buf_init(&b, 0);
    uint32_t depth = 0;
    for (uint32_t i = 0; i < profile_nodes(p); i++) {
        profile_node n = profile_node_at(p, i);
        uint32_t at = 0;
        for (uint32_t k = i; k; k = profile_node_at(p, k).parent)
            at++;
        open_at(&b, &depth, at);
        put(&b, p, n.frame, n.inclusive, n.exclusive);
    }
    close_to(&b, &depth, 0);
    return text_of(&b);
}

char *kit_part(const profile *p, const profile_tree_query *q)
{
    profile_tree t;
    err e = {0};
    assert_int_equal(profile_tree_of(p, q, &t, &e), 0);
    buf b;
    buf_init(&b, 0);
    uint32_t depth = 0;
    for (uint32_t i = 0; i < t.n; i++) {
        const profile_tree_node *n = &t.nodes[i];
        open_at(&b, &depth, n->depth);
        put(&b, p, n->frame, n->counts.inclusive, n->counts.exclusive);
        if (n->left_out) buf_printf(&b, " +%u", n->left_out);
        if (i) assert_true(n->parent < i && t.nodes[n->parent].depth + 1 == n->depth);
    }
    close_to(&b, &depth, 0);
    if (t.truncated) buf_str(&b, " ...");
    free(t.nodes);
    return text_of(&b);
}

char *kit_rows(const profile *p, profile_rows *r)
{
    buf b;
    buf_init(&b, 0);
    for (uint32_t i = 0; i < r->n; i++) {
        if (i) buf_str(&b, ", ");
        put(&b, p, r->rows[i].key, r->rows[i].counts.inclusive, r->rows[i].counts.exclusive);
    }
    if (r->all > r->n) buf_printf(&b, " of %u", r->all);
    free(r->rows);
    return text_of(&b);
}

uint32_t kit_frame(const profile *p, const char *method)
{
    for (uint32_t i = 0; i < profile_frames(p); i++)
        if (slice_eq_str(profile_frame_at(p, i)->method, method)) return i;
    print_error("there is no frame %s\n", method);
    fail();
    return 0;
}
