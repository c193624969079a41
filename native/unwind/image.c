/* SPDX-License-Identifier: MIT */
/* image.c: what an ELF file tells about unwinding, read once and kept for all who meet the file again. Formats: System
 * V ABI (ELF64); LSB 5.0 (.eh_frame_hdr). A file is read, never mapped. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unwind/uw_internal.h"

enum { SECTIONS_MAX = 4096, NAME_BYTES_MAX = 1 << 16, NOTES_MAX = 1 << 16, HDR_MIN = 4 };

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

static bool read_at(const uw__source *s, uint64_t offset, void *out, size_t n)
{
    if (s->fd < 0) return s->memory->read(s->memory->arg, s->base + offset, out, n);
    for (size_t got = 0; got < n;) {
        ssize_t k = pread(s->fd, (uint8_t *)out + got, n - got, (off_t)(offset + got));
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return false;
        got += (size_t)k;
    }
    return true;
}

/* Bytes at an address of the image: in a file by its segments, in memory as they lie there. */
static bool read_address(const uw__source *s, const uw__image *i, uint64_t address, void *out, size_t n)
{
    if (s->fd < 0)
        return i->n_segments && read_at(s, address - (i->segments[0].address - i->segments[0].offset), out, n);
    for (uint32_t k = 0; k < i->n_segments; k++) {
        const uw__segment *g = &i->segments[k];
        if (address >= g->address && address - g->address < g->size && n <= g->size - (address - g->address))
            return read_at(s, g->offset + (address - g->address), out, n);
    }
    return false;
}

/* How many bytes of the file follow an address in its segment. */
static uint64_t bytes_behind(const uw__image *i, uint64_t address)
{
    for (uint32_t k = 0; k < i->n_segments; k++) {
        const uw__segment *g = &i->segments[k];
        if (address >= g->address && address - g->address < g->size) return g->size - (address - g->address);
    }
    return 0;
}

static bool load_section(const uw__source *s, uw__section *out, uint64_t offset, uint64_t address, uint64_t n)
{
    if (n == 0 || n > UW__IMAGE_MAX || out->p) return false;
    out->p = mem_alloc((size_t)n);
    if (!out->p || !read_at(s, offset, out->p, (size_t)n)) {
        free(out->p);
        out->p = NULL;
        return false;
    }
    out->n = (size_t)n;
    out->address = address;
    return true;
}

/* ---- parts of the file ------------------------------------------------------------------------------------------- */

static void read_build_id(const uw__source *s, uw__image *i, const Elf64_Phdr *h)
{
    uint64_t n = h->p_filesz < NOTES_MAX ? h->p_filesz : NOTES_MAX;
    uint8_t *p = n ? mem_alloc((size_t)n) : NULL;
    if (p && read_address(s, i, h->p_vaddr, p, (size_t)n)) {
        cursor c = cursor_of(slice_of(p, (size_t)n), 0);
        while (cursor_left(&c) >= 12 && !i->build_id_n) {
            uint32_t name_n = cursor_u32(&c), desc_n = cursor_u32(&c), type = cursor_u32(&c);
            slice name = cursor_bytes(&c, ((size_t)name_n + 3) & ~(size_t)3);
            slice desc = cursor_bytes(&c, ((size_t)desc_n + 3) & ~(size_t)3);
            if (!cursor_ok(&c)) break;
            if (type != NT_GNU_BUILD_ID || name_n != 4 || !name.p || !desc.p || memcmp(name.p, "GNU", 4) != 0) continue;
            i->build_id_n = desc_n < UW__BUILD_ID_MAX ? desc_n : UW__BUILD_ID_MAX;
            if (i->build_id_n) memcpy(i->build_id, desc.p, i->build_id_n);
        }
    }
    free(p);
}

/* Loads and notes. *hdr: where .eh_frame_hdr lies, 0: there is none. */
static bool read_segments(const uw__source *s, const Elf64_Ehdr *eh, uw__image *i, Elf64_Phdr *hdr)
{
    Elf64_Phdr h, notes[4];
    uint32_t n_notes = 0;
    *hdr = (Elf64_Phdr){0};
    if (eh->e_phentsize != sizeof h || eh->e_phnum > 1024) return false;
    for (unsigned k = 0; k < eh->e_phnum; k++) {
        if (!read_at(s, eh->e_phoff + k * sizeof h, &h, sizeof h)) return false;
        if (h.p_type == PT_LOAD && i->n_segments < UW__SEGMENTS_MAX)
            i->segments[i->n_segments++] = (uw__segment){h.p_offset, h.p_vaddr, h.p_filesz, (h.p_flags & PF_X) != 0};
        else if (h.p_type == PT_GNU_EH_FRAME)
            *hdr = h;
        else if (h.p_type == PT_NOTE && n_notes < 4)
            notes[n_notes++] = h;
    }
    for (uint32_t k = 0; k < n_notes && !i->build_id_n; k++)
        read_build_id(s, i, &notes[k]);
    return i->n_segments > 0;
}

