/* SPDX-License-Identifier: MIT */
/* find.c: the places where a PDB can be, in order; the first with the right id is taken. */
#include "symbols/find.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <nettle/sha2.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/guid.h"
#include "base/utf.h"
#include "symbols/fetch.h"

enum { NAME_LIMIT = 200, KEY_MAX = 48, PORTABLE_ID = 20 };

void sym_sought_of_pe(sym_sought *s, const sym_pe *pe, const char *module)
{
    s->module = module;
    s->pe = pe;
    if (!pe->has_pdb) return;
    s->has_id = true;
    memcpy(s->guid, pe->pdb_guid, sizeof s->guid);
    s->age = pe->pdb_age;
    s->is_portable = pe->pdb_is_portable;
    s->has_stamp = pe->pdb_is_portable;
    s->stamp = pe->pdb_stamp;
    s->recorded = (const char *)pe->pdb_path.p;
}

bool sym_pdb_is(const sym_sought *s, const sym_pdb *p)
{
    if (!s->has_id || memcmp(s->guid, p->guid, sizeof s->guid) != 0) return false;
    if (p->windows) return s->age == p->age || s->age == p->dbi_age;
    return !s->has_stamp || s->stamp == p->stamp;
}

/* ---- one place ---- */

typedef struct search {
    const sym_sought *s;
    sym_found *out;
    char name[NAME_LIMIT + 1];             /* the PDB's file name; "": not known */
    char packed[NAME_LIMIT + 1];           /* that name as a compressed file has it: its last letter is a '_' */
    char key[KEY_MAX], key_upper[KEY_MAX]; /* of a symbol server */
    bool other_id, unreadable;             /* met on the way */
    char other[PATH_MAX];                  /* where */
    err trouble;                           /* the first one that is worth telling */
} search;

static void forget(sym_found *f)
{
    sym_pdb_fini(&f->pdb);
    arena_free(&f->a);
    f->pdb = (sym_pdb){0};
}

/* Reads the PDB at path. 1: it is the one; 0: it is not; negative: out of memory. */
static int try_file(search *q, const char *path)
{
    sym_input in;
    slice bytes;
    err e = {0};
    sym_found *f = q->out;
    if (sym_input_open(&in, path, &e) < 0) {
        if ((e.kind != ERR_NOT_FOUND || q->s->file) && !q->trouble.kind) q->trouble = e;
        return 0;
    }
    int rc = sym_input_get(&in, 0, in.size, &f->a, &bytes, "the PDB", &e);
    sym_input_close(&in);
    if (rc == 0) rc = sym_pdb_read(&f->pdb, bytes, &f->a, &e);
    bool is = rc == 0 && (q->s->file != NULL && !q->s->has_id ? true : sym_pdb_is(q->s, &f->pdb));
    if (is) {
        f->format = f->pdb.windows ? SYM_FORMAT_WINDOWS : SYM_FORMAT_PORTABLE;
        f->file = arena_str(&f->a, slice_str(path));
        return f->file ? 1 : -ERR_NO_MEMORY;
    }
    if (rc == 0 && !q->other_id) {
        q->other_id = true;
        snprintf(q->other, sizeof q->other, "%s", path);
    }
    if (rc < 0 && !q->trouble.kind) {
        err_where(&e, "%.200s", path);
        q->trouble = e;
    }
    forget(f);
    return rc == -ERR_NO_MEMORY ? rc : 0;
}

__attribute__((format(printf, 2, 3))) static int try_at(search *q, const char *fmt, ...)
{
    char path[PATH_MAX];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(path, sizeof path, fmt, args);
    va_end(args);
    return n > 0 && (size_t)n < sizeof path ? try_file(q, path) : 0;
}

static int try_embedded(search *q)
{
    slice bytes;
    err e = {0};
    sym_found *f = q->out;
    int rc = sym_pe_embedded(q->s->pe, &f->a, &bytes, &e);
    if (rc == 0) rc = sym_pdb_read(&f->pdb, bytes, &f->a, &e);
    if (rc == 0 && (!q->s->has_id || sym_pdb_is(q->s, &f->pdb))) {
        f->format = SYM_FORMAT_EMBEDDED;
        f->file = arena_str(&f->a, slice_str(q->s->module ? q->s->module : ""));
        return f->file ? 1 : -ERR_NO_MEMORY;
    }
    if (rc < 0 && !q->trouble.kind) q->trouble = e;
    forget(f);
    return rc == -ERR_NO_MEMORY ? rc : 0;
}

/* ---- beside the module, and where it was built ---- */

static int dir_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (int)(slash - path) + 1 : 0;
}

