/* SPDX-License-Identifier: MIT */
/* heap_name.h: type names. The runtime writes Dictionary`2[[System.String, System.Private.CoreLib],[…]]; people and
 * ClrMD write Dictionary<System.String, …>. */
#ifndef LUNETTE_MEMORY_HEAP_NAME_H
#define LUNETTE_MEMORY_HEAP_NAME_H

#include "base/mem.h"

#define HEAP_NAME_DEPTH 32 /* type arguments within type arguments */

/* Appends raw (UTF-8, as the runtime's name of a method table) to *out as ClrMD writes it; a name that is not of this
 * form is appended as it is. False: out is full. */
bool heap_name_of(slice raw, buf *out);

#endif