/* Sections by name, where the file has a table of them. */
static void read_sections(const uw__source *s, const Elf64_Ehdr *eh, uw__image *i)
{
    if (s->fd < 0 || eh->e_shentsize != sizeof(Elf64_Shdr) || eh->e_shnum == 0 || eh->e_shnum > SECTIONS_MAX) return;
    size_t n = eh->e_shnum;
    Elf64_Shdr *all = mem_alloc(n * sizeof *all);
    char *names = NULL;
    if (!all || !read_at(s, eh->e_shoff, all, n * sizeof *all) || eh->e_shstrndx >= n) goto out;
    const Elf64_Shdr *t = &all[eh->e_shstrndx];
    if (t->sh_size == 0 || t->sh_size > NAME_BYTES_MAX) goto out;
    names = mem_alloc((size_t)t->sh_size + 1);
    if (!names || !read_at(s, t->sh_offset, names, (size_t)t->sh_size)) goto out;
    names[t->sh_size] = 0;
    for (size_t k = 0; k < n; k++) {
        const Elf64_Shdr *h = &all[k];
        if (h->sh_name >= t->sh_size || h->sh_type == SHT_NOBITS || h->sh_flags & SHF_COMPRESSED) continue;
        if (strcmp(names + h->sh_name, ".eh_frame") == 0)
            (void)load_section(s, &i->eh, h->sh_offset, h->sh_addr, h->sh_size);
        else if (strcmp(names + h->sh_name, ".debug_frame") == 0)
            (void)load_section(s, &i->debug, h->sh_offset, 0, h->sh_size);
    }
out:
    free(names);
    free(all);
}

/* The table of .eh_frame_hdr, and .eh_frame itself where no section told it. True: the table is complete. */
static bool read_hdr(const uw__source *s, uw__image *i, const Elf64_Phdr *h, buf *fdes)
{
    uint64_t n = h->p_memsz;
    uint8_t *p = n >= HDR_MIN && n <= UW__IMAGE_MAX ? mem_alloc((size_t)n) : NULL;
    bool ok = p && read_address(s, i, h->p_vaddr, p, (size_t)n);
    cursor c = cursor_of(slice_of(p, ok ? (size_t)n : 0), 0);
    uint8_t version = cursor_u8(&c), frame = cursor_u8(&c), count = cursor_u8(&c), table = cursor_u8(&c);
    uint64_t eh = uw__cfi_pointer(&c, frame, h->p_vaddr, h->p_vaddr), rows = 0;
    if (cursor_ok(&c) && version == 1) rows = uw__cfi_pointer(&c, count, h->p_vaddr, h->p_vaddr);
    ok = ok && cursor_ok(&c) && version == 1 && eh;
    if (ok && !i->eh.p) {
        uint64_t size = bytes_behind(i, eh);
        if (size && size <= UW__IMAGE_MAX && (i->eh.p = mem_alloc((size_t)size))) {
            i->eh.n = (size_t)size;
            i->eh.address = eh;
            if (!read_address(s, i, eh, i->eh.p, i->eh.n)) i->eh.n = 0;
        }
    }
    ok = ok && table == 0x3b && rows <= UW__FDES_MAX && rows * 8 <= cursor_left(&c); /* datarel, sdata4 */
    for (uint64_t k = 0; ok && k < rows; k++) {
        uint64_t pc = h->p_vaddr + (uint64_t)(int64_t)cursor_i32(&c);
        uint64_t at = h->p_vaddr + (uint64_t)(int64_t)cursor_i32(&c) - i->eh.address;
        uw__fde row = {.pc = pc, .at = (uint32_t)at};
        if (at < i->eh.n && at <= UINT32_MAX) ok = buf_put(fdes, &row, sizeof row);
    }
    free(p);
    return ok && fdes->n > 0;
}

static int by_pc(const void *a, const void *b)
{
    const uw__fde *x = a, *y = b;
    if (x->pc != y->pc) return x->pc < y->pc ? -1 : 1;
    return x->debug != y->debug ? (x->debug < y->debug ? -1 : 1) : 0;
}