static int try_beside(search *q)
{
    const char *module = q->s->module;
    int rc = 0, dir = dir_length(module);
    if (*q->name) rc = try_at(q, "%.*s%s", dir, module, q->name);
    const char *dot = strrchr(module + dir, '.');
    int stem = dot ? (int)(dot - module) : (int)strlen(module);
    char own[NAME_LIMIT + 8];
    snprintf(own, sizeof own, "%.*s.pdb", stem - dir > NAME_LIMIT ? NAME_LIMIT : stem - dir, module + dir);
    if (rc == 0 && strcmp(own, q->name) != 0) rc = try_at(q, "%.*s%s", dir, module, own);
    /* The path of the build machine, when that is this one. A module seen through /proc is of another root. */
    const char *at = q->s->recorded;
    size_t n = at ? strlen(at) : 0;
    bool ours = strncmp(module, "/proc/", 6) != 0;
    if (rc == 0 && ours && n > 5 && at[0] == '/' && strcmp(at + n - 4, ".pdb") == 0) rc = try_file(q, at);
    return rc;
}

/* ---- symbol paths ---- */

/* Stores may hold cabinets (symstore /compress), which nothing here unpacks: that one is there is told. */
static void tell_packed(search *q, const char *where)
{
    if (q->trouble.kind) return;
    err_set(&q->trouble, ERR_NOT_SUPPORTED,
            "%s is there only compressed, as %s in %.200s: unpack it (cabextract) into a folder of symbolPath", q->name,
            q->packed, where);
}

static int try_folder(search *q, const char *folder)
{
    if (!*q->name) return 0;
    int rc = try_at(q, "%s/%s", folder, q->name);
    const char *keys[] = {q->key, q->key_upper};
    for (int i = 0; rc == 0 && *q->key && i < 2; i++)
        rc = try_at(q, "%s/%s/%s/%s", folder, q->name, keys[i], q->name);
    for (int i = 0; rc == 0 && *q->key && i < 2; i++) {
        char packed[PATH_MAX];
        int n = snprintf(packed, sizeof packed, "%s/%s/%s/%s", folder, q->name, keys[i], q->packed);
        if (n > 0 && (size_t)n < sizeof packed && access(packed, F_OK) == 0) tell_packed(q, folder);
    }
    return rc;
}

static void checksum_text(const sym_pe *pe, char *out, size_t size)
{
    out[0] = '\0';
    if (!pe || pe->checksum.n != SHA256_DIGEST_SIZE || !slice_eq_str(pe->checksum_algorithm, "SHA256")) return;
    size_t n = (size_t)snprintf(out, size, "SHA256:");
    for (size_t i = 0; i < pe->checksum.n && n + 3 < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%02x", pe->checksum.p[i]);
}

/* The checksum of a portable PDB is made with zeros in the place of its id. */
static bool checksum_fits(const sym_pe *pe, const char *path)
{
    arena a = {0};
    sym_input in;
    slice bytes = {0};
    err e = {0};
    struct sha256_ctx sha;
    uint8_t digest[SHA256_DIGEST_SIZE] = {0};
    static const uint8_t zeros[PORTABLE_ID] = {0};
    sym_md md;
    if (sym_input_open(&in, path, &e) < 0) return false;
    bool ok = sym_input_get(&in, 0, in.size, &a, &bytes, "the PDB", &e) == 0;
    sym_input_close(&in);
    ok = ok && sym_md_read(&md, bytes, 0, &e) == 0 && md.is_pdb;
    if (ok) {
        const uint8_t *id = md.pdb_stream;
        sha256_init(&sha);
        sha256_update(&sha, (size_t)(id - bytes.p), bytes.p);
        sha256_update(&sha, sizeof zeros, zeros);
        sha256_update(&sha, bytes.n - (size_t)(id - bytes.p) - sizeof zeros, id + sizeof zeros);
        sha256_digest(&sha, sizeof digest, digest);
        ok = memcmp(digest, pe->checksum.p, sizeof digest) == 0;
    }
    arena_free(&a);
    return ok;
}

/* Puts a fetched file in its place in the cache: CACHE/NAME/KEY/NAME. False: it stays where it is. */
static bool settle(const search *q, const sym_path *p, char *temp, size_t size)
{
    char place[PATH_MAX];
    int n = snprintf(place, sizeof place, "%s/%s", p->cache, q->name);
    if (n < 0 || (size_t)n >= sizeof place || (mkdir(place, 0700) != 0 && errno != EEXIST)) return false;
    n = snprintf(place, sizeof place, "%s/%s/%s", p->cache, q->name, q->key);
    if (n < 0 || (size_t)n >= sizeof place || (mkdir(place, 0700) != 0 && errno != EEXIST)) return false;
    n = snprintf(place, sizeof place, "%s/%s/%s/%s", p->cache, q->name, q->key, q->name);
    if (n < 0 || (size_t)n >= sizeof place || (size_t)n >= size || rename(temp, place) != 0) return false;
    memcpy(temp, place, (size_t)n + 1);
    return true;
}

static void refuse(search *q, const char *server, const char *what)
{
    if (q->trouble.kind) return;
    err_set(&q->trouble, ERR_MALFORMED, "what the symbol server %.200s sent for %s was refused: %s", server, q->name,
            what);
}

/* What came is looked at before anything else may see it. */
static int take_fetched(search *q, const sym_path *p, const char *server, char *temp, size_t size, bool checked)
{
    if (checked && !checksum_fits(q->s->pe, temp)) {
        refuse(q, server, "its checksum is not the one that the module names");
        unlink(temp);
        return 0;
    }
    bool other_before = q->other_id;
    err before = q->trouble;
    q->other_id = false;
    q->trouble = (err){0};
    int rc = try_file(q, temp);
    bool other = q->other_id, damaged = q->trouble.kind != ERR_NONE;
    q->other_id = other_before;
    q->trouble = before;
    if (rc <= 0) {
        if (other || damaged)
            refuse(q, server, other ? "its id is not the one that the module names" : "it is no PDB, or damaged");
        unlink(temp);
        return rc;
    }
    if (!settle(q, p, temp, size)) {
        unlink(temp); /* it is in memory */
        return 1;
    }
    q->out->file = arena_str(&q->out->a, slice_str(temp));
    return q->out->file ? 1 : -ERR_NO_MEMORY;
}

static int try_server(search *q, const sym_path *p, const char *server)
{
    char temp[PATH_MAX], checksum[80];
    if (!*q->name || !*q->key || !p->cache) return 0;
    int rc = try_at(q, "%s/%s/%s/%s", p->cache, q->name, q->key, q->name);
    if (rc) return rc;
    checksum_text(q->s->pe, checksum, sizeof checksum);
    const char *keys[] = {q->key, q->key_upper};
    for (int i = 0; i < 2; i++) {
        err e = {0};
        rc = sym_fetch(p, server, q->name, keys[i], NULL, checksum, q->s->deadline_ns, temp, sizeof temp, &e);
        if (rc == 0) return take_fetched(q, p, server, temp, sizeof temp, *checksum && q->s->is_portable);
        if (rc != -ERR_NOT_FOUND) {
            if (!q->trouble.kind) q->trouble = e;
            return 0;
        }
    }
    err quiet = {0};
    if (sym_fetch(p, server, q->name, q->key_upper, q->packed, "", q->s->deadline_ns, temp, sizeof temp, &quiet) == 0) {
        unlink(temp);
        tell_packed(q, server);
    }
    return 0;
}

static int try_path(search *q, const sym_path *p)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < p->n; i++)
        rc = p->parts[i].is_server ? try_server(q, p, p->parts[i].text) : try_folder(q, p->parts[i].text);
    return rc;
}

