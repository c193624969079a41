/* SPDX-License-Identifier: MIT */
/* elf_lines.c: file and line by libdw. Which unit an address is in is looked up in a list of our own: not every
 * compiler writes .debug_aranges. */
#include <stdlib.h>

#include "symbols/elf_internal.h"

static int by_start(const void *a, const void *b)
{
    const elf__unit *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

static bool take_unit(Dwarf_Die *die, buf *out)
{
    Dwarf_Addr base = 0, start = 0, end = 0;
    ptrdiff_t at = 0;
    while ((at = dwarf_ranges(die, at, &base, &start, &end)) > 0) {
        elf__unit u = {start, end, dwarf_dieoffset(die)};
        if (start == 0 || end <= start) continue; /* code that the linker left out */
        if (out->n / sizeof u >= SYM_ELF_UNITS_MAX || !buf_put(out, &u, sizeof u)) return false;
    }
    return true;
}

static void read_units(sym_elf *f)
{
    buf all;
    Dwarf_CU *cu = NULL;
    Dwarf_Die die;
    f->looked = true;
    Elf *from = f->debug.elf ? f->debug.elf : f->file.elf;
    f->dwarf = dwarf_begin_elf(from, DWARF_C_READ, NULL);
    if (!f->dwarf) return;
    buf_init(&all, SYM_ELF_UNITS_MAX * sizeof(elf__unit));
    while (dwarf_get_units(f->dwarf, cu, &cu, NULL, NULL, &die, NULL) == 0)
        if (!take_unit(&die, &all)) break;
    f->units = all.n ? arena_dup(&f->a, all.p, all.n) : NULL;
    f->n_units = f->units ? all.n / sizeof *f->units : 0;
    if (f->n_units) qsort(f->units, f->n_units, sizeof *f->units, by_start);
    buf_fini(&all);
}

static const elf__unit *unit_of(const sym_elf *f, uint64_t address)
{
    size_t low = 0, high = f->n_units;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (f->units[mid].start <= address)
            low = mid + 1;
        else
            high = mid;
    }
    return low && address < f->units[low - 1].end ? &f->units[low - 1] : NULL;
}

static bool find_line(sym_elf *f, uint64_t address, sym_native_line *out)
{
    Dwarf_Die die;
    int line = 0, column = 0;
    if (!f->looked) read_units(f);
    const elf__unit *u = unit_of(f, address);
    if (!u || !dwarf_offdie(f->dwarf, u->die, &die)) return false;
    Dwarf_Line *l = dwarf_getsrc_die(&die, address);
    if (!l || dwarf_lineno(l, &line) != 0 || line <= 0) return false;
    const char *file = dwarf_linesrc(l, NULL, NULL);
    if (!file) return false;
    dwarf_linecol(l, &column);
    *out = (sym_native_line){file, (uint32_t)line, column > 0 ? (uint32_t)column : 0};
    return true;
}

bool sym_elf_line(sym_elf *f, uint64_t address, sym_native_line *out)
{
    pthread_mutex_lock(&f->lock);
    bool ok = find_line(f, address, out);
    pthread_mutex_unlock(&f->lock);
    return ok;
}

void elf__dwarf_close(sym_elf *f)
{
    if (f->dwarf) dwarf_end(f->dwarf);
    f->dwarf = NULL;
}