static bool take_fdes(uw__image *i, const buf *fdes)
{
    i->n_fdes = (uint32_t)(fdes->n / sizeof *i->fdes);
    i->fdes = i->n_fdes ? mem_alloc(fdes->n) : NULL;
    if (i->n_fdes && !i->fdes) return false;
    bool sorted = true;
    if (i->n_fdes) memcpy(i->fdes, fdes->p, fdes->n);
    for (uint32_t k = 1; sorted && k < i->n_fdes; k++)
        sorted = i->fdes[k - 1].pc <= i->fdes[k].pc;
    if (!sorted) qsort(i->fdes, i->n_fdes, sizeof *i->fdes, by_pc);
    return true;
}

uw__image *uw__image_read(const uw__source *s, err *e)
{
    Elf64_Ehdr eh;
    Elf64_Phdr hdr;
    uw__image *i = mem_calloc(1, sizeof *i);
    buf fdes;
    if (!i) {
        (void)err_set(e, ERR_NO_MEMORY, "no memory for a file's unwind information");
        return NULL;
    }
    buf_init(&fdes, 0);
    i->refs = 1;
    i->rows.max = UW__ROWS_MAX;
    pthread_mutex_init(&i->lock, NULL);
    bool ok = read_at(s, 0, &eh, sizeof eh) && memcmp(eh.e_ident, ELFMAG, SELFMAG) == 0 &&
              eh.e_ident[EI_CLASS] == ELFCLASS64 && eh.e_ident[EI_DATA] == ELFDATA2LSB && eh.e_machine == EM_X86_64;
    if (!ok) (void)err_set(e, ERR_MALFORMED, "no ELF file of x86-64");
    if (ok && !(ok = read_segments(s, &eh, i, &hdr))) (void)err_set(e, ERR_MALFORMED, "an ELF file without segments");
    if (ok) {
        read_sections(s, &eh, i);
        bool table = hdr.p_vaddr && read_hdr(s, i, &hdr, &fdes);
        if (!table) {
            buf_reset(&fdes);
            ok = !i->eh.n || uw__cfi_list(&i->eh, false, &fdes);
        }
        if (ok && i->debug.n) ok = uw__cfi_list(&i->debug, true, &fdes);
        ok = ok && take_fdes(i, &fdes);
        if (!ok) (void)err_set(e, ERR_NO_MEMORY, "no memory for a file's unwind information");
    }
    buf_fini(&fdes);
    if (ok) return i;
    uw__image_free(i);
    return NULL;
}

void uw__image_free(uw__image *i)
{
    if (!i) return;
    free(i->eh.p);
    free(i->debug.p);
    free(i->fdes);
    arena_free(&i->rows);
    map64_fini(&i->by_pc);
    pthread_mutex_destroy(&i->lock);
    free(i);
}

size_t uw__image_bytes(const uw__image *i)
{
    return sizeof *i + i->eh.n + i->debug.n + i->n_fdes * sizeof *i->fdes + i->rows.used +
           i->by_pc.cap * 2 * sizeof(uint64_t);
}

bool uw__image_address(const uw__image *i, uint64_t offset, uint64_t *address)
{
    enum { PAGE = 4096 }; /* a map begins on a page, a segment need not */
    for (uint32_t k = 0; k < i->n_segments; k++) {
        const uw__segment *g = &i->segments[k];
        uint64_t from = g->offset & ~(uint64_t)(PAGE - 1);
        if (!g->executable || offset < from || offset >= g->offset + g->size) continue;
        *address = offset - g->offset + g->address;
        return true;
    }
    return false;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static const uw__row nothing = {.missing = true};

static bool is_saved(uint32_t reg)
{
    for (uint32_t k = 0; k < UW__ROW_SAVED; k++)
        if (uw__saved[k] == reg) return true;
    return false;
}

/* A row that says the same as the rules; false: they need all of it. */
static bool compact(const uw__rules *r, uw__row *out)
{
    if (r->cfa_is_expr || r->ra != UW_RIP || r->cfa_offset > INT32_MAX || r->cfa_offset < -INT32_MAX) return false;
    *out = (uw__row){.cfa_reg = r->cfa_reg, .cfa_offset = (int32_t)r->cfa_offset, .signal = r->signal};
    for (uint32_t k = 0; k < UW_REGS; k++)
        if (!is_saved(k) && r->reg[k].kind != UW__SAME && r->reg[k].kind != UW__UNDEFINED) return false;
    for (uint32_t k = 0; k < UW__ROW_SAVED; k++) {
        const uw__rule *x = &r->reg[uw__saved[k]];
        if (x->kind == UW__SAME)
            out->at[k] = UW__SAME_AS;
        else if (x->kind == UW__UNDEFINED)
            out->at[k] = UW__LOST;
        else if (x->kind == UW__OFFSET && x->offset > UW__LOST && x->offset <= INT32_MAX)
            out->at[k] = (int32_t)x->offset;
        else
            return false;
    }
    return true;
}

/* The rules of an address: the last FDE that begins at or before it, or, of several at one place, one that holds it. */
static bool rules_of(const uw__image *i, uint64_t address, uw__rules *out)
{
    uint32_t low = 0, high = i->n_fdes;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (i->fdes[mid].pc <= address)
            low = mid + 1;
        else
            high = mid;
    }
    for (uint32_t k = low; k > 0 && k + 4 > low; k--) {
        const uw__fde *f = &i->fdes[k - 1];
        if (uw__cfi_rules(f->debug ? &i->debug : &i->eh, f->debug, f->at, address, out)) return true;
    }
    return false;
}

