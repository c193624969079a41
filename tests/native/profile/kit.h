/* SPDX-License-Identifier: MIT */
/* kit.h: profiles written down in a line: stacks as "Main>Run>Leaf", root first, and the tree that comes of them. */
#ifndef LUNETTE_TESTS_PROFILE_KIT_H
#define LUNETTE_TESTS_PROFILE_KIT_H

#include "check.h"
#include "profile/profile.h"

/* A builder; the kit's functions give it samples. */
profile_builder *kit_builder(const profile_cfg *cfg);
/* n samples of a thread at a stack; a frame is "module!method" or a method of the module "app", which may say (kernel)
 * in front. weight is that of all of them together. */
bool kit_add(profile_builder *b, const char *stack, uint64_t n, uint64_t thread, profile_state state, uint64_t weight);
static inline void kit_stack(profile_builder *b, const char *stack, uint64_t n)
{
    assert_true(kit_add(b, stack, n, 1, PROFILE_UNKNOWN, 0));
}
/* Builds and lets the builder go. */
profile *kit_build(profile_builder *b);
/* The whole tree, "<root> 9/0 (Main 9/1 (Run 8/8))", inclusive/exclusive; and a part of it. Yours to free. */
char *kit_tree(const profile *p);
char *kit_part(const profile *p, const profile_tree_query *q);
/* "Main 9/1, Run 8/8" of rows by frame; those are freed. */
char *kit_rows(const profile *p, profile_rows *r);
/* The number of a frame. Fails when there is none. */
uint32_t kit_frame(const profile *p, const char *method);

/* Fails with both texts when they differ; frees got. */
static inline void kit_is(char *got, const char *want, const char *file, int line)
{
    if (strcmp(got, want) != 0) {
        print_error("got  %s\nwant %s\n", got, want);
        free(got);
        _fail(file, line);
    }
    free(got);
}
#define assert_text(got, want) kit_is((got), (want), __FILE__, __LINE__)

#endif