/* ---- the search ---- */

/* The last part of the recorded path, of either system; "" when it is no proper name of a file. */
static void name_of(const char *recorded, char *out)
{
    const char *name = recorded;
    *out = '\0';
    for (const char *p = recorded; p && *p; p++)
        if (*p == '/' || *p == '\\') name = p + 1;
    if (!name || !*name || strlen(name) > NAME_LIMIT || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) return;
    for (const char *p = name; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 127) return;
    if (utf8_valid(slice_str(name))) memcpy(out, name, strlen(name) + 1);
}

static void make_keys(search *q)
{
    char guid[33];
    if (!q->s->has_id) return;
    guid_hex(q->s->guid, guid);
    if (q->s->is_portable)
        snprintf(q->key, sizeof q->key, "%sffffffff", guid);
    else
        snprintf(q->key, sizeof q->key, "%s%x", guid, q->s->age);
    for (size_t i = 0; i < sizeof q->key && (q->key_upper[i] = (char)toupper((unsigned char)q->key[i])); i++) {
    }
}

static void explain(search *q)
{
    char *why = q->out->why;
    size_t n = sizeof q->out->why;
    const char *name = *q->name ? q->name : "its PDB";
    if (q->trouble.kind && (q->s->file || (q->s->has_id && !q->other_id)))
        snprintf(why, n, "%.470s", q->trouble.message);
    else if (!q->s->has_id && q->s->pe)
        snprintf(why, n, "the module names no PDB: it was built without debug information");
    else if (!q->s->has_id)
        snprintf(why, n, "the id of the module's PDB is not known");
    else if (q->other_id)
        snprintf(why, n, "%.240s has another id than the module names: take the PDB of the same build", q->other);
    else
        snprintf(why, n, "%s was not found: put it beside the module, or name its folder in symbolPath", name);
}

int sym_find(const sym_sought *s, sym_found *out, err *e)
{
    search q = {.s = s, .out = out};
    int rc = 0;
    *out = (sym_found){0};
    name_of(s->recorded, q.name);
    memcpy(q.packed, q.name, sizeof q.packed);
    if (*q.packed) q.packed[strlen(q.packed) - 1] = '_';
    make_keys(&q);
    if (s->file) {
        rc = try_file(&q, s->file);
    } else {
        if (s->pe && s->pe->has_embedded) rc = try_embedded(&q);
        if (rc == 0 && s->has_id && s->module) rc = try_beside(&q);
        for (int i = 0; rc == 0 && s->has_id && i < 2; i++)
            if (s->paths[i]) rc = try_path(&q, s->paths[i]);
    }
    if (rc < 0) return err_set(e, ERR_NO_MEMORY, "no memory for a PDB");
    if (rc == 0) explain(&q);
    return 0;
}

void sym_found_fini(sym_found *f)
{
    forget(f);
    f->format = SYM_FORMAT_NONE;
}
