/* SPDX-License-Identifier: MIT */
/* kallsyms.h: names of the kernel's functions, of /proc/kallsyms. Format: "ADDRESS TYPE NAME[\t[MODULE]]" a line;
 * addresses are zeros for whoever may not know them (kernel.kptr_restrict, CAP_SYSLOG). */
#ifndef LUNETTE_SYMBOLS_KALLSYMS_H
#define LUNETTE_SYMBOLS_KALLSYMS_H

#include "base/mem.h"

#define SYM_KALLSYMS_MAX       ((size_t)64 << 20)           /* bytes of text read */
#define SYM_KALLSYMS_NAMES_MAX ((size_t)32 << 20)           /* bytes of names kept */
#define SYM_KERNEL_SPACE       UINT64_C(0xffff800000000000) /* x86-64: addresses from here on are the kernel's */

typedef struct sym_kallsyms sym_kallsyms;
/* Reads the file (NULL: /proc/kallsyms). NotFound, PermissionDenied (also when all addresses are hidden), OutOfMemory,
 * IoError. About 100 ms for a whole kernel: not on the loop's thread. */
int sym_kallsyms_open(const char *path, sym_kallsyms **out, err *e);
void sym_kallsyms_close(sym_kallsyms *k); /* NULL is fine */
size_t sym_kallsyms_count(const sym_kallsyms *k);
/* The function at an address; module is empty for the kernel itself. Borrowed until close. False: none. Any thread. */
bool sym_kallsyms_find(const sym_kallsyms *k, uint64_t address, slice *name, slice *module);
/* The address of a function by its name; 0: none. Looks at all of them. */
uint64_t sym_kallsyms_address(const sym_kallsyms *k, slice name);
/* From text, for tests and fuzzing; what is no line of the format is skipped. */
int sym_kallsyms_parse(slice text, sym_kallsyms **out, err *e);

#endif
