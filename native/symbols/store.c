/* SPDX-License-Identifier: MIT */
/* store.c: modules that were opened, shared and kept; and their lines. */
#include <pthread.h>
#include <stdlib.h>

#include "symbols/find.h"
#include "symbols/lines.h"
#include "symbols/mvid.h"

#define MODULES_KEPT_MAX 512u
#define MODULE_OVERHEAD  512u
#define TEXT_MAX_BYTES   ((size_t)8 << 10) /* a document's name, and its address */

typedef struct document {
    slice file, url;
} document;

struct sym_module {
    sym_store *store;
    sym_module *next; /* in the store's list, the last used one first */
    uint32_t users;   /* under the store's lock */
    bool listed;
    size_t bytes;
    /* What it is of: the file as it was, or the id of a PDB. */
    char *path;
    uint64_t dev, ino, size;
    int64_t mtime_ns;
    sym_module_info info;
    sym_found found;
    pthread_mutex_t lock; /* over the rest and what a Windows PDB keeps */
    map64 documents;      /* number -> document * */
    arena text;
};

struct sym_store {
    pthread_mutex_t lock;
    sym_module *list;
    size_t bytes, max, n;
};

sym_store *sym_store_new(size_t max_bytes)
{
    sym_store *s = mem_calloc(1, sizeof *s);
    if (!s) return NULL;
    s->max = max_bytes ? max_bytes : SYM_STORE_MAX_BYTES;
    pthread_mutex_init(&s->lock, NULL);
    return s;
}

static void module_free(sym_module *m)
{
    sym_found_fini(&m->found);
    map64_fini(&m->documents);
    arena_free(&m->text);
    pthread_mutex_destroy(&m->lock);
    free(m->path);
    free(m);
}

void sym_store_free(sym_store *s)
{
    if (!s) return;
    while (s->list) {
        sym_module *m = s->list;
        s->list = m->next;
        module_free(m);
    }
    pthread_mutex_destroy(&s->lock);
    free(s);
}

size_t sym_store_memory(sym_store *s)
{
    pthread_mutex_lock(&s->lock);
    size_t n = s->bytes;
    pthread_mutex_unlock(&s->lock);
    return n;
}

/* ---- the list, under the lock ---- */

static void unlist(sym_store *s, sym_module **at)
{
    sym_module *m = *at;
    *at = m->next;
    m->listed = false;
    s->bytes -= m->bytes;
    s->n--;
    if (m->users == 0) module_free(m);
}

/* Lets go of those used longest ago that nobody has, until the rest fits. */
static void make_room(sym_store *s)
{
    while (s->bytes > s->max || s->n > MODULES_KEPT_MAX) {
        sym_module **oldest = NULL;
        for (sym_module **p = &s->list; *p; p = &(*p)->next)
            if ((*p)->users == 0) oldest = p;
        if (!oldest) return;
        unlist(s, oldest);
    }
}

static void list_first(sym_store *s, sym_module *m)
{
    m->next = s->list;
    s->list = m;
    m->listed = true;
    s->bytes += m->bytes;
    s->n++;
    make_room(s);
}

typedef struct identity {
    const char *path; /* "": by the PDB's id alone */
    uint64_t dev, ino, size;
    int64_t mtime_ns;
    const sym_pdb_id *pdb;
} identity;

static bool same(const sym_module *m, const identity *i)
{
    if (strcmp(m->path, i->path) != 0 || m->info.format == SYM_FORMAT_NONE) return false;
    if (*i->path) return m->dev == i->dev && m->ino == i->ino && m->size == i->size && m->mtime_ns == i->mtime_ns;
    return memcmp(m->info.pdb.guid, i->pdb->guid, sizeof i->pdb->guid) == 0;
}

/* A module that is there already, for one more user. */
static sym_module *take(sym_store *s, const identity *i)
{
    sym_module *found = NULL;
    pthread_mutex_lock(&s->lock);
    for (sym_module **p = &s->list; *p; p = &(*p)->next) {
        if (!same(*p, i)) continue;
        found = *p;
        *p = found->next;
        found->next = s->list;
        s->list = found;
        found->users++;
        break;
    }
    pthread_mutex_unlock(&s->lock);
    return found;
}

/* ---- opening ---- */

static int read_module(sym_module *m, const sym_wanted *w, const sym_input *in, err *e)
{
    arena scratch = {0};
    sym_pe pe;
    err no_mvid = {0};
    sym_sought sought = {.paths = {w->search, w->search_2}, .deadline_ns = w->deadline_ns, .recorded = w->pdb_path};
    int rc = in ? sym_pe_read(&pe, in, &scratch, e) : 0;
    if (rc < 0) goto out;
    if (in) {
        m->info.has_mvid = sym_pe_mvid(&pe, m->info.mvid, &no_mvid) == 0;
        if (no_mvid.kind == ERR_NO_MEMORY) {
            rc = err_set(e, ERR_NO_MEMORY, "%s", no_mvid.message);
            goto out;
        }
        if (w->mvid && (!m->info.has_mvid || memcmp(w->mvid, m->info.mvid, sizeof m->info.mvid) != 0)) {
            rc = err_set(e, ERR_NOT_FOUND, "%s is not the module that was loaded: its MVID is another", w->path);
            goto out;
        }
        sym_sought_of_pe(&sought, &pe, w->path);
    }
    if (!sought.has_id && w->pdb) {
        sought.has_id = true;
        memcpy(sought.guid, w->pdb->guid, sizeof sought.guid);
        sought.age = w->pdb->age;
        sought.is_portable = true; /* nearly all; the key of a server says so */
    }
    sought.module = w->path;
    m->info.has_pdb_id = sought.has_id;
    memcpy(m->info.pdb.guid, sought.guid, sizeof sought.guid);
    m->info.pdb.age = sought.is_portable ? sought.stamp : sought.age;
    rc = sym_find(&sought, &m->found, e);
    if (rc < 0) goto out;
    m->info.format = m->found.format;
    m->info.pdb_file = m->found.file;
    m->bytes = m->found.a.used + MODULE_OVERHEAD;
out:
    arena_free(&scratch);
    return rc;
}

