/* SPDX-License-Identifier: MIT */
/* uw_internal.h: what the files of uw.h share: images and their rows, expressions, code. */
#ifndef LUNETTE_UNWIND_UW_INTERNAL_H
#define LUNETTE_UNWIND_UW_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "base/mem.h"
#include "unwind/uw.h"

/* ---- rules ------------------------------------------------------------------------------------------------------- */

typedef enum uw__kind {
    UW__SAME, /* of a register that the callee may change: not known any more */
    UW__UNDEFINED,
    UW__OFFSET,     /* lies at CFA + offset */
    UW__VAL_OFFSET, /* is CFA + offset */
    UW__REGISTER,   /* is in another register */
    UW__EXPR,       /* lies where the expression says */
    UW__VAL_EXPR,   /* is what the expression says */
} uw__kind;

typedef struct uw__rule {
    uint8_t kind, reg;
    int64_t offset;
    slice expr; /* in the image's bytes */
} uw__rule;

typedef struct uw__rules {
    bool cfa_is_expr;
    uint8_t cfa_reg;
    int64_t cfa_offset;
    slice cfa_expr;
    uw__rule reg[UW_REGS];
    uint8_t ra; /* the column of the return address */
    bool signal;
} uw__rules;

/* A row for a range of code, as most are: CFA a register and an offset, saved registers at offsets from it. */
#define UW__ROW_SAVED 7 /* rbx, rbp, r12 to r15, rip */
#define UW__SAME_AS   INT32_MIN
#define UW__LOST      (INT32_MIN + 1)
extern const uint8_t uw__saved[UW__ROW_SAVED];
typedef struct uw__row {
    const uw__rules *full; /* not NULL: the row needs all of it */
    int32_t cfa_offset;
    uint8_t cfa_reg;
    bool signal, missing; /* missing: nothing is known of this address */
    int32_t at[UW__ROW_SAVED];
} uw__row;

/* ---- images ------------------------------------------------------------------------------------------------------ */

typedef struct uw__segment {
    uint64_t offset, address, size; /* of the file's bytes */
    bool executable;
} uw__segment;
#define UW__SEGMENTS_MAX 64u

typedef struct uw__fde {
    uint64_t pc;
    uint32_t at;    /* in its section */
    uint32_t debug; /* of .debug_frame */
} uw__fde;

typedef struct uw__section {
    uint8_t *p; /* owned */
    size_t n;
    uint64_t address;
} uw__section;

#define UW__BUILD_ID_MAX 32u
typedef struct uw__image {
    struct uw__image *next; /* of the store */
    uint32_t refs;          /* under the store's lock */
    uint64_t used;          /* when it was last taken */
    dev_t dev;
    ino_t ino;
    int64_t mtime_ns, size;
    bool stored;
    uint8_t build_id[UW__BUILD_ID_MAX];
    uint32_t build_id_n;
    uw__segment segments[UW__SEGMENTS_MAX];
    uint32_t n_segments;
    uw__section eh, debug;
    uw__fde *fdes; /* by pc */
    uint32_t n_fdes;
    pthread_mutex_t lock; /* over what follows */
    arena rows;
    map64 by_pc; /* address: pointer to its row */
} uw__image;

#define UW__IMAGE_MAX ((size_t)256 << 20) /* bytes of unwind sections */
#define UW__FDES_MAX  ((uint32_t)4 << 20)
#define UW__ROWS_MAX  ((size_t)32 << 20) /* bytes of rows of an image */

/* Where an image's bytes come from. */
typedef struct uw__source {
    int fd; /* -1: memory */
    const uw_memory *memory;
    uint64_t base; /* memory: where its first byte lies */
} uw__source;
/* Reads an ELF file; NULL with *e: it is none, or has nothing of use. For fuzzing and others: no store. */
uw__image *uw__image_read(const uw__source *src, err *e);
void uw__image_free(uw__image *i);
/* The image of a file, shared. NULL: none. */
uw__image *uw__image_take(const char *path, err *e);
void uw__image_give(uw__image *i);
/* The address in the image of an offset in its file. False: not loaded. */
bool uw__image_address(const uw__image *i, uint64_t offset, uint64_t *address);
/* The row of an address; never NULL (missing). Any thread. Good as long as the image. */
const uw__row *uw__image_row(uw__image *i, uint64_t address);
size_t uw__image_bytes(const uw__image *i);

/* ---- cfi.c: CIEs and FDEs ---- */

/* Lists the FDEs of a section in any order. False: no memory. What is damaged is left out. */
bool uw__cfi_list(const uw__section *s, bool debug, buf *fdes);
/* The rules of an address in the FDE at fde. False: not in it, or damaged. */
bool uw__cfi_rules(const uw__section *s, bool debug, uint32_t fde, uint64_t address, uw__rules *out);
/* An encoded pointer (DW_EH_PE_…); address: of the section's first byte, data: what "datarel" is relative to. */
uint64_t uw__cfi_pointer(cursor *c, uint8_t encoding, uint64_t address, uint64_t data);
int64_t uw__sleb(cursor *c);
uint64_t uw__uleb(cursor *c);

/* ---- expr.c ---- */

/* The value of a DWARF expression; initial is on its stack first (NULL: nothing). False: it cannot be told. */
bool uw__expr(slice expr, const uw_regs *regs, const uw_memory *memory, const uint64_t *initial, uint64_t *out);

/* ---- code.c: x86-64 ---- */

/* Where things lie from the stack pointer on, when a thread stands in a prologue, an epilogue or a stub. */
typedef struct uw__leaf {
    int64_t ra_at;
    int64_t at[UW_RIP]; /* saved registers; -1: it is as it was */
} uw__leaf;
/* Tells it by the instructions around ip, read through memory. False: it is none of these (then the frame pointer
 * counts). start: of the method, 0: not known. */
bool uw__code_leaf(const uw_memory *code, uint64_t ip, uint64_t start, uw__leaf *out);
/* The same for an epilogue only, up to its ret: some compilers do not describe them in call frame information. */
bool uw__code_epilogue(const uw_memory *code, uint64_t ip, uw__leaf *out);
/* What a method's prologue makes of the stack, for the code behind it. */
typedef struct uw__layout {
    bool known; /* it was understood */
    bool frame; /* rbp points to where the caller's rbp is saved, and the return address lies above */
    uint32_t length;
    int64_t depth;      /* without frame: from the stack pointer to the return address */
    int64_t at[UW_RIP]; /* saved registers: below the return address; -1: not saved */
} uw__layout;
bool uw__code_layout(const uw_memory *code, uint64_t start, uw__layout *out);
/* Does a call end right before this address? */
bool uw__code_after_call(const uw_memory *code, uint64_t address);
/* The call before it asks the runtime, in a loop of a method's first body, whether to go on in a better one:
 * JIT_Patchpoint(&counter, IL offset), docs/design/features/OnStackReplacement.md. */
bool uw__code_patchpoint(const uw_memory *code, uint64_t address);

static inline bool uw__read64(const uw_memory *m, uint64_t at, uint64_t *out)
{
    return m && m->read && m->read(m->arg, at, out, sizeof *out);
}

#endif
