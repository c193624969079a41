/* SPDX-License-Identifier: MIT */
/* uw.h: stacks of programs: from registers and memory to return addresses, by call frame information (.eh_frame,
 * .debug_frame), by frame pointers where there is none (code of a JIT), through signal frames and the vDSO. The memory
 * is whatever a callback reads: a stopped process, a core, or the top of a stack that came with a sample. x86-64.
 * Formats: DWARF 5 section 6.4; LSB 5.0 (.eh_frame, .eh_frame_hdr); System V ABI for AMD64.
 *
 *     uw_space *s = uw_space_new(&memory);
 *     uw_space_load(s, pid, &e);                     or uw_space_map() for each map of a core
 *     n = uw_walk(s, &regs, NULL, frames, 128, &end);
 *     uw_space_free(s);
 *
 * A space is for one thread at a time; images are shared between spaces and kept for later ones (uw_trim). */
#ifndef LUNETTE_UNWIND_UW_H
#define LUNETTE_UNWIND_UW_H

#include "base/bytes.h"
#include "base/err.h"

/* Numbers of DWARF for x86-64. */
typedef enum uw_reg {
    UW_RAX,
    UW_RDX,
    UW_RCX,
    UW_RBX,
    UW_RSI,
    UW_RDI,
    UW_RBP,
    UW_RSP,
    UW_R8,
    UW_R9,
    UW_R10,
    UW_R11,
    UW_R12,
    UW_R13,
    UW_R14,
    UW_R15,
    UW_RIP,
    UW_REGS
} uw_reg;

typedef struct uw_regs {
    uint64_t r[UW_REGS];
    uint32_t known; /* bit n: r[n] means something */
} uw_regs;
#define UW_ALL ((1u << UW_REGS) - 1)

/* Reads n bytes at an address of the target. False: not there (all or nothing). */
typedef bool (*uw_read_fn)(void *arg, uint64_t address, void *out, size_t n);
typedef struct uw_memory {
    uw_read_fn read;
    void *arg;
} uw_memory;

/* How a frame was found. */
typedef enum uw_how {
    UW_START,         /* the registers that were given */
    UW_CFI,           /* by call frame information */
    UW_SIGNAL,        /* a signal interrupted it: ip is exact */
    UW_FRAME_POINTER, /* by the frame pointer */
    UW_CODE,          /* by reading the instructions around ip: a prologue, an epilogue, a stub */
    UW_GUESS,         /* a return address lay where one may lie */
} uw_how;

typedef struct uw_frame {
    uint64_t ip; /* a return address unless exact: look up ip - 1 */
    uint64_t sp; /* the stack pointer in the frame */
    uint64_t fp; /* the frame pointer; 0: not known */
    uw_how how;
    bool exact;
} uw_frame;

typedef enum uw_end {
    UW_END_ROOT,    /* the outermost frame: marked so, or a return address of 0 */
    UW_END_MAX,     /* no more room for frames */
    UW_END_MEMORY,  /* the stack could not be read: at the end of a sample's bytes */
    UW_END_NO_INFO, /* nothing tells how to go on from here */
    UW_END_LOOP,    /* it did not come nearer to the root */
    UW_ENDS
} uw_end;
const char *uw_end_name(uw_end why);

/* ---- an address space -------------------------------------------------------------------------------------------- */

typedef struct uw_space uw_space;

#define UW_MAPS_MAX 262144u

/* Memory of the target, for code and vDSO (stacks too, unless uw_walk gets its own); NULL: none. Copied. NULL: no
 * memory. */
uw_space *uw_space_new(const uw_memory *memory);
void uw_space_free(uw_space *s); /* NULL is fine */

typedef struct uw_map {
    uint64_t start, end, file_offset;
    bool executable;
    slice path;       /* as the target has it; "" or "[…]" or "//anon": no file. Copied */
    const char *open; /* where this process can open it; NULL: path. Copied */
} uw_map;
/* Adds a map; it hides what lay there before. False: no memory, or over UW_MAPS_MAX. */
bool uw_space_map(uw_space *s, const uw_map *m);
void uw_space_unmap(uw_space *s, uint64_t start, uint64_t end);
/* All executable maps of a process, files by /proc/PID/root. */
int uw_space_load(uw_space *s, int pid, err *e);
/* Memory of a process, by process_vm_readv; arg is the pid as (void *)(intptr_t)pid. Needs what ptrace needs. */
bool uw_read_process(void *arg, uint64_t address, void *out, size_t n);

/* Which code a JIT has made: true, and the start of the method's body, when ip lies in one. Without the callback every
 * executable map without a file is taken for such code, with unknown starts. */
typedef bool (*uw_code_fn)(void *arg, uint64_t ip, uint64_t *start);
void uw_space_code(uw_space *s, uw_code_fn fn, void *arg);

/* The module at an address, for naming: borrowed until the space changes. False: no map. */
typedef struct uw_module {
    slice path;
    const char *open;
    uint64_t start, end, file_offset; /* of the map */
    bool is_file, executable;
    slice build_id; /* empty: not known (the image has not been looked at, or has none) */
    uint32_t index; /* of the map's file in this space, from 0; UINT32_MAX: no file */
} uw_module;
bool uw_space_find(uw_space *s, uint64_t address, uw_module *out);

/* ---- walking ----------------------------------------------------------------------------------------------------- */

/* The stack from these registers: out[0] is where they stand. Returns the number of frames, at least 1. stack: where
 * the stack is read (NULL: the space's memory). *end says why it stopped. */
uint32_t uw_walk(uw_space *s, const uw_regs *regs, const uw_memory *stack, uw_frame *out, uint32_t max, uw_end *end);
/* One step: the registers of the caller, in place. False: *end says why. For whoever needs registers of each frame. */
bool uw_step(uw_space *s, uw_regs *regs, bool exact, const uw_memory *stack, uw_frame *out, uw_end *end);

/* Drops images that no space uses until they take at most max_bytes (0: all). */
void uw_trim(size_t max_bytes);

typedef struct uw_stats {
    uint64_t walks, frames, by_cfi, by_frame_pointer, by_code, guesses;
    uint64_t ends[UW_ENDS];
    uint32_t images, images_bad;
    size_t image_bytes;
} uw_stats;
void uw_space_stats(const uw_space *s, uw_stats *out);

#endif
