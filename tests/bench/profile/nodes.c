/* SPDX-License-Identifier: MIT */
/* nodes.c: questions to a profile of about a million nodes: the best of five, in milliseconds of CPU time. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "profile/profile.h"

#define STACKS 100000
#define DEPTH  14
#define NAMES  3000

static uint64_t state = 42;
static uint32_t next_random(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33);
}

static profile *make(void)
{
    err e = {0};
    profile_builder *b = profile_builder_new(&(profile_cfg){.kind = PROFILE_CPU}, &e);
    uint64_t *names = calloc(NAMES, sizeof *names);
    for (int i = 0; b && names && i < NAMES; i++) {
        char text[64];
        int n = snprintf(text, sizeof text, "Namespace%d.Type%d.Method%d(int32)", i % 50, i % 700, i);
        names[i] = profile_symbol(b, SLICE_LIT("app"), slice_of(text, (size_t)n), false);
    }
    for (int i = 0; b && names && i < STACKS; i++) {
        uint64_t ips[DEPTH];
        for (int k = 0; k < DEPTH; k++)
            ips[k] = names[k >= DEPTH - 3 ? next_random() % 20 : next_random() % NAMES];
        (void)profile_add(
            b, &(profile_sample){.ips = ips, .n = DEPTH, .thread = i % 50, .samples = 1 + next_random() % 9});
    }
    profile *p = b ? profile_build(b, &e) : NULL;
    profile_builder_unref(b);
    free(names);
    if (!p) exit(1);
    return p;
}

static double best = 1e9;
static int64_t began;
static int64_t cpu_ns(void) { return clock_ns(CLOCK_PROCESS_CPUTIME_ID); }
static void start(void) { began = cpu_ns(); }
static void stop(void)
{
    double ms = (double)(cpu_ns() - began) / 1e6;
    if (ms < best) best = ms;
}
static void told(const char *what)
{
    printf(" %s_ms=%.2f", what, best);
    best = 1e9;
}

int main(void)
{
    int64_t t0 = cpu_ns();
    profile *p = make(), *q = make();
    printf("nodes nodes=%u frames=%u memory_kb=%zu make_ms=%.0f", profile_nodes(p), profile_frames(p),
           profile_info_of(p)->memory / 1024, (double)(cpu_ns() - t0) / 2e6);
    for (int i = 0; i < 5; i++) {
        profile_edges x;
        start();
        (void)profile_edges_of(p, 7, 20, &x, NULL);
        stop();
        profile_edges_fini(&x);
    }
    told("caller_callee");
    for (int i = 0; i < 5; i++) {
        profile_pair *pairs;
        uint32_t n;
        start();
        (void)profile_join(p, q, &pairs, &n, NULL);
        stop();
        free(pairs);
    }
    told("diff");
    for (int i = 0; i < 5; i++) {
        profile_rows r;
        start();
        (void)profile_top(p, PROFILE_BY_EXCLUSIVE, 20, &r, NULL);
        stop();
        free(r.rows);
    }
    told("top");
    for (int i = 0; i < 5; i++) {
        profile_rows r;
        start();
        (void)profile_by_namespace(p, PROFILE_BY_EXCLUSIVE, 20, &r, NULL);
        stop();
        free(r.rows);
    }
    told("by_namespace");
    static const profile_tree_query queries[] = {{.max_depth = 8, .max_nodes = 200},
                                                 {.root_frame = 7, .max_depth = 8, .max_nodes = 200},
                                                 {.callers = true, .max_depth = 8, .max_nodes = 200}};
    static const char *const names[] = {"call_tree", "rerooted", "upside_down"};
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < 5; i++) {
            profile_tree t;
            start();
            (void)profile_tree_of(p, &queries[k], &t, NULL);
            stop();
            free(t.nodes);
        }
        told(names[k]);
    }
    for (int i = 0; i < 3; i++) {
        start();
        profile *both = profile_overlay(p, q, NULL);
        stop();
        profile_unref(both);
    }
    told("overlay");
    printf("\n");
    profile_unref(p);
    profile_unref(q);
    return 0;
}
