/* SPDX-License-Identifier: MIT */
/* gcdump_file.c: the .gcdump files of dotnet-gcdump and PerfView. A file is one object, GCHeapDump, that holds another,
 * Graphs.MemoryGraph: names of types, of each node where it lies in one block of bytes, that block, and addresses. A
 * node is numbers of 7 bits a byte, high ones first: type * 2 (+ 1: its size comes next), how many it refers to, and
 * those as differences to its own number. Nodes without an address stand for groups of roots. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "memory/gcdump.h"

#define TAG_NULL      1
#define TAG_BEGIN     4
#define TAG_BEGIN_OWN 5
#define TAG_END       6
#define TAG_BYTE      8
#define TAG_STRING    13
#define MAGIC         "!FastSerialization.1"
#define TICKS_TO_1970 INT64_C(621355968000000000)
#define TICKS_A_MS    10000
#define NO_ADDRESS    (UINT64_C(1) << 63) /* added to the number of an object whose address is not told */

typedef struct file_type {
    slice name, module; /* borrowed from the file */
    int32_t size;
    uint32_t type; /* of the builder; GRAPH_NONE: none yet */
} file_type;

typedef struct reader {
    cursor c;
    gcdump_file_info *info;
    graph_builder *b;
    file_type *types;
    uint32_t n_types, n_nodes, root;
    slice labels, blob, addresses;
    strtab *keys; /* name and module of each type, as one text */
    err *e;
} reader;

typedef struct node {
    uint32_t type, n;
    int32_t size;
    cursor targets;
} node;

static int broken(reader *r, const char *what)
{
    return err_at(r->e, r->c.fail_at >= 0 ? ERR_TRUNCATED : ERR_MALFORMED, cursor_offset(&r->c), "a .gcdump file: %s",
                  what);
}

/* ---- the form around it ------------------------------------------------------------------------------------------ */

/* -1 for none. What it holds is UTF-8, or one byte a character. */
static slice text(cursor *c)
{
    int32_t n = cursor_i32(c);
    return n > 0 ? cursor_bytes(c, (size_t)n) : (slice){0};
}

/* The beginning of an object: the name of its type, and the least version of a reader. */
static int begin(reader *r, const char *name, int32_t *least)
{
    uint8_t tag = cursor_u8(&r->c);
    if (tag != TAG_BEGIN && tag != TAG_BEGIN_OWN) return broken(r, "an object was to begin here");
    tag = cursor_u8(&r->c);
    if (tag != TAG_BEGIN && tag != TAG_BEGIN_OWN) return broken(r, "an object has no type");
    if (cursor_u8(&r->c) != TAG_NULL) return broken(r, "a type that is described itself");
    int32_t version = cursor_i32(&r->c);
    *least = cursor_i32(&r->c);
    slice is = text(&r->c);
    if (cursor_u8(&r->c) != TAG_END || !cursor_ok(&r->c)) return broken(r, "the description of a type does not end");
    if (!slice_eq_str(is, name)) return broken(r, "not what dotnet-gcdump writes");
    return version;
}

static int read_types(reader *r)
{
    uint32_t n = cursor_u32(&r->c);
    if (!cursor_ok(&r->c) || n > cursor_left(&r->c) / 12) return broken(r, "more types than there is room for");
    r->types = mem_calloc(n + UINT64_C(1), sizeof *r->types);
    if (!r->types) return err_set(r->e, ERR_NO_MEMORY, "no memory for %u types", n);
    for (uint32_t i = 0; i < n; i++) {
        slice name = text(&r->c);
        int32_t size = cursor_i32(&r->c);
        slice module = text(&r->c);
        r->types[i] = (file_type){.name = name, .module = module, .size = size, .type = GRAPH_NONE};
    }
    r->n_types = n;
    return cursor_ok(&r->c) ? 0 : broken(r, "it ends among its types");
}