const uw__row *uw__image_row(uw__image *i, uint64_t address)
{
    uint64_t at;
    pthread_mutex_lock(&i->lock);
    const uw__row *row = map64_get(&i->by_pc, address, &at) ? (const uw__row *)(uintptr_t)at : NULL;
    uw__rules rules = {0};
    if (!row && i->n_fdes) {
        uw__row made = nothing;
        bool found = rules_of(i, address, &rules);
        uw__rules *full = NULL;
        if (found && !compact(&rules, &made)) {
            full = arena_dup(&i->rows, &rules, sizeof rules);
            made = (uw__row){.full = full, .signal = rules.signal, .missing = !full};
        }
        row = arena_dup(&i->rows, &made, sizeof made);
        if (row) (void)map64_put(&i->by_pc, address, (uintptr_t)row);
    }
    pthread_mutex_unlock(&i->lock);
    return row ? row : &nothing;
}

/* ---- the store --------------------------------------------------------------------------------------------------- */

static pthread_mutex_t store_lock = PTHREAD_MUTEX_INITIALIZER;
static uw__image *store;
static uint64_t store_clock;
#define STORE_MAX_BYTES ((size_t)128 << 20) /* of images that nobody uses */

static void trim(size_t max)
{
    for (;;) {
        size_t idle = 0;
        uw__image **oldest = NULL;
        for (uw__image **p = &store; *p; p = &(*p)->next) {
            if ((*p)->refs) continue;
            idle += uw__image_bytes(*p);
            if (!oldest || (*p)->used < (*oldest)->used) oldest = p;
        }
        if (!oldest || (max > 0 && idle <= max)) return;
        uw__image *gone = *oldest;
        *oldest = gone->next;
        uw__image_free(gone);
    }
}

void uw_trim(size_t max_bytes)
{
    pthread_mutex_lock(&store_lock);
    trim(max_bytes);
    pthread_mutex_unlock(&store_lock);
}

static uw__image *find(const struct stat *st)
{
    int64_t mtime = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
    for (uw__image *i = store; i; i = i->next)
        if (i->dev == st->st_dev && i->ino == st->st_ino && i->mtime_ns == mtime && i->size == st->st_size) {
            i->refs++;
            i->used = ++store_clock;
            return i;
        }
    return NULL;
}

uw__image *uw__image_take(const char *path, err *e)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        int sys = fd < 0 ? errno : EINVAL;
        if (fd >= 0) close(fd);
        (void)err_sys(e, sys == EACCES ? ERR_PERMISSION_DENIED : ERR_NOT_FOUND, sys, "cannot read %s", path);
        return NULL;
    }
    pthread_mutex_lock(&store_lock); /* held while reading: two who meet a file at once read it once */
    uw__image *i = find(&st);
    if (!i && (i = uw__image_read(&(uw__source){.fd = fd}, e))) {
        i->dev = st.st_dev;
        i->ino = st.st_ino;
        i->mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
        i->size = st.st_size;
        i->stored = true;
        i->used = ++store_clock;
        i->next = store;
        store = i;
    }
    pthread_mutex_unlock(&store_lock);
    close(fd);
    return i;
}

void uw__image_give(uw__image *i)
{
    if (!i) return;
    if (!i->stored) {
        uw__image_free(i);
        return;
    }
    pthread_mutex_lock(&store_lock);
    i->refs--;
    trim(STORE_MAX_BYTES);
    pthread_mutex_unlock(&store_lock);
}
