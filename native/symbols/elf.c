/* SPDX-License-Identifier: MIT */
/* elf.c: symbol tables by libelf. A file is read, never mapped. */
#include "symbols/elf.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include "symbols/elf_internal.h"
#include "symbols/input.h"

#define DEBUG_ROOT "/usr/lib/debug"
enum { LINK_MAX = 256, CRC_BLOCK = 1 << 14 };

static pthread_once_t elf_ready = PTHREAD_ONCE_INIT;
static void start_elf(void) { elf_version(EV_CURRENT); }

static void image_close(elf__image *i)
{
    if (i->elf) elf_end(i->elf);
    i->elf = NULL;
    sym_input_close(&i->in);
}

static int image_open(elf__image *i, const char *path, err *e)
{
    int rc = sym_input_open(&i->in, path, e);
    if (rc < 0) return rc;
    i->elf = elf_begin(i->in.fd, ELF_C_READ, NULL);
    if (!i->elf || elf_kind(i->elf) != ELF_K_ELF) {
        image_close(i);
        return err_set(e, ERR_MALFORMED, "%s is no ELF file", path);
    }
    return 0;
}

/* ---- symbols ---- */

static int rank(unsigned char info) { return GELF_ST_BIND(info) == STB_GLOBAL ? 2 : GELF_ST_BIND(info) == STB_WEAK; }

static bool take_symbol(buf *out, const GElf_Sym *s, const Elf_Data *names)
{
    int type = GELF_ST_TYPE(s->st_info);
    if ((type != STT_FUNC && type != STT_GNU_IFUNC) || s->st_shndx == SHN_UNDEF || s->st_value == 0) return true;
    if (s->st_name == 0 || s->st_name >= names->d_size) return true;
    const char *name = (const char *)names->d_buf + s->st_name;
    if (!memchr(name, 0, names->d_size - s->st_name)) return true;
    elf__symbol k = {.start = s->st_value, .size = s->st_size, .name = name, .rank = rank(s->st_info)};
    return out->n / sizeof k < SYM_ELF_SYMBOLS_MAX && buf_put(out, &k, sizeof k);
}

static bool take_table(Elf *elf, Elf_Scn *scn, const GElf_Shdr *h, buf *out)
{
    Elf_Data *data = elf_getdata(scn, NULL);
    Elf_Scn *text = elf_getscn(elf, h->sh_link);
    Elf_Data *names = text ? elf_getdata(text, NULL) : NULL;
    if (!data || !names || !names->d_buf || !h->sh_entsize) return true;
    size_t n = data->d_size / h->sh_entsize;
    for (size_t i = 0; i < n && i < INT_MAX; i++) {
        GElf_Sym s;
        if (gelf_getsym(data, (int)i, &s) && !take_symbol(out, &s, names)) return false;
    }
    return true;
}

static bool take_symbols(Elf *elf, buf *out)
{
    Elf_Scn *scn = NULL;
    while ((scn = elf_nextscn(elf, scn))) {
        GElf_Shdr h;
        if (!gelf_getshdr(scn, &h) || (h.sh_type != SHT_SYMTAB && h.sh_type != SHT_DYNSYM)) continue;
        if (!take_table(elf, scn, &h, out)) return false;
    }
    return true;
}

