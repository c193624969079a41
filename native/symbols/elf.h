/* SPDX-License-Identifier: MIT */
/* elf.h: functions and lines of native code: symbol tables of an ELF file and of its separate debug file, and DWARF.
 * Formats: System V ABI (ELF); DWARF 2 to 5; GNU build ids and .gnu_debuglink.
 *
 *     sym_elf *f;
 *     if (sym_elf_open("/proc/PID/root/usr/lib/libcoreclr.so", NULL, &f, &e) == 0) {
 *         uint64_t at;
 *         sym_native n;
 *         if (sym_elf_address(f, ip - map_start + map_offset, &at) && sym_elf_find(f, at, &n)) …
 *         sym_elf_close(f);
 *     } */
#ifndef LUNETTE_SYMBOLS_ELF_H
#define LUNETTE_SYMBOLS_ELF_H

#include "base/mem.h"

typedef struct sym_elf sym_elf;

#define SYM_ELF_SYMBOLS_MAX  ((size_t)4 << 20)
#define SYM_ELF_BUILD_ID_MAX 64
#define SYM_ELF_UNITS_MAX    ((size_t)1 << 20)

/* Opens the file and, where there is one with the same build id or the linked checksum, its debug file: beside it, in
 * .debug beside it, in the cache of debuginfod's client, or below debug_root (NULL: /usr/lib/debug; for a container
 * /proc/PID/root/usr/lib/debug). Reads the symbols. NotFound, PermissionDenied, LimitExceeded, IoError, OutOfMemory;
 * MalformedInput for what is no ELF. */
int sym_elf_open(const char *path, const char *debug_root, sym_elf **out, err *e);
void sym_elf_close(sym_elf *f); /* NULL is fine */

/* Bytes of the GNU build id; empty: none. Borrowed. */
slice sym_elf_build_id(const sym_elf *f);
/* The debug file that is in use; NULL: none. Borrowed. */
const char *sym_elf_debug_file(const sym_elf *f);
size_t sym_elf_symbols(const sym_elf *f);
/* The address in the file's own numbering (st_value, DWARF) of a byte at this offset of the file, as maps in
 * /proc/PID/maps have it. False: it is not loaded. */
bool sym_elf_address(const sym_elf *f, uint64_t file_offset, uint64_t *address);

typedef struct sym_native {
    const char *name;     /* as it stands in the table, mangled; borrowed until sym_elf_close. sym_demangle reads it */
    uint64_t start, size; /* size 0: not told, then it reaches to the next symbol */
    uint64_t offset;      /* of the address, from start */
} sym_native;
/* The function at an address. False: none. Any thread. */
bool sym_elf_find(const sym_elf *f, uint64_t address, sym_native *out);

/* Where functions of these names begin, as offsets in the file; 0: not there, or not loaded. One thread a file. */
void sym_elf_named(const sym_elf *f, const char *const *names, size_t n, uint64_t *offsets);

typedef struct sym_native_line {
    const char *file; /* as the compiler was given it, borrowed until sym_elf_close */
    uint32_t line, column;
} sym_native_line;
/* File and line by DWARF. False: there is none for the address. Any thread; the first call reads where the units lie.
 */
bool sym_elf_line(sym_elf *f, uint64_t address, sym_native_line *out);

#endif
