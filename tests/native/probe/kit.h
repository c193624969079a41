/* SPDX-License-Identifier: MIT */
/* kit.h: a stream of one made-up event source for the tests of the engine, and results as text. */
#ifndef LUNETTE_TESTS_PROBE_KIT_H
#define LUNETTE_TESTS_PROBE_KIT_H

#include "../nettrace/writer.h"
#include "probe/probe.h"

/* Events of provider "Shop": 1 "Begin" and 2 "End", each with id (int32), item (text), cost (int32), ratio (double); 3
 * "Bare" without fields. Times are in ns after the session's start; threads are any number. */
typedef struct shop {
    tw w;       /* every event in its place in time, for nt_sink.event */
    tw waiting; /* the same events, which the reader puts in order, for nt_sink.run */
    uint32_t seq[8];
    uint64_t thread[8];
} shop;
enum { BEGIN = 1, END = 2, BARE = 3 };

void shop_start(shop *s);
void shop_fini(shop *s);
void shop_event(shop *s, int kind, int64_t ns, uint64_t thread, int id, const char *item, int cost, double ratio);
/* An event of kind 1 or 2 whose payload is these bytes, whatever they are. */
void shop_payload(shop *s, int kind, int64_t ns, uint64_t thread, slice payload);
void shop_stack(shop *s, int kind, int64_t ns, uint64_t thread, int id, uint32_t stack);
/* Leaves of stacks 1, 2, …, one frame each; before the events that use them. */
void shop_stacks(shop *s, uint32_t n, const uint64_t *leaves);

/* Runs the program over the whole stream, event by event and in runs, which must give the same; the result as text,
 * "{name=value, …}" in the order of the result. Ends the test when the program does not compile. */
char *shop_run(shop *s, const probe_program *program, const clr_methods *methods);
/* The text of the error that a program gives. */
char *shop_error(const probe_program *program);
/* A program over the shop's events, short names begin, end, bare and all. */
probe_program shop_program(const probe_spec *keep, size_t n_keep);
/* Runs one program and compares what is between "{" and ", stacks=". */
void check_run(shop *s, const probe_spec *keep, size_t n_keep, const char *want, const char *file, int line);
#define assert_run(s, keep, want) check_run((s), (keep), sizeof(keep) / sizeof *(keep), (want), __FILE__, __LINE__)

#define NAMED(...)                                                                                                     \
    {                                                                                                                  \
        .p = (const probe_named[]){__VA_ARGS__}, .n = sizeof((const probe_named[]){__VA_ARGS__}) / sizeof(probe_named) \
    }
#define TEXTS(...)                                                                                                     \
    {                                                                                                                  \
        .p = (const char *const[]){__VA_ARGS__}, .n = sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)      \
    }
#define KEEP(...)                                                                                                      \
    .keep = (const probe_spec[]){__VA_ARGS__}, .n_keep = sizeof((const probe_spec[]){__VA_ARGS__}) / sizeof(probe_spec)

#endif
