/* SPDX-License-Identifier: MIT */
/* fuzz_profile.c: the input is a stream, behind a byte that says which sort of profile. Whatever comes, the tree is
 * sound: in preorder, sums add up to the samples, and each question has an answer. */
#include <stdlib.h>

#include "clr/clr.h"
#include "profile/profile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(cond)                                                                                                  \
    do {                                                                                                               \
        if (!(cond)) abort();                                                                                          \
    } while (0)

typedef struct run {
    nt_tap *tap;
    nt_reader *r;
} run;

static int on_kind(void *arg, nt_kind *k)
{
    run *x = arg;
    k->user = x->tap->ops->kind(x->tap, k);
    k->muted = !k->user;
    return 0;
}

static int on_event(void *arg, const nt_event *ev)
{
    run *x = arg;
    x->tap->ops->event(x->tap, ev->kind->user, x->r, ev);
    return 0;
}

static void check_tree(const profile *p)
{
    int64_t own = 0;
    uint32_t n = profile_nodes(p);
    REQUIRE(n > 0 && profile_node_at(p, 0).size == n);
    for (uint32_t i = 0; i < n; i++) {
        profile_node x = profile_node_at(p, i);
        int64_t sum = x.exclusive;
        REQUIRE(x.frame < profile_frames(p) && x.size >= 1 && x.size <= n - i && (i == 0 || x.parent < i));
        for (uint32_t c = i + 1; c < i + x.size; c += profile_node_at(p, c).size) {
            REQUIRE(profile_node_at(p, c).parent == i);
            sum += profile_node_at(p, c).inclusive;
        }
        REQUIRE(sum == x.inclusive);
        own += x.exclusive;
    }
    const profile_info *i = profile_info_of(p);
    REQUIRE((uint64_t)own == i->samples && i->running + i->waiting <= i->samples);
}

static void ask(const profile *p)
{
    profile_rows r;
    REQUIRE(profile_top(p, PROFILE_BY_WEIGHT, 5, &r, NULL) == 0);
    free(r.rows);
    REQUIRE(profile_by_module(p, PROFILE_BY_INCLUSIVE, 5, &r, NULL) == 0);
    free(r.rows);
    REQUIRE(profile_by_namespace(p, PROFILE_BY_RUNNING, 5, &r, NULL) == 0);
    free(r.rows);
    REQUIRE(profile_hot_path(p, 1, &r, NULL) == 0);
    free(r.rows);
    for (uint32_t f = 0; f < profile_frames(p) && f < 3; f++)
        for (int callers = 0; callers < 2; callers++) {
            profile_tree t;
            profile_tree_query q = {.root_frame = f, .callers = callers, .max_nodes = 50, .by_weight = true};
            REQUIRE(profile_tree_of(p, &q, &t, NULL) == 0 && t.n >= 1 && t.n <= 50);
            free(t.nodes);
        }
    if (profile_frames(p) > 1) {
        profile_edges x;
        REQUIRE(profile_edges_of(p, 1, 5, &x, NULL) == 0);
        profile_edges_fini(&x);
    }
    profile *both = profile_overlay(p, p, NULL);
    REQUIRE(both);
    check_tree(both);
    profile_unref(both);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) return 0;
    static const profile_wait waits[] = {{"System.*", "wait"}};
    profile_cfg cfg = {.kind = data[0] & 1 ? PROFILE_ALLOCATION : PROFILE_CPU,
                       .sampled = data[0] & 2,
                       .max_bytes = data[0] & 4 ? 60000 : 0,
                       .waits = waits,
                       .n_waits = 1};
    err e = {0};
    profile_builder *b = profile_builder_new(&cfg, &e);
    REQUIRE(b);
    run x = {.tap = profile_builder_tap(b)};
    nt_options o = nt_options_default();
    o.resolve = clr_resolve;
    x.r = nt_new(&o, &(nt_sink){.kind = on_kind, .event = on_event}, &x, &e);
    REQUIRE(x.r);
    (void)nt_feed(x.r, data + 1, size - 1, &e);
    (void)nt_finish(x.r, &e);
    x.tap->ops->end(x.tap, x.r);
    nt_free(x.r);
    profile *p = profile_build(b, &e);
    REQUIRE(p);
    profile_builder_unref(b);
    check_tree(p);
    ask(p);
    profile_unref(p);
    return 0;
}
