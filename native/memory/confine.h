/* SPDX-License-Identifier: MIT */
/* confine.h: what a worker may still ask of the kernel. It reads hostile dumps and runs the code of a target's own
 * library, and needs for that: to read files, memory of its own, threads, the pipes that it was given, and, of a live
 * target, its memory and its threads' stops. Everything else is refused with EPERM, for good, by a seccomp filter:
 * whoever takes a worker over starts no program, opens no socket, writes, makes, moves or removes no file, sends no
 * signal to others, and loads nothing into the kernel. */
#ifndef LUNETTE_MEMORY_CONFINE_H
#define LUNETTE_MEMORY_CONFINE_H

#include <stdbool.h>

typedef enum confine_may {
    CONFINE_DUMP,   /* no other process is anything to it */
    CONFINE_ATTACH, /* may stop threads of others, read their registers and memory */
    CONFINE_FORK,   /* may also write both, and start and kill processes: freeze="fork" */
} confine_may;

/* For this thread and all that it starts. No file of another user or with capabilities gives rights any more
 * (no_new_privs). false: this kernel has no such filters, or forbids to set one. */
bool confine(confine_may may);

/* Whether this kernel takes such filters from us: asked with one that is none. Changes nothing. */
bool confine_able(void);

#endif
