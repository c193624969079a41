/* SPDX-License-Identifier: MIT */
/* demangle.h: readable names of C++ (Itanium ABI) and Rust (legacy and v0) symbols. */
#ifndef LUNETTE_SYMBOLS_DEMANGLE_H
#define LUNETTE_SYMBOLS_DEMANGLE_H

#include "base/mem.h"

#define SYM_MANGLED_MAX   ((size_t)4 << 10)
#define SYM_DEMANGLED_MAX ((size_t)8 << 10)

/* Appends the readable form of a symbol's name, valid UTF-8. False, and the name itself appended, when it is not
 * mangled, too long, or its readable form would be. Any thread. */
bool sym_demangle(const char *name, buf *out);

#endif