static int by_start(const void *a, const void *b)
{
    const elf__symbol *x = a, *y = b;
    if (x->start != y->start) return x->start < y->start ? -1 : 1;
    if (x->rank != y->rank) return x->rank > y->rank ? -1 : 1;
    if (x->size != y->size) return x->size > y->size ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int read_symbols(sym_elf *f, err *e)
{
    buf all;
    buf_init(&all, SYM_ELF_SYMBOLS_MAX * sizeof(elf__symbol));
    bool ok = take_symbols(f->file.elf, &all) && (!f->debug.elf || take_symbols(f->debug.elf, &all));
    if (ok && all.n) {
        f->n = all.n / sizeof *f->symbols;
        f->symbols = arena_dup(&f->a, all.p, all.n);
        ok = f->symbols != NULL;
    }
    buf_fini(&all);
    if (!ok) return err_set(e, ERR_LIMIT, "no room for the symbols of a file");
    if (f->n) qsort(f->symbols, f->n, sizeof *f->symbols, by_start);
    size_t kept = 0;
    for (size_t i = 0; i < f->n; i++) /* aliases: the best one comes first */
        if (!kept || f->symbols[kept - 1].start != f->symbols[i].start) f->symbols[kept++] = f->symbols[i];
    f->n = kept;
    return 0;
}

bool sym_elf_find(const sym_elf *f, uint64_t address, sym_native *out)
{
    size_t low = 0, high = f->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (f->symbols[mid].start <= address)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == 0) return false;
    const elf__symbol *s = &f->symbols[low - 1];
    uint64_t offset = address - s->start;
    uint64_t ignored;
    if (s->size ? offset >= s->size : !elf__loaded(f, address, &ignored)) return false;
    *out = (sym_native){s->name, s->start, s->size, offset};
    return true;
}

/* ---- segments ---- */

static int read_segments(sym_elf *f, err *e)
{
    size_t n = 0;
    if (elf_getphdrnum(f->file.elf, &n) != 0 || n > UINT16_MAX) n = 0;
    f->segments = arena_alloc(&f->a, n * sizeof *f->segments + 1);
    if (!f->segments) return err_set(e, ERR_NO_MEMORY, "no memory for %zu segments", n);
    for (size_t i = 0; i < n; i++) {
        GElf_Phdr h;
        if (gelf_getphdr(f->file.elf, (int)i, &h) && h.p_type == PT_LOAD)
            f->segments[f->n_segments++] = (elf__segment){h.p_offset, h.p_vaddr, h.p_filesz};
    }
    return 0;
}

bool elf__loaded(const sym_elf *f, uint64_t address, uint64_t *offset)
{
    for (size_t i = 0; i < f->n_segments; i++) {
        const elf__segment *s = &f->segments[i];
        if (address < s->address || address - s->address >= s->size) continue;
        *offset = address - s->address + s->offset;
        return true;
    }
    return false;
}

bool sym_elf_address(const sym_elf *f, uint64_t file_offset, uint64_t *address)
{
    for (size_t i = 0; i < f->n_segments; i++) {
        const elf__segment *s = &f->segments[i];
        if (file_offset < s->offset || file_offset - s->offset >= s->size) continue;
        *address = file_offset - s->offset + s->address;
        return true;
    }
    return false;
}

/* ---- build id and debug file ---- */

static size_t build_id_of(Elf *elf, uint8_t out[SYM_ELF_BUILD_ID_MAX])
{
    const void *id = NULL;
    ssize_t n = dwelf_elf_gnu_build_id(elf, &id);
    if (n <= 0 || n > SYM_ELF_BUILD_ID_MAX) return 0;
    memcpy(out, id, (size_t)n);
    return (size_t)n;
}

static bool crc_fits(const sym_input *in, uint32_t want)
{
    uint8_t block[CRC_BLOCK];
    uLong crc = crc32(0, NULL, 0);
    for (uint64_t at = 0; at < in->size;) {
        ssize_t n = pread(in->fd, block, sizeof block, (off_t)at);
        if (n <= 0) return false;
        crc = crc32(crc, block, (uInt)n);
        at += (uint64_t)n;
    }
    return (uint32_t)crc == want;
}

/* Takes the file at path if it is the debug file: of the same build id, or else of the checksum. */
static bool try_debug(sym_elf *f, const char *path, const uint32_t *crc)
{
    uint8_t id[SYM_ELF_BUILD_ID_MAX];
    err ignored = {0};
    elf__image i = {.in = {.fd = -1}};
    if (image_open(&i, path, &ignored) < 0) return false;
    bool same_file = i.in.dev == f->file.in.dev && i.in.ino == f->file.in.ino;
    size_t n = build_id_of(i.elf, id);
    bool same_id = n && n == f->id_size && memcmp(id, f->id, n) == 0;
    bool fits = !same_file && (same_id || (!(n && f->id_size) && crc && crc_fits(&i.in, *crc)));
    f->debug_file = fits ? arena_str(&f->a, slice_str(path)) : NULL;
    if (f->debug_file) {
        f->debug = i;
        return true;
    }
    image_close(&i);
    return false;
}

