/* SPDX-License-Identifier: MIT */
/* safe.c: the standard functions that could swallow the host's own errors, or mix a script's yields with the
 * scheduler's, replaced by versions that do not: pcall, xpcall, coroutine.create/resume/wrap/yield/close/isyieldable,
 * os.exit.
 */
#include <lualib.h>

#include "host/host_internal.h"

/* ---- pcall, xpcall: an error that must end the task passes through ---- */

static bool is_condemned(lua_State *L)
{
    const task *t = host_of(L)->running;
    return t && budget__condemned(t);
}

/* In a box, a lack of memory ends the call. */
static void check_memory(lua_State *L, int status)
{
    task *t = host_of(L)->running;
    if (status == LUA_ERRMEM && t && t->box) budget__condemn_box(L, t->box, ERR_NO_MEMORY);
}

static int finish_pcall(lua_State *L, int status, lua_KContext extra)
{
    if (status == LUA_OK || status == LUA_YIELD) return lua_gettop(L) - (int)extra;
    if (is_condemned(L)) return budget__rethrow(L, host_of(L)->running);
    check_memory(L, status);
    lua_pushboolean(L, 0); // … err false
    lua_insert(L, -2);     // … false err
    return 2;
}

static int l_pcall(lua_State *L)
{
    luaL_checkany(L, 1);
    lua_pushboolean(L, 1); // fn args… true
    lua_insert(L, 1);      // true fn args…
    int status = lua_pcallk(L, lua_gettop(L) - 2, LUA_MULTRET, 0, 0, finish_pcall);
    return finish_pcall(L, status, 0);
}

/* The message handler of xpcall, around the script's (upvalue 1). The host's own errors pass by: they come out of a
 * hook, where hooks are off, and a handler that loops could not be stopped. */
int safe__handle(lua_State *L)
{
    lua_settop(L, 1);
    if (is_condemned(L)) return 1;
    lua_pushvalue(L, lua_upvalueindex(1)); // err fn
    lua_insert(L, 1);                      // fn err
    lua_call(L, 1, 1);                     // message
    return 1;
}

static int l_xpcall(lua_State *L)
{
    int n = lua_gettop(L);
    luaL_checktype(L, 2, LUA_TFUNCTION);
    lua_pushvalue(L, 2);                  // fn handler args… handler
    lua_pushcclosure(L, safe__handle, 1); // fn handler args… guarded
    lua_replace(L, 2);                    // fn guarded args…
    lua_pushboolean(L, 1);                // fn handler args… true
    lua_pushvalue(L, 1);                  // fn handler args… true fn
    lua_rotate(L, 3, 2);                  // fn handler true fn args…
    int status = lua_pcallk(L, n - 2, LUA_MULTRET, 2, 2, finish_pcall);
    return finish_pcall(L, status, 2);
}

/* ---- coroutines inside a task ---- */

/* The function of a coroutine (upvalue 1) runs under a pcall, in the coroutine itself. A budget ends by an error out of
 * a hook, inside of which hooks are off (Lua 5.4), and only a pcall that catches it puts them on again: close handlers
 * that ran after the coroutine's end could not be stopped. So they run here, when the error passes, and not when the
 * coroutine is closed. */
static int body_k(lua_State *L, int status, lua_KContext ctx)
{
    (void)ctx;
    if (status == LUA_OK || status == LUA_YIELD) return lua_gettop(L);
    check_memory(L, status);
    return lua_error(L);
}

static int l_body(lua_State *L)
{
    lua_pushvalue(L, lua_upvalueindex(1)); // args… fn
    lua_insert(L, 1);                      // fn args…
    return body_k(L, lua_pcallk(L, lua_gettop(L) - 1, LUA_MULTRET, 0, 0, body_k), 0);
}

/* Pushes a new coroutine that will run the function at index 1. */
static void push_coroutine(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TFUNCTION);
    lua_State *co = lua_newthread(L); // … co
    lua_pushvalue(L, 1);              // … co fn
    lua_pushcclosure(L, l_body, 1);   // … co body
    lua_xmove(L, co, 1);              // … co
}

enum { CTX_RESUME, CTX_WRAP };

static lua_State *inner_of(lua_State *L, lua_KContext ctx)
{
    return lua_tothread(L, ctx == CTX_WRAP ? lua_upvalueindex(1) : 1);
}

/* The error value of a coroutine that failed is on top of L. */
static int fail(lua_State *L, lua_KContext ctx)
{
    if (is_condemned(L)) return budget__rethrow(L, host_of(L)->running);
    if (ctx == CTX_RESUME) {
        lua_pushboolean(L, 0); // … err false
        lua_insert(L, -2);     // … false err
        return 2;
    }
    if (lua_type(L, -1) == LUA_TSTRING) {
        luaL_where(L, 1);  // … err where
        lua_insert(L, -2); // … where err
        lua_concat(L, 2);  // … err
    }
    return lua_error(L);
}

