/* SPDX-License-Identifier: MIT */
/* modules.c: ELF images in the target's memory: where they begin and end, their build ids, their exported symbols.
 * Formats: System V ABI, chapters 4 and 5; the GNU hash section as the dynamic linker of glibc reads it. */
#include <stdlib.h>
#include <string.h>

#include "memory/memory_internal.h"

#define NOTE_BYTES_MAX   65536u
#define DYNAMIC_MAX      512u
#define SYMBOL_CHAIN_MAX (1u << 20)
#define SYMBOL_NAME_MAX  256u

/* ---- an image ---- */

static bool plausible(const Elf64_Ehdr *h)
{
    return memcmp(h->e_ident, ELFMAG, SELFMAG) == 0 && h->e_ident[EI_CLASS] == ELFCLASS64 &&
           h->e_ident[EI_DATA] == ELFDATA2LSB && (h->e_type == ET_DYN || h->e_type == ET_EXEC) &&
           h->e_phentsize == sizeof(Elf64_Phdr) && h->e_phnum > 0;
}

static void take_segment(mem__elf *m, const Elf64_Phdr *p)
{
    switch (p->p_type) {
    case PT_LOAD:
        if (p->p_offset / MEM_PAGE == 0) m->bias = m->base - (p->p_vaddr - p->p_offset);
        break;
    case PT_INTERP: m->has_interpreter = true; break;
    default: break;
    }
}

static void take_addresses(mem__elf *m, const Elf64_Phdr *p)
{
    uint64_t at = m->bias + p->p_vaddr, end = at + p->p_memsz;
    switch (p->p_type) {
    case PT_LOAD:
        if (end > m->end && end > at) m->end = end;
        break;
    case PT_DYNAMIC: m->dynamic = at; break;
    case PT_GNU_EH_FRAME:
        m->eh_frame_hdr = at;
        m->eh_frame_hdr_size = p->p_memsz;
        break;
    default: break;
    }
}

bool mem__elf_read(mem__elf *m, uint64_t base, mem__get_fn get, void *arg)
{
    Elf64_Ehdr h;
    *m = (mem__elf){.base = base, .bias = base, .end = base + MEM_PAGE};
    if (!get(arg, 0, &h, sizeof h) || !plausible(&h)) return false;
    m->type = h.e_type;
    m->n = h.e_phnum < MEM_ELF_PHDRS ? h.e_phnum : MEM_ELF_PHDRS;
    if (!get(arg, h.e_phoff, m->ph, m->n * sizeof m->ph[0])) return false;
    for (uint32_t i = 0; i < m->n; i++)
        take_segment(m, &m->ph[i]);
    for (uint32_t i = 0; i < m->n; i++)
        take_addresses(m, &m->ph[i]);
    return true;
}

static size_t id_in_notes(slice notes, uint8_t id[MEM_BUILD_ID_MAX])
{
    cursor c = cursor_of(notes, 0);
    while (cursor_left(&c) >= 12) {
        uint32_t name = cursor_u32(&c), desc = cursor_u32(&c), type = cursor_u32(&c);
        if (name > NOTE_BYTES_MAX || desc > NOTE_BYTES_MAX) return 0;
        slice n = cursor_bytes(&c, name);
        cursor_skip(&c, -name & 3u);
        slice d = cursor_bytes(&c, desc);
        if (!cursor_ok(&c)) return 0;
        if (type == NT_GNU_BUILD_ID && slice_eq(n, slice_of("GNU", 4)) && d.n > 0 && d.n <= MEM_BUILD_ID_MAX) {
            memcpy(id, d.p, d.n);
            return d.n;
        }
        if (cursor_left(&c) >= (-desc & 3u)) cursor_skip(&c, -desc & 3u);
    }
    return 0;
}

size_t mem__build_id(const mem__elf *m, bool loaded, mem__get_fn get, void *arg, uint8_t id[MEM_BUILD_ID_MAX])
{
    for (uint32_t i = 0; i < m->n; i++) {
        const Elf64_Phdr *p = &m->ph[i];
        if (p->p_type != PT_NOTE || p->p_filesz == 0 || p->p_filesz > NOTE_BYTES_MAX) continue;
        uint8_t *bytes = mem_alloc(p->p_filesz);
        if (!bytes) return 0;
        size_t n = 0;
        uint64_t at = loaded ? m->bias + p->p_vaddr - m->base : p->p_offset;
        if (get(arg, at, bytes, p->p_filesz)) n = id_in_notes(slice_of(bytes, p->p_filesz), id);
        free(bytes);
        if (n > 0) return n;
    }
    return 0;
}

/* ---- all of the target ---- */

typedef struct image {
    mem_target *t;
    uint64_t base;
} image;

static bool get_memory(void *arg, uint64_t offset, void *to, size_t n)
{
    image *i = arg;
    return mem_get(i->t, i->base + offset, to, n);
}

static bool read_module(mem_target *t, const mem_mapping *map, mem_module *out)
{
    image i = {t, map->start};
    mem__elf *m = mem_alloc(sizeof *m);
    if (!m) return false;
    bool is = mem__elf_read(m, map->start, get_memory, &i);
    if (is) {
        *out = (mem_module){.base = m->base,
                            .end = m->end,
                            .bias = m->bias,
                            .path = map->path,
                            .deleted = map->deleted,
                            .dynamic = m->dynamic,
                            .eh_frame_hdr = m->eh_frame_hdr,
                            .eh_frame_hdr_size = m->eh_frame_hdr_size,
                            .is_program = m->type == ET_EXEC || m->has_interpreter};
        out->build_id_size = (uint8_t)mem__build_id(m, true, get_memory, &i, out->build_id);
    }
    free(m);
    return is;
}

