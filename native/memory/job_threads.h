/* SPDX-License-Identifier: MIT */
/* job_threads.h: what the parts of the thread snapshot share. */
#ifndef LUNETTE_MEMORY_JOB_THREADS_H
#define LUNETTE_MEMORY_JOB_THREADS_H

#include "memory/stacks.h"
#include "memory/worker.h"
#include "unwind/uw.h"

#define SNAP_METHODS_MAX 200000u
#define SNAP_TYPES_MAX   65536u
#define SNAP_REFS_MAX    64u /* of one thread, kept */
#define SNAP_BLOCKS_MAX  1000000u
#define SNAP_LOCKS_MAX   20000u
#define SNAP_FRAMES_MAX  512u
#define SNAP_NATIVE_MAX  512u
#define SNAP_FRAMES_ALL  150000u /* kept of all stacks; then SNAP_FRAMES_THEN of each further one */
#define SNAP_FRAMES_THEN 8u

typedef struct snap_method {
    dac_addr address, module;
    uint32_t token, module_index; /* UINT32_MAX: none */
    bool is_dynamic, in_wait;     /* in_wait: a part of the library's own waiting */
    char *name;
} snap_method;

typedef struct snap_lock {
    dac_addr object, owner; /* owner: a Thread; 0: by number */
    uint32_t owner_id;      /* as a System.Threading.Lock has it: of the thread, as the target sees it */
    uint32_t recursion, waiters;
    const char *kind, *source;
} snap_lock;

/* Interned things with an index: by an address of the target. */
typedef struct snap_table {
    map64 index;
    size_t n, cap, size;
    void *items;
} snap_table;

typedef struct snap {
    mem_job *j;
    mem_target *t;
    dac *d; /* NULL: native threads alone */
    clr_names names;
    dac_globals globals;
    dac_addr lock_type; /* System.Threading.Lock; 0: not loaded */
    uint32_t lock_owner_at, lock_state_at, lock_recursion_at;
    bool thin_16; /* owner numbers of thin locks have 16 bits */
    arena a;
    map64 il;   /* code address -> IL offset, or UINT64_MAX */
    map64 code; /* code address -> where its managed method begins, 0: it is none */
    snap_table methods, modules, types, locks;
    bool native, runtime;
    uint32_t max_frames;
    uw_space *space;
    uw_frame *native_frames;
    stack_frame *frames;
    jsonw *w;
    uint32_t refs_failed, refs_skipped, frames_written, stacks_cut;
    bool blocks_cut;
} snap;

/* The index of an address in a table, made by `make` when it is new; UINT32_MAX: no room. */
typedef bool (*snap_make_fn)(snap *s, uint64_t address, void *item);
uint32_t snap_index(snap *s, snap_table *t, uint64_t address, uint32_t max, snap_make_fn make);
uint32_t snap_method_of(snap *s, dac_addr method);
uint32_t snap_type_of(snap *s, dac_addr object);
static inline void *snap_item(const snap_table *t, uint32_t i) { return (uint8_t *)t->items + (size_t)i * t->size; }

/* job_threads_locks.c */
void snap_sync_blocks(snap *s);
/* The thread's references that tell what it waits for or holds: written as a list. frames: its managed ones. */
void snap_refs(snap *s, uint32_t os_id, const stack_frame *frames, uint32_t n);
void snap_write_locks(snap *s);
/* job_threads_pool.c */
void snap_pool(snap *s);
/* job_threads_native.c */
int snap_native_open(snap *s, err *e);
/* Native frames of a thread, innermost first. */
uint32_t snap_native(snap *s, pid_t tid, uw_frame *out, uint32_t max, uw_end *end);
void snap_write_native(snap *s, const uw_frame *f);
void snap_write_modules(snap *s);

#endif
