/* SPDX-License-Identifier: MIT */
/* kallsyms.c: functions only, in one array by address; names lie behind each other in one buffer. */
#include "symbols/kallsyms.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define READ_BYTES    (256u << 10)
#define FUNCTIONS_MAX (1u << 21)

typedef struct function {
    uint64_t address;
    uint32_t name; /* offset in names: NUL-terminated, then the module's, NUL-terminated */
    uint32_t order;
} function;

struct sym_kallsyms {
    buf functions, names;
    size_t n;
};

/* Hexadecimal digits up to a blank; false: none, or too many. */
static bool take_hex(slice *s, uint64_t *out)
{
    uint64_t v = 0;
    size_t i = 0;
    for (; i < s->n && i < 17; i++) {
        uint8_t c = s->p[i];
        unsigned digit = c >= '0' && c <= '9' ? c - (unsigned)'0' : c >= 'a' && c <= 'f' ? c - (unsigned)'a' + 10 : 16;
        if (digit == 16) break;
        v = v << 4 | digit;
    }
    if (i == 0 || i == 17 || i == s->n || s->p[i] != ' ') return false;
    *s = slice_of(s->p + i + 1, s->n - i - 1);
    *out = v;
    return true;
}

/* The end of a name: a blank, a tab, a NUL or the end of the line. */
static size_t word_end(slice s)
{
    size_t i = 0;
    while (i < s.n && s.p[i] != '\t' && s.p[i] != ' ' && s.p[i] != 0)
        i++;
    return i;
}

/* False: no memory or room. */
static bool take_line(sym_kallsyms *k, slice line)
{
    uint64_t address;
    if (!take_hex(&line, &address) || address == 0 || line.n < 3 || line.p[1] != ' ') return true;
    uint8_t type = line.p[0] | 0x20;
    if (type != 't' && type != 'w') return true;
    line = slice_of(line.p + 2, line.n - 2);
    slice name = slice_of(line.p, word_end(line)), module = {0};
    if (line.n > name.n + 2 && line.p[name.n] && line.p[name.n + 1] == '[' && line.p[line.n - 1] == ']')
        module = slice_of(line.p + name.n + 2, line.n - name.n - 3);
    if (name.n == 0) return true;
    function f = {.address = address, .name = (uint32_t)k->names.n, .order = (uint32_t)k->n};
    if (k->n == FUNCTIONS_MAX || !buf_put(&k->functions, &f, sizeof f)) return false;
    k->n++;
    return buf_slice(&k->names, name) && buf_u8(&k->names, 0) && buf_slice(&k->names, module) && buf_u8(&k->names, 0);
}

static int by_address(const void *a, const void *b)
{
    const function *x = a, *y = b;
    if (x->address != y->address) return x->address < y->address ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static sym_kallsyms *make(void)
{
    sym_kallsyms *k = mem_calloc(1, sizeof *k);
    if (!k) return NULL;
    buf_init(&k->functions, (size_t)FUNCTIONS_MAX * sizeof(function));
    buf_init(&k->names, SYM_KALLSYMS_NAMES_MAX);
    return k;
}

static void sort(sym_kallsyms *k)
{
    if (k->n) qsort(k->functions.p, k->n, sizeof(function), by_address);
}

/* Takes the whole lines of text and drops them from it. */
static bool take_lines(sym_kallsyms *k, buf *text, bool last)
{
    size_t at = 0;
    while (at < text->n) {
        const uint8_t *end = memchr(text->p + at, '\n', text->n - at);
        if (!end && !last) break;
        size_t n = end ? (size_t)(end - (text->p + at)) : text->n - at;
        if (!take_line(k, slice_of(text->p + at, n))) return false;
        at += n + (end != NULL);
    }
    buf_consume(text, at < text->n ? at : text->n);
    return true;
}

int sym_kallsyms_parse(slice text, sym_kallsyms **out, err *e)
{
    sym_kallsyms *k = make();
    buf all;
    buf_init(&all, 0);
    bool ok = k && buf_slice(&all, text) && take_lines(k, &all, true);
    buf_fini(&all);
    if (!ok) {
        sym_kallsyms_close(k);
        return err_set(e, ERR_NO_MEMORY, "no room for the names of the kernel");
    }
    sort(k);
    *out = k;
    return 0;
}

/* 0, or an errno; ENOMEM when names found no room. */
static int read_all(int fd, sym_kallsyms *k)
{
    buf text;
    buf_init(&text, SYM_KALLSYMS_MAX);
    int sys = 0;
    for (size_t total = 0; !sys;) {
        uint8_t *to = buf_reserve(&text, READ_BYTES);
        ssize_t n = to ? read(fd, to, READ_BYTES) : -1;
        if (!to || total > SYM_KALLSYMS_MAX) {
            sys = ENOMEM;
        } else if (n < 0) {
            sys = errno == EINTR ? 0 : errno;
        } else {
            text.n += (size_t)n;
            total += (size_t)n;
            if (!take_lines(k, &text, n == 0)) sys = ENOMEM;
            if (n == 0) break;
        }
    }
    buf_fini(&text);
    return sys;
}

int sym_kallsyms_open(const char *path, sym_kallsyms **out, err *e)
{
    if (!path) path = "/proc/kallsyms";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        int sys = errno;
        return err_sys(e, sys == ENOENT ? ERR_NOT_FOUND : ERR_PERMISSION_DENIED, sys, "cannot open %s", path);
    }
    sym_kallsyms *k = make();
    int sys = k ? read_all(fd, k) : ENOMEM;
    close(fd);
    if (sys || k->n == 0) {
        sym_kallsyms_close(k);
        if (sys) return err_sys(e, sys == ENOMEM ? ERR_NO_MEMORY : ERR_IO, sys, "cannot read %s", path);
        (void)err_set(e, ERR_PERMISSION_DENIED, "%s hides the addresses of the kernel's functions", path);
        err_hint(e, "docker run --cap-add SYSLOG …   # or: sudo sysctl -w kernel.kptr_restrict=1 and CAP_SYSLOG");
        return -ERR_PERMISSION_DENIED;
    }
    sort(k);
    *out = k;
    return 0;
}

void sym_kallsyms_close(sym_kallsyms *k)
{
    if (!k) return;
    buf_fini(&k->functions);
    buf_fini(&k->names);
    free(k);
}

size_t sym_kallsyms_count(const sym_kallsyms *k) { return k->n; }

bool sym_kallsyms_find(const sym_kallsyms *k, uint64_t address, slice *name, slice *module)
{
    const function *all = (const function *)(const void *)k->functions.p;
    size_t low = 0, high = k->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (all[mid].address <= address)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == 0 || !k->names.p) return false;
    while (low > 1 && all[low - 2].address == all[low - 1].address) /* aliases: the first of the file */
        low--;
    const char *text = (const char *)k->names.p + all[low - 1].name;
    *name = slice_str(text);
    *module = slice_str(text + name->n + 1);
    return true;
}

uint64_t sym_kallsyms_address(const sym_kallsyms *k, slice name)
{
    const function *all = (const function *)(const void *)k->functions.p;
    for (size_t i = 0; i < k->n; i++) {
        const char *text = (const char *)k->names.p + all[i].name;
        if (strncmp(text, (const char *)name.p, name.n) == 0 && text[name.n] == 0) return all[i].address;
    }
    return 0;
}
