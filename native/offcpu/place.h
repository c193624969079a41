/* SPDX-License-Identifier: MIT */
/* place.h: what the registers of a thread that waits tell of its system call. */
#ifndef LUNETTE_OFFCPU_PLACE_H
#define LUNETTE_OFFCPU_PLACE_H

#include "offcpu/spans.h"
#include "unwind/uw.h"

#define OC_IN_SYSCALL UINT64_C(0xffffffffffffffda) /* -ENOSYS: what the kernel keeps in rax while it works */

/* The kind of wait of a thread, if its call is futex. */
static inline oc_sync oc_sync_of(const uw_regs *regs)
{
    if (regs->r[UW_RAX] != OC_IN_SYSCALL) return OC_SYNC_NONE;
    switch (regs->r[UW_RSI] & 0x7f) { /* the operation: linux/futex.h */
    case 0:                           /* FUTEX_WAIT */
    case 6:                           /* FUTEX_LOCK_PI */
    case 13: return OC_SYNC_LOCK;     /* FUTEX_LOCK_PI2 */
    default: return OC_SYNC_WAIT;
    }
}

#endif
