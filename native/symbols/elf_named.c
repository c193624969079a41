/* SPDX-License-Identifier: MIT */
/* elf_named.c: where functions of given names lie in an ELF file, for probes on them. */
#include <libelf.h>

#include "symbols/elf.h"
#include "symbols/elf_internal.h"

/* All that a table has of one name counts the same: of several versions the default one is the last of its kind. */
static void look(const sym_elf *f, Elf *elf, Elf_Scn *scn, const GElf_Shdr *h, const char *const *names, size_t n,
                 uint64_t *offsets)
{
    Elf_Data *data = elf_getdata(scn, NULL);
    Elf_Scn *text = elf_getscn(elf, h->sh_link);
    Elf_Data *strings = text ? elf_getdata(text, NULL) : NULL;
    if (!data || !strings || !strings->d_buf || !h->sh_entsize) return;
    for (size_t i = 0; i < data->d_size / h->sh_entsize && i < INT32_MAX; i++) {
        GElf_Sym s;
        if (!gelf_getsym(data, (int)i, &s) || GELF_ST_TYPE(s.st_info) != STT_FUNC || s.st_shndx == SHN_UNDEF) continue;
        if (s.st_value == 0 || s.st_name == 0 || s.st_name >= strings->d_size) continue;
        const char *name = (const char *)strings->d_buf + s.st_name;
        if (!memchr(name, 0, strings->d_size - s.st_name)) continue;
        for (size_t k = 0; k < n; k++)
            if (strcmp(name, names[k]) == 0) (void)elf__loaded(f, s.st_value, &offsets[k]);
    }
}

void sym_elf_named(const sym_elf *f, const char *const *names, size_t n, uint64_t *offsets)
{
    memset(offsets, 0, n * sizeof *offsets);
    Elf *images[] = {f->file.elf, f->debug.elf};
    for (size_t i = 0; i < 2 && images[i]; i++) {
        Elf_Scn *scn = NULL;
        while ((scn = elf_nextscn(images[i], scn))) {
            GElf_Shdr h;
            if (gelf_getshdr(scn, &h) && (h.sh_type == SHT_SYMTAB || h.sh_type == SHT_DYNSYM))
                look(f, images[i], scn, &h, names, n, offsets);
        }
    }
}
