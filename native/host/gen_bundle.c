/* SPDX-License-Identifier: MIT */
/* gen_bundle.c: a program of the build: compiles our scripts into one file (bundle.h).
 *   gen_bundle OUT ROOT FILE...     files below ROOT, as "lua/NAME.lua" */
#include <lauxlib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "host/bundle.h"

typedef struct script {
    const char *name;
    bundle_entry e;
} script;

static int by_name(const void *a, const void *b)
{
    return strcmp(((const script *)a)->name, ((const script *)b)->name);
}

static int append(lua_State *L, const void *p, size_t n, void *out)
{
    (void)L;
    return buf_put(out, p, n) ? 0 : 1;
}

static void read_file(const char *root, const char *name, buf *text)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s", root, name);
    FILE *f = fopen(path, "rbe");
    if (!f) {
        perror(path);
        exit(1);
    }
    uint8_t chunk[4096];
    size_t n;
    while ((n = fread(chunk, 1, sizeof chunk, f)) > 0)
        buf_put(text, chunk, n);
    (void)fclose(f);
}

/* Compiles one script; its code goes to the end of out. */
static void compile(lua_State *L, const char *root, script *s, buf *out)
{
    char chunkname[300];
    buf text = {0};
    buf_init(&text, 0);
    read_file(root, s->name, &text);
    (void)snprintf(chunkname, sizeof chunkname, "@%s", s->name);
    if (luaL_loadbufferx(L, (const char *)text.p, text.n, chunkname, "t") != LUA_OK) {
        (void)fprintf(stderr, "%s\n", lua_tostring(L, -1));
        exit(1);
    }
    s->e.hash = hash_bytes(buf_view(&text), 0);
    s->e.size = (uint32_t)text.n;
    s->e.code = (uint32_t)out->n;
    if (lua_dump(L, append, out, 0) != 0) exit(1); /* with its lines: messages name them */
    s->e.code_size = (uint32_t)(out->n - s->e.code);
    lua_pop(L, 1);
    buf_fini(&text);
}

int main(int argc, char **argv)
{
    if (argc < 4) return 2;
    size_t n = (size_t)argc - 3;
    script *all = calloc(n, sizeof *all);
    lua_State *L = luaL_newstate();
    buf out = {0};
    buf_init(&out, 0);
    if (!all || !L || !buf_reserve(&out, sizeof(bundle_head) + n * sizeof(bundle_entry))) abort();
    for (size_t i = 0; i < n; i++)
        all[i].name = argv[i + 3];
    qsort(all, n, sizeof *all, by_name);
    bundle_head head = {.magic = BUNDLE_MAGIC, .count = (uint32_t)n};
    out.n = sizeof head + n * sizeof(bundle_entry);
    memset(out.p, 0, out.n);
    head.ident = (uint32_t)out.n;
    buf_put(&out, lua_ident, strlen(lua_ident) + 1);
    for (size_t i = 0; i < n; i++) {
        all[i].e.name = (uint32_t)out.n;
        buf_put(&out, all[i].name, strlen(all[i].name) + 1);
    }
    for (size_t i = 0; i < n; i++)
        compile(L, argv[2], &all[i], &out);
    memcpy(out.p, &head, sizeof head);
    for (size_t i = 0; i < n; i++)
        memcpy(out.p + sizeof head + i * sizeof(bundle_entry), &all[i].e, sizeof(bundle_entry));
    FILE *f = fopen(argv[1], "wbe");
    bool ok = f && !out.failed && fwrite(out.p, 1, out.n, f) == out.n;
    if (f && fclose(f) != 0) ok = false;
    if (!ok) perror(argv[1]);
    lua_close(L);
    buf_fini(&out);
    free(all);
    return ok ? 0 : 1;
}