static int step_k(lua_State *L, int status, lua_KContext ctx);

/* Closes co for L. Its close handlers count to the task, and end with it, but cannot wait or yield: nobody resumes co.
 */
static int close_thread(lua_State *L, lua_State *co)
{
    host *h = host_of(L);
    co_frame fr = {.L = co, .up = h->cur, .closing = true};
    h->cur = &fr;
    if (!h->has_timer && h->running) lua_sethook(co, lua_gethook(L), lua_gethookmask(L), lua_gethookcount(L));
    if (h->running && budget__doomed(h->running)) lua_sethook(co, budget__hook, LUA_MASKCOUNT, 1);
    int status = lua_resetthread(co);
    h->cur = fr.up;
    budget__recheck(h, L);
    return status;
}

/* Resumes co, which has its narg arguments, for L. The scheduler's own yields pass on through L, and come back by
 * step_k. */
static int step(lua_State *L, lua_State *co, int narg, lua_KContext ctx)
{
    host *h = host_of(L);
    int nres = 0;
    co_frame fr = {.L = co, .up = h->cur};
    h->yield = YIELD_SCRIPT;
    h->cur = &fr;
    if (!h->has_timer && h->running) lua_sethook(co, lua_gethook(L), lua_gethookmask(L), lua_gethookcount(L));
    if (h->running && budget__doomed(h->running)) lua_sethook(co, budget__hook, LUA_MASKCOUNT, 1);
    int status = lua_resume(co, L, narg, &nres);
    h->cur = fr.up;
    if (status == LUA_YIELD && h->yield != YIELD_SCRIPT) {
        host__mark(co, true);
        return lua_yieldk(L, 0, ctx, step_k);
    }
    budget__recheck(h, L);
    if (status == LUA_OK || status == LUA_YIELD) {
        luaL_checkstack(L, nres + 1, "too many results to resume");
        if (ctx == CTX_RESUME) lua_pushboolean(L, 1); // … true
        lua_xmove(co, L, nres);                       // … true results…
        return nres + (ctx == CTX_RESUME);
    }
    /* A wrapped coroutine cannot be closed by its owner, a condemned one will not be. */
    if (ctx == CTX_WRAP || is_condemned(L)) close_thread(L, co);
    check_memory(L, status);
    lua_xmove(co, L, 1); // … err
    return fail(L, ctx);
}

static int step_k(lua_State *L, int status, lua_KContext ctx)
{
    (void)status;
    lua_State *co = inner_of(L, ctx);
    host__mark(co, false);
    return step(L, co, 0, ctx);
}

static int refuse(lua_State *L, const char *why, lua_KContext ctx)
{
    lua_pushstring(L, why); // … why
    return fail(L, ctx);
}

static int resume(lua_State *L, int narg, lua_KContext ctx)
{
    lua_State *co = inner_of(L, ctx);
    if (host__marked(co)) return refuse(L, "cannot resume a coroutine in which a task waits", ctx);
    if (lua_status(co) == LUA_OK && lua_gettop(co) == 0) return refuse(L, "cannot resume dead coroutine", ctx);
    if (!lua_checkstack(co, narg)) return refuse(L, "too many arguments to resume", ctx);
    lua_xmove(L, co, narg);
    return step(L, co, narg, ctx);
}

static lua_State *check_thread(lua_State *L)
{
    luaL_argexpected(L, lua_isthread(L, 1), 1, "coroutine");
    return lua_tothread(L, 1);
}

static int l_co_resume(lua_State *L)
{
    check_thread(L);
    return resume(L, lua_gettop(L) - 1, CTX_RESUME);
}

static int l_co_wrapped(lua_State *L) { return resume(L, lua_gettop(L), CTX_WRAP); }

static int l_co_wrap(lua_State *L)
{
    push_coroutine(L);                    // fn … co
    lua_pushcclosure(L, l_co_wrapped, 1); // fn … wrapped
    return 1;
}

static int l_co_create(lua_State *L)
{
    push_coroutine(L); // fn … co
    return 1;
}

/* Is L a coroutine of the script's, so that a yield goes to the script and not to the scheduler? */
static bool is_inner(lua_State *L)
{
    const host *h = host_of(L);
    const co_frame *fr = h->cur;
    if (h->running && h->running->box && h->running->box->L == L) return false;
    return fr && fr->L == L && !fr->closing && (fr->up || !h->running);
}

static int l_co_yield(lua_State *L)
{
    if (!is_inner(L)) return luaL_error(L, "attempt to yield from outside a coroutine");
    host_of(L)->yield = YIELD_SCRIPT;
    return lua_yield(L, lua_gettop(L));
}

