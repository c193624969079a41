/* SPDX-License-Identifier: MIT */
/* host_check.c: see host_check.h. */
#include "host_check.h"

#include "base/log.h"
#include "host/faces.h"

static const luaL_Reg FACES[] = {{"lunette.json", luaopen_lunette_json},
                                 {"lunette.loop", luaopen_lunette_loop},
                                 {"lunette.crypto", luaopen_lunette_crypto},
                                 {"lunette.fs", luaopen_lunette_fs},
                                 {"lunette.log", luaopen_lunette_log},
                                 {"lunette.sys", luaopen_lunette_sys},
                                 {NULL, NULL}};

void fixture_open(fixture *f, const host_cfg *cfg)
{
    err e = {0};
    assert_int_equal(loop_new(&f->l, &e), 0);
    assert_int_equal(host_new(f->l, cfg, &f->h, &e), 0);
    for (const luaL_Reg *r = FACES; r->name; r++)
        assert_true(host_preload(f->h, r->name, r->func));
}

void fixture_close(fixture *f)
{
    host_free(f->h);
    f->h = NULL;
    loop_free(f->l);
    f->l = NULL;
}

static void on_done(void *arg, task *t, lua_State *L, bool ok, int nres)
{
    outcome *o = arg;
    (void)t;
    o->ended = true;
    if (o->l) loop_stop(o->l);
    o->ok = ok;
    o->nres = nres;
    if (!ok) {
        host_to_err(L, -1, &o->e);
        snprintf(o->text, sizeof o->text, "%s", o->e.message);
    } else if (nres > 0) {
        snprintf(o->text, sizeof o->text, "%s", luaL_tolstring(L, -nres, NULL));
        lua_pop(L, 1);
    }
}

task *script_start(fixture *f, const char *source, outcome *o)
{
    static const char PRELUDE[] = "local loop, json = require 'lunette.loop', require 'lunette.json' ";
    lua_State *L = host_state(f->h);
    memset(o, 0, sizeof *o);
    lua_pushstring(L, PRELUDE);
    lua_pushstring(L, source);
    lua_concat(L, 2);
    int status = luaL_loadbuffer(L, lua_tostring(L, -1), lua_rawlen(L, -1), "@test.lua");
    if (status != LUA_OK) fail_msg("%s", lua_tostring(L, -1));
    lua_remove(L, -2);
    task *t = host_spawn(f->h, 0, on_done, o);
    assert_non_null(t);
    return t;
}

static void on_too_long(void *arg)
{
    (void)arg;
    fail_msg("the script did not end within 90 s");
}

void script_finish(fixture *f, outcome *o)
{
    err e = {0};
    loop_timer *watchdog = loop_timer_at(f->l, deadline_in_ms(90000), on_too_long, NULL);
    o->l = f->l;
    while (!o->ended)
        assert_int_equal(loop_run(f->l, &e), 0);
    loop_timer_del(watchdog);
}

outcome script_run(fixture *f, const char *source)
{
    outcome o;
    script_start(f, source, &o);
    script_finish(f, &o);
    return o;
}

void check_script(fixture *f, const char *source, const char *want, const char *file, int line)
{
    outcome o = script_run(f, source);
    if (o.ok && strcmp(o.text, want) == 0) return;
    print_error("script %s with: %s\nwant: %s\n", o.ok ? "ended" : "failed", o.text, want);
    _fail(file, line);
}
