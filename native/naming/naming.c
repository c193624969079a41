/* SPDX-License-Identifier: MIT */
/* naming.c: see naming.h. Files are opened at their first address and stay open. */
#include "naming/naming.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "naming/naming_internal.h"
#include "symbols/demangle.h"
#include "symbols/elf.h"
#include "symbols/kallsyms.h"

enum { PATH_BYTES = 4096, VDSO_BYTES_MAX = 64 * 1024 };

typedef struct file {
    sym_elf *elf; /* NULL: it could not be opened */
    slice name;   /* its last part */
    bool tried;
} file;

typedef struct memo {
    uint64_t ip;
    naming_name name;
} memo;

struct naming {
    uw_space *space;
    int pid;
    sym_kallsyms *kernel;
    clr_methods *methods;
    naming__jit *jit;
    file *files; /* by uw_module.index */
    uint32_t n_files;
    memo *memos;
    size_t n_memos, cap_memos;
    map64 by_ip;          /* ip -> index of its memo */
    map64 by_kernel_name; /* hash -> address */
    arena text;
    buf scratch;
    naming_stats stats;
};

naming *naming_new(uw_space *space, int pid)
{
    naming *n = mem_calloc(1, sizeof *n);
    if (!n) return NULL;
    n->space = space;
    n->pid = pid;
    n->text.max = NAMING_TEXT_MAX;
    buf_init(&n->scratch, 0);
    return n;
}

void naming_free(naming *n)
{
    if (!n) return;
    for (uint32_t i = 0; i < n->n_files; i++)
        sym_elf_close(n->files[i].elf);
    free(n->files);
    free(n->memos);
    map64_fini(&n->by_ip);
    map64_fini(&n->by_kernel_name);
    sym_kallsyms_close(n->kernel);
    naming__jit_free(n->jit);
    buf_fini(&n->scratch);
    arena_free(&n->text);
    free(n);
}

int naming_kernel(naming *n, err *e)
{
    if (n->kernel) return 0;
    int rc = sym_kallsyms_open(NULL, &n->kernel, e);
    n->stats.kernel = rc == 0;
    return rc;
}

uint64_t naming_kernel_address(naming *n, slice name)
{
    uint64_t key = hash_bytes(name, 0), address = 0;
    if (!n->kernel || name.n == 0) return 0;
    if (map64_get(&n->by_kernel_name, key, &address)) return address;
    address = sym_kallsyms_address(n->kernel, name);
    (void)map64_put(&n->by_kernel_name, key, address);
    return address;
}

static void forget(naming *n)
{
    map64_clear(&n->by_ip);
    n->n_memos = 0;
}

void naming_methods(naming *n, clr_methods *m)
{
    n->methods = m;
    n->stats.methods = m != NULL;
    forget(n);
}