static sym_module *module_new(sym_store *s, const identity *i)
{
    sym_module *m = mem_calloc(1, sizeof *m);
    if (!m) return NULL;
    m->store = s;
    m->users = 1;
    m->dev = i->dev;
    m->ino = i->ino;
    m->size = i->size;
    m->mtime_ns = i->mtime_ns;
    m->path = slice_dup(slice_str(i->path));
    pthread_mutex_init(&m->lock, NULL);
    if (m->path) return m;
    module_free(m);
    return NULL;
}

static int open_new(sym_store *s, const sym_wanted *w, const identity *i, const sym_input *in, sym_module **out, err *e)
{
    sym_module *m = module_new(s, i);
    if (!m) return err_set(e, ERR_NO_MEMORY, "no memory for a module's symbols");
    int rc = read_module(m, w, in, e);
    if (rc < 0) {
        module_free(m);
        return rc;
    }
    pthread_mutex_lock(&s->lock);
    if (m->info.format != SYM_FORMAT_NONE) list_first(s, m);
    pthread_mutex_unlock(&s->lock);
    *out = m;
    return 0;
}

int sym_module_open(sym_store *s, const sym_wanted *w, sym_module **out, err *e)
{
    sym_input in = {.fd = -1};
    err why = {0};
    if (!w->path && !w->pdb) return err_set(e, ERR_INVALID_ARGUMENT, "a module is named by its path or its PDB's id");
    bool there = w->path && sym_input_open(&in, w->path, &why) == 0;
    if (!there && !w->pdb) {
        if (e && !e->kind) *e = why;
        return -(int)why.kind;
    }
    identity i = {there ? w->path : "", in.dev, in.ino, in.size, in.mtime_ns, w->pdb};
    sym_module *m = take(s, &i);
    int rc = 0;
    if (m && there && w->mvid && memcmp(w->mvid, m->info.mvid, sizeof m->info.mvid) != 0) {
        sym_module_release(m);
        m = NULL;
        rc = err_set(e, ERR_NOT_FOUND, "%s is not the module that was loaded: its MVID is another", w->path);
    }
    if (rc == 0 && !m) rc = open_new(s, w, &i, there ? &in : NULL, &m, e);
    sym_input_close(&in);
    if (rc == 0) *out = m;
    return rc;
}

void sym_module_release(sym_module *m)
{
    if (!m) return;
    sym_store *s = m->store;
    pthread_mutex_lock(&s->lock);
    if (--m->users == 0) {
        if (m->listed)
            make_room(s);
        else
            module_free(m);
    }
    pthread_mutex_unlock(&s->lock);
}

const sym_module_info *sym_module_info_of(const sym_module *m) { return &m->info; }
const char *sym_module_why(const sym_module *m) { return m->info.format == SYM_FORMAT_NONE ? m->found.why : ""; }

/* ---- lines, under the module's lock ---- */

static document *new_document(sym_module *m, uint32_t number)
{
    buf text;
    document *d = arena_alloc(&m->text, sizeof *d);
    buf_init(&text, TEXT_MAX_BYTES);
    if (d && sym_pdb_document(&m->found.pdb, number, &text)) {
        const char *file = arena_str(&m->text, buf_view(&text));
        d->file = slice_of(file, file ? text.n : 0);
        buf_reset(&text);
        if (file && sym_links_url(&m->found.pdb.links, d->file, &text)) {
            const char *url = arena_str(&m->text, buf_view(&text));
            d->url = slice_of(url, url ? text.n : 0);
        }
    }
    buf_fini(&text);
    if (d && !map64_put(&m->documents, number, (uint64_t)(uintptr_t)d)) return NULL;
    return d;
}

static const document *document_of(sym_module *m, uint32_t number)
{
    uint64_t at = 0;
    if (map64_get(&m->documents, number, &at)) return (const document *)(uintptr_t)at;
    return new_document(m, number);
}

bool sym_module_line(sym_module *m, uint32_t token, uint32_t il_offset, sym_line *out)
{
    sym_pick k = {.il_offset = il_offset};
    err ignored = {0};
    const document *d = NULL;
    if (m->info.format == SYM_FORMAT_NONE) return false;
    pthread_mutex_lock(&m->lock);
    if (sym_pdb_pick(&m->found.pdb, token, &k, &ignored) == 0 && k.found) d = document_of(m, k.best.document);
    pthread_mutex_unlock(&m->lock);
    if (!d || d->file.n == 0) return false;
    *out = (sym_line){.file = d->file,
                      .url = d->url,
                      .line = k.best.line,
                      .column = k.best.column,
                      .end_line = k.best.end_line,
                      .end_column = k.best.end_column,
                      .il_offset = k.best.il_offset,
                      .exact = k.exact};
    return true;
}
