/* SPDX-License-Identifier: MIT */
/* tap.h: somebody beside the reader's owner who takes the events of a stream: whoever owns the reader (probe/source.h)
 * hands each event on. All functions run on the reader's thread, one at a time; none may wait. */
#ifndef LUNETTE_NETTRACE_TAP_H
#define LUNETTE_NETTRACE_TAP_H

#include "nettrace/nettrace.h"

typedef struct nt_tap nt_tap;
typedef struct nt_tap_ops {
    /* Once a kind, before its first event. What event gets as use; NULL: this kind is not wanted. */
    void *(*kind)(nt_tap *t, nt_kind *k);
    void (*event)(nt_tap *t, void *use, const nt_reader *r, const nt_event *ev);
    /* Once, last: the stream has been read, to its end or not. */
    void (*end)(nt_tap *t, const nt_reader *r);
    void (*ref)(nt_tap *t); /* any thread, as unref */
    void (*unref)(nt_tap *t);
} nt_tap_ops;

/* The first member of whoever is one. Its reader keeps stacks. */
struct nt_tap {
    const nt_tap_ops *ops;
};

#endif