static int read_graph(reader *r)
{
    int32_t least;
    int rc = begin(r, "Graphs.MemoryGraph", &least);
    if (rc < 0) return rc;
    if (least > 0) return err_set(r->e, ERR_NOT_SUPPORTED, "a .gcdump file whose types have no names yet");
    r->info->bytes = cursor_u64(&r->c);
    r->root = cursor_u32(&r->c);
    rc = read_types(r);
    if (rc < 0) return rc;
    r->n_nodes = cursor_u32(&r->c);
    r->labels = cursor_bytes(&r->c, (size_t)r->n_nodes * 4);
    r->blob = cursor_bytes(&r->c, cursor_u32(&r->c));
    uint32_t n = cursor_u32(&r->c);
    r->addresses = cursor_bytes(&r->c, (size_t)n * 8);
    if (!cursor_ok(&r->c)) return broken(r, "it ends among its objects");
    if (n != r->n_nodes || r->root >= r->n_nodes) return broken(r, "its objects do not fit one another");
    r->info->nodes = n;
    uint8_t tag = cursor_u8(&r->c);
    if (tag == TAG_BYTE) {
        cursor_skip(&r->c, 1); /* 64 bits or not */
        tag = cursor_u8(&r->c);
    }
    return tag == TAG_END && cursor_ok(&r->c) ? 0 : broken(r, "its graph does not end");
}

static void keep(char *out, size_t cap, slice s)
{
    size_t n = s.n < cap - 1 ? s.n : cap - 1;
    if (n) memcpy(out, s.p, n);
    out[n] = 0;
}

