/* SPDX-License-Identifier: MIT */
/* naming.h: what code an address of a process is: a function of the kernel, of a native file (and its debug file), of
 * the runtime's JIT, or of another JIT that keeps /tmp/perf-PID.map. Answers are remembered by address.
 *
 *     naming *n = naming_new(space, pid);
 *     naming_kernel(n, &e);                      optional; about 100 ms: do it while events come in
 *     naming_methods(n, methods);                optional
 *     naming_find(n, ip, time, &name);
 *     naming_free(n);
 *
 * One thread at a time. Format of the map file: linux, tools/perf/Documentation/jit-interface.txt. */
#ifndef LUNETTE_NAMING_NAMING_H
#define LUNETTE_NAMING_NAMING_H

#include "clr/methods.h"
#include "unwind/uw.h"

#define NAMING_FILES_MAX 4096u
#define NAMING_MEMO_MAX  (1u << 20)
#define NAMING_JIT_MAX   ((size_t)64 << 20) /* bytes of a perf-PID.map that are read */
#define NAMING_TEXT_MAX  ((size_t)64 << 20) /* bytes of names that are kept */

typedef enum naming_kind {
    NAMING_UNKNOWN, /* nothing is known of the address: method is "0x…" */
    NAMING_KERNEL,
    NAMING_NATIVE,  /* of a file; without a symbol method is "FILE+0x…", by the place in the file */
    NAMING_MANAGED, /* by the runtime */
    NAMING_JIT,     /* by perf-PID.map */
} naming_kind;

typedef struct naming_name {
    naming_kind kind;
    slice module;       /* "[kernel]", a kernel module's name, "libc.so.6", an assembly; "?" when not known */
    slice method;       /* demangled */
    bool symbol;        /* method is a name, and no address */
    bool by_time;       /* MANAGED: the address had several methods, so the name holds for this time only */
    clr_method managed; /* MANAGED */
} naming_name;

typedef struct naming naming;
/* The space is borrowed until naming_free, and must have the maps of the process; NULL: native code has no names.
 * NULL: no memory. */
naming *naming_new(uw_space *space, int pid);
void naming_free(naming *n); /* NULL is fine */
/* Reads the names of the kernel. On failure (PermissionDenied, …) kernel addresses stay numbers. */
int naming_kernel(naming *n, err *e);
/* The address of a function of the kernel, "futex_wait"; 0: not known. Slow the first time of each name. */
uint64_t naming_kernel_address(naming *n, slice name);
/* The map of the runtime's methods; borrowed. What was remembered before is forgotten. */
void naming_methods(naming *n, clr_methods *m);
/* perf-PID.map of the process, as it sees /tmp. False: there is none, or it may not be read. */
bool naming_jit_map(naming *n);

/* ip: the address of an instruction; of a return address give ip - 1. time as of clr_methods_find. Borrowed until
 * naming_free. False: NAMING_UNKNOWN. */
bool naming_find(naming *n, uint64_t ip, int64_t time, naming_name *out);

typedef struct naming_stats {
    uint32_t files, files_bad; /* opened for their symbols; that could not be */
    uint64_t jit_functions;
    bool kernel, methods;
} naming_stats;
void naming_stats_of(const naming *n, naming_stats *out);

#endif