bool naming_jit_map(naming *n)
{
    if (n->jit) return true;
    n->jit = naming__jit_open(n->pid);
    if (!n->jit) return false;
    n->stats.jit_functions = naming__jit_count(n->jit);
    forget(n);
    return true;
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static slice keep(naming *n, slice s)
{
    const char *copy = arena_str(&n->text, s);
    return copy ? slice_of(copy, s.n) : SLICE_LIT("");
}

static slice last_part(slice path)
{
    size_t i = path.n;
    while (i && path.p[i - 1] != '/')
        i--;
    return slice_of(path.p + i, path.n - i);
}

__attribute__((format(printf, 2, 3))) static slice print(naming *n, const char *fmt, ...)
{
    char text[192];
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (len < 0) return SLICE_LIT("");
    return keep(n, slice_of(text, (size_t)len < sizeof text ? (size_t)len : sizeof text - 1));
}

/* ---- sources ----------------------------------------------------------------------------------------------------- */

static bool in_kernel(naming *n, uint64_t ip, naming_name *out)
{
    slice name, module;
    *out = (naming_name){.kind = NAMING_KERNEL, .module = SLICE_LIT("[kernel]")};
    if (n->kernel && sym_kallsyms_find(n->kernel, ip, &name, &module)) {
        const uint8_t *dot = memchr(name.p, '.', name.n); /* what the compiler made of it: ".constprop.0", ".isra.0" */
        out->method = dot && dot > name.p ? slice_of(name.p, (size_t)(dot - name.p)) : name;
        out->symbol = true;
        if (module.n) out->module = module;
        return true;
    }
    out->method = print(n, "0x%llx", (unsigned long long)ip);
    return true;
}

static bool managed(naming *n, uint64_t ip, int64_t time, naming_name *out)
{
    clr_method m;
    if (!n->methods || !clr_methods_find(n->methods, ip, time, &m)) return false;
    buf_reset(&n->scratch);
    if (!clr_method_name(&m, &n->scratch)) return false;
    *out = (naming_name){.kind = NAMING_MANAGED,
                         .module = m.module.n ? m.module : SLICE_LIT("?"),
                         .method = keep(n, buf_view(&n->scratch)),
                         .symbol = true,
                         .by_time = clr_methods_reused(n->methods, ip),
                         .managed = m};
    return true;
}

/* The vDSO is in no file. The kernel gives every process the same, so ours is read. size: of the process's map of it.
 */
static sym_elf *vdso_elf(uint64_t size)
{
    int self = (int)getpid();
    char path[64];
    err ignored = {0};
    sym_elf *elf = NULL;
    uint64_t base = getauxval(AT_SYSINFO_EHDR);
    uint8_t *image = base && size && size <= VDSO_BYTES_MAX ? mem_alloc(size) : NULL;
    int fd = image ? memfd_create("lunette-vdso", MFD_CLOEXEC) : -1;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (fd >= 0 && uw_read_process((void *)(intptr_t)self, base, image, size) &&
        write(fd, image, size) == (ssize_t)size)
        (void)sym_elf_open(path, NULL, &elf, &ignored);
    if (fd >= 0) close(fd);
    free(image);
    return elf;
}

static file *file_of(naming *n, const uw_module *m)
{
    if (m->index >= NAMING_FILES_MAX) return NULL;
    if (m->index >= n->n_files) {
        uint32_t to = m->index + 16;
        file *grown = mem_realloc(n->files, to * sizeof *grown);
        if (!grown) return NULL;
        memset(grown + n->n_files, 0, (to - n->n_files) * sizeof *grown);
        n->files = grown;
        n->n_files = to;
    }
    file *f = &n->files[m->index];
    if (f->tried) return f;
    f->tried = true;
    f->name = keep(n, last_part(m->path));
    char path[PATH_BYTES];
    err ignored = {0};
    int len = snprintf(path, sizeof path, "%.*s", (int)m->path.n, (const char *)m->path.p);
    if (!m->is_file)
        f->elf = vdso_elf(m->end - m->start);
    else if (m->open || (len > 0 && (size_t)len < sizeof path))
        (void)sym_elf_open(m->open ? m->open : path, NULL, &f->elf, &ignored);
    if (f->elf) n->stats.files++;
    if (!f->elf) n->stats.files_bad++;
    return f;
}

static bool native(naming *n, uint64_t ip, naming_name *out)
{
    uw_module m;
    if (!n->space || !uw_space_find(n->space, ip, &m) || (!m.is_file && m.path.n == 0)) return false;
    if (!m.is_file && m.path.p[0] != '[') return false;
    file *f = m.is_file || slice_eq_str(m.path, "[vdso]") ? file_of(n, &m) : NULL;
    uint64_t offset = ip - m.start + m.file_offset, at;
    sym_native s;
    *out = (naming_name){.kind = NAMING_NATIVE, .module = f ? f->name : keep(n, m.path)};
    if (f && f->elf && sym_elf_address(f->elf, offset, &at) && sym_elf_find(f->elf, at, &s)) {
        buf_reset(&n->scratch);
        (void)sym_demangle(s.name, &n->scratch);
        out->method = keep(n, buf_view(&n->scratch));
        out->symbol = true;
        return true;
    }
    out->method = print(n, "%.*s+0x%llx", (int)(out->module.n > 128 ? 128 : out->module.n), (const char *)out->module.p,
                        (unsigned long long)offset);
    return true;
}

static bool jitted(naming *n, uint64_t ip, naming_name *out)
{
    slice name;
    if (!n->jit || !naming__jit_find(n->jit, ip, &name)) return false;
    *out = (naming_name){.kind = NAMING_JIT, .module = SLICE_LIT("[jit]"), .method = name, .symbol = true};
    return true;
}

static void look(naming *n, uint64_t ip, int64_t time, naming_name *out)
{
    if (ip >= SYM_KERNEL_SPACE ? in_kernel(n, ip, out)
                               : managed(n, ip, time, out) || native(n, ip, out) || jitted(n, ip, out))
        return;
    *out = (naming_name){
        .kind = NAMING_UNKNOWN, .module = SLICE_LIT("?"), .method = print(n, "0x%llx", (unsigned long long)ip)};
}

static void remember(naming *n, uint64_t ip, const naming_name *name)
{
    if (n->n_memos == NAMING_MEMO_MAX) return;
    if (n->n_memos == n->cap_memos) {
        size_t to = n->cap_memos ? n->cap_memos * 2 : 256;
        memo *grown = mem_realloc(n->memos, to * sizeof *grown);
        if (!grown) return;
        n->memos = grown;
        n->cap_memos = to;
    }
    if (!map64_put(&n->by_ip, ip, n->n_memos)) return;
    n->memos[n->n_memos++] = (memo){ip, *name};
}

bool naming_find(naming *n, uint64_t ip, int64_t time, naming_name *out)
{
    uint64_t i;
    if (map64_get(&n->by_ip, ip, &i)) {
        *out = n->memos[i].name;
    } else {
        look(n, ip, time, out);
        if (!out->by_time) remember(n, ip, out);
    }
    return out->kind != NAMING_UNKNOWN;
}

void naming_stats_of(const naming *n, naming_stats *out) { *out = n->stats; }