/* What comes behind the graph is a courtesy: where it can't be read, it is unknown. */
static void read_rest(reader *r)
{
    cursor *c = &r->c;
    gcdump_file_info *i = r->info;
    cursor_skip(c, 1);
    float counts = cursor_f32(c), sizes = cursor_f32(c);
    i->sampled = cursor_ok(c) && (counts > 1 || sizes > 1);
    uint8_t other = cursor_u8(c), segments = cursor_u8(c); /* of other runtimes' heaps; of this one's */
    if (other != TAG_NULL || segments != TAG_NULL) return;
    (void)text(c);
    int64_t ticks = cursor_i64(c);
    slice machine = text(c), process = text(c);
    int32_t pid = cursor_i32(c);
    cursor_skip(c, 16);
    uint32_t factors = cursor_u32(c);
    if (!cursor_ok(c)) return;
    keep(i->machine_name, sizeof i->machine_name, machine);
    keep(i->process_name, sizeof i->process_name, process);
    i->pid = pid > 0 ? pid : 0;
    if (ticks > TICKS_TO_1970) i->unix_ms = (ticks - TICKS_TO_1970) / TICKS_A_MS;
    i->sampled = i->sampled || factors > 0;
    cursor_skip(c, (size_t)factors * 4);
    if (cursor_u8(c) != TAG_NULL) return;
    if (cursor_u8(c) == TAG_STRING) keep(i->tool, sizeof i->tool, text(c));
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

static int32_t number(cursor *c)
{
    uint8_t b = cursor_u8(c);
    uint32_t v = (uint32_t)((int32_t)((uint32_t)b << 25) >> 25); /* seven bits with their sign */
    for (int i = 0; b & 0x80 && i < 4; i++) {
        b = cursor_u8(c);
        v = v << 7 | (b & 0x7F);
    }
    return (int32_t)v;
}

static uint32_t label_of(const reader *r, uint32_t i)
{
    uint32_t v;
    memcpy(&v, r->labels.p + (size_t)i * 4, sizeof v);
    return v;
}

static uint64_t told_address(const reader *r, uint32_t i)
{
    uint64_t v;
    memcpy(&v, r->addresses.p + (size_t)i * 8, sizeof v);
    return v;
}

static int read_node(reader *r, uint32_t i, node *out)
{
    uint32_t label = label_of(r, i);
    if (label >= r->blob.n) return err_set(r->e, ERR_MALFORMED, "a .gcdump file: object %u is nowhere", i);
    cursor c = cursor_of(slice_of(r->blob.p + label, r->blob.n - label), r->blob.p - r->c.start + (int64_t)label);
    uint32_t what = (uint32_t)number(&c);
    *out = (node){.type = what >> 1};
    if (out->type < r->n_types) out->size = what & 1 ? number(&c) : r->types[out->type].size;
    out->n = (uint32_t)number(&c);
    out->targets = c;
    if (!cursor_ok(&c) || out->type >= r->n_types || out->n > cursor_left(&c))
        return err_at(r->e, ERR_MALFORMED, cursor_offset(&c), "a .gcdump file: object %u is cut short", i);
    return 0;
}

/* GRAPH_NONE: to nowhere. */
static uint32_t next_target(reader *r, uint32_t i, node *n)
{
    uint32_t to = i + (uint32_t)number(&n->targets);
    return to < r->n_nodes ? to : GRAPH_NONE;
}

/* One that groups roots: "[static vars]". */
static bool is_group(const reader *r, uint32_t i, const node *n)
{
    slice name = r->types[n->type].name;
    return told_address(r, i) == 0 && name.n && name.p[0] == '[';
}

static bool is_undefined(const reader *r, const node *n)
{
    return n->type == 0 && slice_eq_str(r->types[0].name, "UNDEFINED");
}

static uint64_t address_of(const reader *r, uint32_t i)
{
    uint64_t at = told_address(r, i);
    return at ? at : NO_ADDRESS | (uint64_t)i * 16;
}

/* " (Bytes > 10K)": dotnet-gcdump makes a type of its own of the bigger objects of one. */
static slice plain_name(slice name)
{
    static const char mark[] = " (Bytes > ";
    const size_t n = sizeof mark - 1;
    if (name.n < n + 3 || name.p[name.n - 1] != ')') return name;
    for (size_t at = name.n - n - 3; at + n < name.n && name.n - at < n + 8; at--) {
        if (memcmp(name.p + at, mark, n) == 0) return slice_of(name.p, at);
        if (at == 0) break;
    }
    return name;
}

/* dotnet-gcdump writes each "[" of a runtime's name as "<", and then each "<>" as "[]": so "Int32[,]" became
 * "Int32<,>", and the compiler's "<>c" became "[]c". Writes name.n bytes. */
static void runtimes_name(slice name, char *out)
{
    for (size_t i = 0; i < name.n; i++) {
        char c = (char)name.p[i];
        int before = i ? name.p[i - 1] : '.';
        size_t end = i + 1;
        while (end < name.n && name.p[end] == ',')
            end++;
        out[i] = c;
        if (c == '[' && end == i + 1 && end < name.n && name.p[end] == ']' && strchr(".+<,[", before)) {
            out[i] = '<';
            out[++i] = '>';
        } else if (c == '<' && end > i + 1 && end < name.n && name.p[end] == '>') {
            out[i] = '[';
            while (++i < end)
                out[i] = ',';
            out[i] = ']';
        }
    }
}

static slice file_name(slice path)
{
    static const char unknown[] = "Module(0x";
    if (path.n > sizeof unknown - 1 && memcmp(path.p, unknown, sizeof unknown - 1) == 0) return (slice){0};
    for (size_t i = path.n; i > 0; i--)
        if (path.p[i - 1] == '/' || path.p[i - 1] == '\\') return slice_of(path.p + i, path.n - i);
    return path;
}

static uint32_t type_of(reader *r, uint32_t i)
{
    file_type *t = &r->types[i];
    if (t->type != GRAPH_NONE) return t->type;
    slice told = plain_name(t->name), file = file_name(t->module);
    buf key = {0};
    char *shown = (char *)buf_reserve(&key, told.n + t->module.n + 1);
    if (!shown) return GRAPH_NONE;
    runtimes_name(told, shown);
    key.n = told.n;
    (void)buf_u8(&key, '!');
    (void)buf_slice(&key, t->module);
    uint32_t id = key.failed ? STRTAB_FULL : strtab_intern(r->keys, buf_view(&key));
    buf_fini(&key);
    if (id == STRTAB_FULL) return GRAPH_NONE;
    slice name = slice_of(strtab_get(r->keys, id).p, told.n);
    t->type = graph_builder_type(r->b, UINT64_C(1) + id);
    bool array = slice_ends(name, SLICE_LIT("]"));
    const graph_type_text say = {.name = name,
                                 .module_name = file,
                                 .module_path = file.n ? t->module : (slice){0},
                                 .flags = (array ? GRAPH_TYPE_ARRAY : 0u) |
                                          (slice_eq_str(name, "System.String") ? GRAPH_TYPE_STRING : 0u)};
    if (t->type != GRAPH_NONE) (void)graph_builder_describe(r->b, t->type, &say);
    return t->type;
}

static int add_node(reader *r, uint32_t i)
{
    node n, to;
    int rc = read_node(r, i, &n);
    if (rc < 0) return rc;
    if (is_undefined(r, &n)) {
        r->info->undefined++;
        return 0;
    }
    if (is_group(r, i, &n)) return 0;
    (void)graph_builder_node(r->b, address_of(r, i), type_of(r, n.type), n.size > 0 ? (uint64_t)n.size : 0);
    for (uint32_t k = 0; k < n.n; k++) {
        uint32_t t = next_target(r, i, &n);
        if (t == GRAPH_NONE || !cursor_ok(&n.targets))
            return err_set(r->e, ERR_MALFORMED, "a .gcdump file: object %u refers to nowhere", i);
        if (told_address(r, t) == 0) {
            rc = read_node(r, t, &to);
            if (rc < 0) return rc;
            if (is_group(r, t, &to)) continue;
        }
        (void)graph_builder_edge(r->b, address_of(r, t));
    }
    return 0;
}

/* ---- roots ------------------------------------------------------------------------------------------------------- */

typedef struct group {
    uint32_t node;
    graph_root_kind kind;
    slice name;
} group;

static graph_root_kind kind_of(slice name, graph_root_kind above)
{
    static const struct {
        const char *name;
        graph_root_kind kind;
    } known[] = {
        {"[local vars]", GRAPH_ROOT_STACK},
        {"[static vars]", GRAPH_ROOT_STATIC},
        {"[thread static vars]", GRAPH_ROOT_THREAD_STATIC},
        {"[finalizer Handles]", GRAPH_ROOT_FINALIZER_QUEUE},
        {"[strong Handles]", GRAPH_ROOT_STRONG_HANDLE},
        {"[pinning Handles]", GRAPH_ROOT_PINNED_HANDLE},
        {"[other Handles]", GRAPH_ROOT_HANDLE},
        {"[Dependent Handles]", GRAPH_ROOT_DEPENDENT_HANDLE},
        {"[COM/WinRT Objects]", GRAPH_ROOT_REF_COUNTED_HANDLE},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (slice_eq_str(name, known[i].name)) return known[i].kind;
    return above;
}

/* "[static var App.Cache.Items]" names one field. */
static slice field_of(slice name)
{
    static const char mark[] = "[static var ";
    const size_t n = sizeof mark - 1;
    return name.n > n + 1 && memcmp(name.p, mark, n) == 0 ? slice_of(name.p + n, name.n - n - 1) : (slice){0};
}

typedef struct groups {
    group *p;
    uint32_t n, cap;
} groups;

static int push_group(reader *r, groups *to, group g)
{
    if (to->n == to->cap) {
        uint32_t cap = to->cap ? to->cap * 2 : 256;
        group *p = mem_realloc(to->p, cap * sizeof *p);
        if (!p) return err_set(r->e, ERR_NO_MEMORY, "no memory for the roots of a .gcdump file");
        to->p = p;
        to->cap = cap;
    }
    to->p[to->n++] = g;
    return 0;
}

/* What one node of the way from the file's root means; what is below a group goes onto the stack. */
static int take_root(reader *r, group at, uint8_t *seen, groups *stack)
{
    node n;
    int rc = read_node(r, at.node, &n);
    if (rc < 0) return rc;
    if (is_undefined(r, &n)) return 0; /* a static that holds nothing, or what was collected */
    if (!is_group(r, at.node, &n)) {
        unsigned flags = at.kind == GRAPH_ROOT_PINNED_HANDLE ? GRAPH_PINNED : 0;
        (void)graph_builder_root(r->b, at.kind, flags, 0, address_of(r, at.node), at.name);
        return 0;
    }
    if (seen[at.node]++) return 0;
    slice name = r->types[n.type].name;
    group below = {.kind = kind_of(name, at.kind), .name = field_of(name)};
    for (uint32_t k = 0; k < n.n && rc == 0; k++) {
        below.node = next_target(r, at.node, &n);
        if (below.node == GRAPH_NONE) return err_set(r->e, ERR_MALFORMED, "a .gcdump file: a root refers to nowhere");
        rc = push_group(r, stack, below);
    }
    return rc;
}

static int add_roots(reader *r)
{
    groups stack = {0};
    uint8_t *seen = mem_calloc(r->n_nodes, 1);
    int rc = seen ? push_group(r, &stack, (group){.node = r->root, .kind = GRAPH_ROOT_OTHER})
                  : err_set(r->e, ERR_NO_MEMORY, "no memory for the roots of a .gcdump file");
    while (rc == 0 && stack.n) {
        group at = stack.p[--stack.n];
        rc = take_root(r, at, seen, &stack);
    }
    free(seen);
    free(stack.p);
    return rc;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

static int read_all(reader *r)
{
    int32_t least;
    if (!slice_eq_str(text(&r->c), MAGIC)) return broken(r, "it is none");
    int version = begin(r, "GCHeapDump", &least);
    if (version < 0) return version;
    if (version < 9) return err_set(r->e, ERR_NOT_SUPPORTED, "a .gcdump file of version %d: too old", version);
    int rc = read_graph(r);
    if (rc < 0) return rc;
    read_rest(r);
    for (uint32_t i = 0; rc == 0 && i < r->n_nodes; i++)
        rc = add_node(r, i);
    return rc < 0 ? rc : add_roots(r);
}

graph *gcdump_read(slice file, const graph_limits *lim, gcdump_file_info *info, err *e)
{
    graph *g = NULL;
    *info = (gcdump_file_info){0};
    reader r = {.c = cursor_of(file, 0), .info = info, .e = e};
    r.b = graph_builder_new(lim, e);
    r.keys = r.b ? strtab_new(0, GRAPH_MAX_TEXT) : NULL;
    if (!r.keys) (void)err_set(e, ERR_NO_MEMORY, "no memory for a .gcdump file");
    if (r.keys && read_all(&r) == 0) g = graph_seal(r.b, e);
    graph_builder_free(r.b);
    strtab_free(r.keys);
    free(r.types);
    return g;
}

static int read_whole(int fd, uint8_t **out, size_t *size, err *e)
{
    struct stat st;
    if (fstat(fd, &st) < 0) return err_sys(e, ERR_IO, errno, "a .gcdump file");
    if (!S_ISREG(st.st_mode)) return err_set(e, ERR_IO, "a .gcdump file: it is no regular file");
    if ((uint64_t)st.st_size > GCDUMP_FILE_MAX)
        return err_set(e, ERR_LIMIT, "a .gcdump file of %lld MB: at most %llu MB are read", (long long)st.st_size >> 20,
                       (unsigned long long)(GCDUMP_FILE_MAX >> 20));
    *size = (size_t)st.st_size;
    *out = mem_alloc(*size ? *size : 1);
    if (!*out) return err_set(e, ERR_NO_MEMORY, "no memory for a .gcdump file of %zu bytes", *size);
    for (size_t at = 0; at < *size;) {
        ssize_t n = read(fd, *out + at, *size - at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return err_sys(e, ERR_IO, errno, "a .gcdump file");
        if (n == 0) *size = at; /* it became shorter */
        at += (size_t)n;
    }
    return 0;
}

graph *gcdump_read_file(const char *path, const graph_limits *lim, gcdump_file_info *info, err *e)
{
    uint8_t *bytes = NULL;
    size_t size = 0;
    graph *g = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO ends at once */
    *info = (gcdump_file_info){0};
    if (fd < 0) {
        (void)err_sys(e,
                      errno == ENOENT   ? ERR_NOT_FOUND
                      : errno == EACCES ? ERR_PERMISSION_DENIED
                                        : ERR_IO,
                      errno, "a .gcdump file");
        return NULL;
    }
    if (read_whole(fd, &bytes, &size, e) == 0) g = gcdump_read(slice_of(bytes, size), lim, info, e);
    free(bytes);
    (void)close(fd);
    return g;
}