__attribute__((format(printf, 3, 4))) static bool try_at(sym_elf *f, const uint32_t *crc, const char *fmt, ...)
{
    char path[PATH_MAX];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(path, sizeof path, fmt, args);
    va_end(args);
    return n > 0 && (size_t)n < sizeof path && try_debug(f, path, crc);
}

/* What debuginfod's client has fetched before: by build id, below the folder that man debuginfod-find(1) names. Nothing
 * is fetched here. */
static bool try_below(sym_elf *f, const char *folder, const char *between, const char *hex)
{
    char path[PATH_MAX];
    if (!folder || !*folder) return false;
    int n = snprintf(path, sizeof path, "%s%s/%s/debuginfo", folder, between, hex);
    return n > 0 && (size_t)n < sizeof path && try_debug(f, path, NULL);
}

static bool try_cache(sym_elf *f, const char *hex)
{
    const char *own = getenv("DEBUGINFOD_CACHE_PATH");
    if (own && *own) return try_below(f, own, "", hex);
    return try_below(f, getenv("XDG_CACHE_HOME"), "/debuginfod_client", hex) ||
           try_below(f, getenv("HOME"), "/.cache/debuginfod_client", hex);
}

static void find_debug(sym_elf *f, const char *path, const char *root)
{
    GElf_Word crc = 0;
    char hex[2 * SYM_ELF_BUILD_ID_MAX + 1];
    for (size_t i = 0; i < f->id_size; i++)
        snprintf(hex + 2 * i, 3, "%02x", f->id[i]);
    if (f->id_size > 2 && try_at(f, NULL, "%s/.build-id/%.2s/%s.debug", root, hex, hex + 2)) return;
    if (f->id_size > 2 && try_cache(f, hex)) return;
    const char *link = dwelf_elf_gnu_debuglink(f->file.elf, &crc);
    if (!link || !*link || strnlen(link, LINK_MAX) == LINK_MAX || strchr(link, '/')) return;
    const char *slash = strrchr(path, '/');
    int dir = slash ? (int)(slash - path) + 1 : 0;
    if (try_at(f, &crc, "%.*s%s", dir, path, link) || try_at(f, &crc, "%.*s.debug/%s", dir, path, link)) return;
    if (*path == '/') try_at(f, &crc, "%s%.*s%s", root, dir, path, link);
}

/* ---- the whole ---- */

int sym_elf_open(const char *path, const char *debug_root, sym_elf **out, err *e)
{
    pthread_once(&elf_ready, start_elf);
    sym_elf *f = mem_calloc(1, sizeof *f);
    if (!f) return err_set(e, ERR_NO_MEMORY, "no memory for the symbols of %s", path);
    f->file.in.fd = f->debug.in.fd = -1;
    pthread_mutex_init(&f->lock, NULL);
    int rc = image_open(&f->file, path, e);
    if (rc == 0) {
        f->id_size = build_id_of(f->file.elf, f->id);
        find_debug(f, path, debug_root ? debug_root : DEBUG_ROOT);
        rc = read_segments(f, e);
    }
    if (rc == 0) rc = read_symbols(f, e);
    if (rc < 0) {
        sym_elf_close(f);
        return rc;
    }
    *out = f;
    return 0;
}

void sym_elf_close(sym_elf *f)
{
    if (!f) return;
    elf__dwarf_close(f);
    image_close(&f->debug);
    image_close(&f->file);
    arena_free(&f->a);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

slice sym_elf_build_id(const sym_elf *f) { return slice_of(f->id, f->id_size); }
const char *sym_elf_debug_file(const sym_elf *f) { return f->debug_file; }
size_t sym_elf_symbols(const sym_elf *f) { return f->n; }