static int l_co_isyieldable(lua_State *L)
{
    lua_State *co = lua_isthread(L, 1) ? lua_tothread(L, 1) : L;
    lua_pushboolean(L, lua_isyieldable(co) && (co != L || is_inner(L)));
    return 1;
}

static int l_co_close(lua_State *L)
{
    lua_State *co = check_thread(L);
    int status = lua_status(co);
    lua_Debug ar;
    bool is_normal = status == LUA_OK && lua_getstack(co, 0, &ar);
    if (co == L || is_normal) return luaL_error(L, "cannot close a running coroutine");
    if (host__marked(co)) return luaL_error(L, "cannot close a coroutine in which a task waits");
    status = close_thread(L, co);
    if (is_condemned(L)) return budget__rethrow(L, host_of(L)->running);
    if (status == LUA_OK) {
        lua_pushboolean(L, 1); // co true
        return 1;
    }
    lua_pushboolean(L, 0); // co false
    lua_xmove(co, L, 1);   // co false err
    return 2;
}

/* ---- chunks: text only, since the Lua machine does not check bytecode and can be crashed by it ---- */

/* Calls the original function (upvalue 1) with the mode, which is argument `mode`, set to "t". An environment after it
 * stays. */
static int call_with_text_mode(lua_State *L, int mode)
{
    int n = lua_gettop(L);
    if (n < mode) {
        lua_settop(L, mode);
        n = mode;
    }
    lua_pushliteral(L, "t");               // args… "t"
    lua_replace(L, mode);                  // args…
    lua_pushvalue(L, lua_upvalueindex(1)); // args… fn
    lua_insert(L, 1);                      // fn args…
    lua_call(L, n, LUA_MULTRET);           // results…
    return lua_gettop(L);
}

static int l_load(lua_State *L) { return call_with_text_mode(L, 3); }

static int l_loadfile(lua_State *L) { return call_with_text_mode(L, 2); }

static int dofile_k(lua_State *L, int status, lua_KContext ctx)
{
    (void)status;
    (void)ctx;
    return lua_gettop(L) - 1;
}

static int l_dofile(lua_State *L)
{
    const char *name = luaL_optstring(L, 1, NULL);
    lua_settop(L, 1);                                                // name
    if (luaL_loadfilex(L, name, "t") != LUA_OK) return lua_error(L); // name chunk
    lua_callk(L, 0, LUA_MULTRET, 0, dofile_k);                       // name results…
    return dofile_k(L, LUA_OK, 0);
}

static void wrap_global(lua_State *L, const char *name, lua_CFunction fn)
{
    lua_getglobal(L, name);     // original
    lua_pushcclosure(L, fn, 1); // wrapper
    lua_setglobal(L, name);     //
}

/* ---- the end of the process ---- */

/* os.exit([code]): as everywhere, but tasks are cancelled and cleaned up first. Does not return to a task. */
static int l_exit(lua_State *L)
{
    int code = lua_isboolean(L, 1) ? !lua_toboolean(L, 1) : (int)luaL_optinteger(L, 1, 0);
    host *h = host_of(L);
    host_exit(h, code);
    task *t = h->running;
    if (!t) return luaL_error(L, "the process ends");
    task_cancel(t, "the process ends");
    return t->phase == PHASE_BODY ? budget__condemn(L, t, ERR_CANCELLED) : 0;
}

static const luaL_Reg CO_FUNCS[] = {
    {"create", l_co_create}, {"resume", l_co_resume},           {"wrap", l_co_wrap}, {"yield", l_co_yield},
    {"close", l_co_close},   {"isyieldable", l_co_isyieldable}, {NULL, NULL}};

void safe__install(lua_State *L)
{
    lua_register(L, "pcall", l_pcall);
    lua_register(L, "xpcall", l_xpcall);
    lua_register(L, "dofile", l_dofile);
    wrap_global(L, "load", l_load);
    wrap_global(L, "loadfile", l_loadfile);
    lua_getglobal(L, LUA_COLIBNAME); // coroutine
    luaL_setfuncs(L, CO_FUNCS, 0);
    lua_pop(L, 1);                   //
    lua_getglobal(L, LUA_OSLIBNAME); // os
    lua_pushcfunction(L, l_exit);    // os fn
    lua_setfield(L, -2, "exit");     // os
    lua_pop(L, 1);                   //
    /* The hook is the host's. */
    lua_getglobal(L, LUA_DBLIBNAME);      // debug
    lua_pushnil(L);                       // debug nil
    lua_setfield(L, -2, "sethook");       // debug
    lua_pushcfunction(L, err__traceback); // debug fn
    lua_setfield(L, -2, "traceback");     // debug
    lua_pop(L, 1);                        //
}