static bool may_be_image(const mem_mapping *m)
{
    return m->offset == 0 && (m->path[0] == '/' || strcmp(m->path, "[vdso]") == 0);
}

/* Managed assemblies are mapped from their beginning too, so the first bytes decide; an ELF file that is only read
 * (mapped whole, as data) stays out, since nothing of it can run. */
static bool runs(const mem_target *t, const mem_module *m)
{
    size_t i = (size_t)(mem_mapping_of(t, m->base) - t->maps);
    for (; i < t->n_maps && t->maps[i].start < m->end; i++)
        if (t->maps[i].prot & (MEM_EXEC | MEM_PROT_UNKNOWN)) return true;
    return false;
}

const mem_module *mem_modules(mem_target *t, size_t *n)
{
    *n = 0;
    if (t->modules_read) {
        *n = t->n_modules;
        return t->modules;
    }
    size_t candidates = 0;
    for (size_t i = 0; i < t->n_maps; i++)
        candidates += may_be_image(&t->maps[i]);
    if (candidates > MEM_MODULES_MAX) candidates = MEM_MODULES_MAX;
    arena_free(&t->modules_arena);
    t->n_modules = 0;
    t->modules = arena_alloc(&t->modules_arena, (candidates + 1) * sizeof *t->modules);
    if (!t->modules) return NULL;
    for (size_t i = 0; i < t->n_maps && t->n_modules < candidates; i++) {
        mem_module *m = &t->modules[t->n_modules];
        if (may_be_image(&t->maps[i]) && read_module(t, &t->maps[i], m) && runs(t, m)) t->n_modules++;
    }
    t->modules_read = true;
    *n = t->n_modules;
    return t->modules;
}

const mem_module *mem_module_of(mem_target *t, uint64_t address)
{
    size_t n, lo = 0;
    const mem_module *m = mem_modules(t, &n);
    for (size_t hi = n; lo < hi;) {
        size_t mid = lo + (hi - lo) / 2;
        if (m[mid].end <= address)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < n && m[lo].base <= address ? &m[lo] : NULL;
}

const mem_module *mem_module_named(mem_target *t, const char *name)
{
    size_t n;
    const mem_module *m = mem_modules(t, &n);
    for (size_t i = 0; i < n; i++) {
        const char *slash = strrchr(m[i].path, '/');
        if (strcmp(slash ? slash + 1 : m[i].path, name) == 0) return &m[i];
    }
    return NULL;
}

/* ---- exported symbols ---- */

typedef struct tables {
    uint64_t symbols, strings, hash;
} tables;

/* The loader of glibc has made these addresses absolute, others leave them relative. */
static uint64_t absolute(const mem_module *m, uint64_t v) { return v < m->base ? v + m->bias : v; }

static bool read_dynamic(mem_target *t, const mem_module *m, tables *out)
{
    *out = (tables){0};
    for (uint32_t i = 0; m->dynamic && i < DYNAMIC_MAX; i++) {
        Elf64_Dyn d;
        if (!mem_get(t, m->dynamic + i * sizeof d, &d, sizeof d) || d.d_tag == DT_NULL) break;
        if (d.d_tag == DT_SYMTAB) out->symbols = absolute(m, d.d_un.d_ptr);
        if (d.d_tag == DT_STRTAB) out->strings = absolute(m, d.d_un.d_ptr);
        if (d.d_tag == DT_GNU_HASH) out->hash = absolute(m, d.d_un.d_ptr);
    }
    return out->symbols && out->strings && out->hash;
}

static bool is_named(mem_target *t, const tables *b, const Elf64_Sym *s, const char *name)
{
    char text[SYMBOL_NAME_MAX];
    size_t n = strlen(name) + 1;
    return n <= sizeof text && mem_get(t, b->strings + s->st_name, text, n) && memcmp(text, name, n) == 0;
}

bool mem_symbol(mem_target *t, const mem_module *m, const char *name, uint64_t *address)
{
    tables b;
    struct {
        uint32_t buckets, first, bloom, shift;
    } head;
    if (!read_dynamic(t, m, &b) || !mem_get(t, b.hash, &head, sizeof head) || head.buckets == 0) return false;
    uint32_t h = 5381, at = 0;
    for (const char *p = name; *p; p++)
        h = h * 33 + (uint8_t)*p;
    uint64_t buckets = b.hash + sizeof head + (uint64_t)head.bloom * 8, chains = buckets + (uint64_t)head.buckets * 4;
    if (!mem_get(t, buckets + (uint64_t)(h % head.buckets) * 4, &at, sizeof at) || at < head.first) return false;
    for (uint32_t i = 0; i < SYMBOL_CHAIN_MAX; i++, at++) {
        uint32_t link;
        Elf64_Sym s;
        if (!mem_get(t, chains + (uint64_t)(at - head.first) * 4, &link, sizeof link)) return false;
        if ((link | 1) == (h | 1) && mem_get(t, b.symbols + (uint64_t)at * sizeof s, &s, sizeof s) &&
            s.st_shndx != SHN_UNDEF && is_named(t, &b, &s, name)) {
            *address = m->bias + s.st_value;
            return true;
        }
        if (link & 1) return false;
    }
    return false;
}
