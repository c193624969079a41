/* SPDX-License-Identifier: MIT */
/* box_lua.c: the native part of lunette.sandbox: calls under limits, chunks that are compiled under them, and the few
 * standard functions that a script may have in a safer form only. A box is a Lua table of lunette.sandbox, whose [1] is
 * the userdata that is made here. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "host/host_internal.h"

#define BOX_TYPE     "lunette.box"
#define BOX_FRAMES   16    /* calls of boxes inside calls of boxes, in one task */
#define BOX_HARD_MS  40    /* CPU that a call may use where it cannot be suspended */
#define BOX_SHARE    2     /* a box may keep, over all of its calls, twice what one call may have */
#define LOAD_PIECE   64    /* bytes of source between two looks at the budget */
#define TOSTRING_MS  10    /* CPU for the __tostring of an error object */
#define TREE_TABLES  20000 /* tables of a result that are walked as a tree, before those that were seen are noted */
#define ROOM_AT_ONCE 4096  /* elements for which a copy of a table has room from the start */
#define PLAIN_DEPTH  64    /* levels of tables in plain data */

typedef struct box {
    mem_account *account; /* of all its calls */
    int64_t budget_ns;
    size_t memory;
    int64_t held_ms;          /* a step that kept the loop for longer disables the box */
    int strikes, strikes_max; /* calls in a row that ended at a limit, and how many are too many */
} box;

static box *check_box(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_rawgeti(L, 1, 1); // … box
    box *b = (box *)luaL_checkudata(L, -1, BOX_TYPE);
    lua_pop(L, 1); // …
    return b;
}

/* native.new(budget_ms, memory, strikes, held_ms) -> userdata */
static int l_new(lua_State *L)
{
    lua_Integer budget_ms = luaL_checkinteger(L, 1), memory = luaL_checkinteger(L, 2),
                strikes = luaL_checkinteger(L, 3);
    luaL_argcheck(L, budget_ms > 0 && budget_ms <= 3600000, 1, "from 1 to 3600000 milliseconds");
    luaL_argcheck(L, memory >= 65536, 2, "at least 65536 bytes");
    box *b = (box *)lua_newuserdatauv(L, sizeof *b, 0); // box
    *b = (box){.budget_ns = budget_ms * 1000000,
               .memory = (size_t)memory,
               .strikes_max = (int)strikes,
               .held_ms = luaL_checkinteger(L, 4)};
    luaL_setmetatable(L, BOX_TYPE);
    b->account = memory__account(NULL, BOX_SHARE * (size_t)memory);
    return b->account ? 1 : luaL_error(L, "not enough memory");
}

static int l_box_gc(lua_State *L)
{
    box *b = (box *)luaL_checkudata(L, 1, BOX_TYPE);
    memory__release(b->account);
    b->account = NULL;
    return 0;
}

/* ---- frames ---- */

static box_frame *enter(lua_State *L, const box *b, task *t)
{
    int depth = 0;
    for (const box_frame *f = t->box; f; f = f->up)
        depth++;
    if (depth >= BOX_FRAMES) luaL_error(L, "too many calls of sandboxed scripts inside each other");
    box_frame *f = (box_frame *)mem_calloc(1, sizeof *f);
    if (f) f->account = memory__account(b->account, b->memory);
    if (!f || !f->account) {
        free(f);
        luaL_error(L, "not enough memory");
        return NULL;
    }
    budget__settle(t);
    f->L = L;
    f->begin_ns = budget__cpu_ns(t);
    f->end_ns = f->begin_ns + b->budget_ns;
    f->hard_ns = (int64_t)BOX_HARD_MS * 1000000;
    f->up = t->box;
    t->box = f;
    return f;
}

static void drop(task *t)
{
    box_frame *f = t->box;
    t->box = f->up;
    if (f->condemned != ERR_NONE) f->account->up->max -= BOX_ROOM; /* what it got to end with */
    for (int i = 0; i < f->n_children; i++) {
        task_cancel(f->child[i], "the call that spawned it ended");
        task__unref(f->child[i]);
    }
    memory__release(f->account);
    free(f);
}

void box__drop_all(task *t)
{
    while (t->box)
        drop(t);
}

/* What is left of a call: what its end is judged by. */
typedef struct ending {
    err_kind limit; /* the limit that it ended at */
    int64_t used_ms, held_ms;
    size_t big;
    int line;
    char file[96];
} ending;

/* Leaves f, and the frames that were left inside of it. */
static ending leave(task *t, const box_frame *f)
{
    budget__settle(t);
    ending end = {.limit = f->condemned, .line = f->line, .big = f->big};
    end.used_ms = (t->use.cpu_ns - f->begin_ns) / 1000000;
    end.held_ms = f->held_ns / 1000000;
    snprintf(end.file, sizeof end.file, "%s", f->file);
    while (t->box != f)
        drop(t);
    drop(t);
    return end;
}

/* ---- the error of a call ---- */

/* "file:12: text" gives file and line, and where the text begins; 0: there is no place in it. */
static size_t read_place(const char *s, char *file, size_t cap, int *line)
{
    const char *colon = strchr(s, ':');
    while (colon && !isdigit((unsigned char)colon[1]))
        colon = strchr(colon + 1, ':');
    if (!colon || colon == s || (size_t)(colon - s) >= cap) return 0;
    char *end;
    long n = strtol(colon + 1, &end, 10);
    if (end[0] != ':' || end[1] != ' ' || n <= 0 || n > 100000000) return 0;
    snprintf(file, cap, "%.*s", (int)(colon - s), s);
    *line = (int)n;
    return (size_t)(end + 2 - s);
}

/* The message handler of a call: notes where it was thrown, and lets it pass. */
static int l_handler(lua_State *L)
{
    task *t = host_of(L)->running;
    if (t && t->box && t->box->condemned == ERR_NONE) budget__note_place(L, t->box);
    return 1;
}

static bool raw_string(lua_State *L, int idx, const char *name)
{
    lua_pushstring(L, name); // value
    bool is = lua_rawget(L, idx) == LUA_TSTRING;
    lua_pop(L, 1); //
    return is;
}

static int l_tostring(lua_State *L)
{
    luaL_tolstring(L, 1, NULL);
    return 1;
}

/* An error object without a message is asked for its text, under the call's limits; what it throws, or how long it
 * takes, does not matter. Pushes a text. */
static void push_text_of(lua_State *L, int idx, task *t, box_frame *f)
{
    f->end_ns = budget__cpu_ns(t) + (int64_t)TOSTRING_MS * 1000000;
    lua_pushcfunction(L, l_tostring); // fn
    lua_pushvalue(L, idx);            // fn value
    if (lua_pcall(L, 1, 1, 0) == LUA_OK) return;
    lua_pop(L, 1);
    lua_pushfstring(L, "(an error value of type %s that cannot be shown)", luaL_typename(L, idx));
}

/* Reads what the script threw (on top) into *e. */
static void read_error(lua_State *L, task *t, box_frame *f, err *e)
{
    int idx = lua_gettop(L);
    bool is_err = lua_istable(L, idx) && raw_string(L, idx, "message");
    if (!is_err && lua_type(L, idx) != LUA_TSTRING) {
        push_text_of(L, idx, t, f); // value text
        idx++;
    }
    char file[sizeof f->file];
    int line = 0;
    if (is_err) {
        host_to_err(L, idx, e);
        bool is_host = e->kind == ERR_BUDGET || e->kind == ERR_NO_MEMORY || (e->kind == ERR_CANCELLED && !t->cancelled);
        if (is_host) e->kind = ERR_SCRIPT; /* these are the host's to say */
        return;
    }
    const char *text = lua_tostring(L, idx);
    size_t at = read_place(text, file, sizeof file, &line);
    if (at) {
        f->line = line;
        memcpy(f->file, file, sizeof file);
    }
    err_set(e, ERR_SCRIPT, "%s", text + at);
}

static void limit_error(const ending *end, const box *b, err *e)
{
    if (end->limit == ERR_NO_MEMORY && end->big) {
        err_set(e, ERR_NO_MEMORY, "the script asked for %zu KiB in one piece", end->big >> 10);
        err_hint(e, "a string may have %zu KiB, a table %zu KiB: work on a part", MEM_TEXT_MAX >> 10,
                 MEM_TABLE_MAX >> 10);
    } else if (end->limit == ERR_NO_MEMORY) {
        err_set(e, ERR_NO_MEMORY, "the script used up the memory of a call (%zu KiB)", b->memory >> 10);
        err_hint(e, "keep less at once: work on a part, or let the reducers of a collector count");
    } else {
        err_set(e, ERR_BUDGET, "the script used up its CPU budget (%lld ms)", (long long)end->used_ms);
        err_hint(e, "look for a loop that does not end, or do less in one call");
    }
}

/* Pushes the err of a call, with file and line. */
static void push_error(lua_State *L, const err *e, const ending *end)
{
    host_push_err_value(L, e); // err
    if (!end->line) return;
    lua_pushstring(L, end->file);  // err file
    lua_setfield(L, -2, "file");   // err
    lua_pushinteger(L, end->line); // err line
    lua_setfield(L, -2, "line");   // err
}

/* ---- calls ---- */

static void disable(lua_State *L, const char *why)
{
    lua_pushstring(L, why);         // … why
    lua_setfield(L, 1, "disabled"); // …
}

/* The watchdog: judges how a call ended. Argument 1 is the box. */
static void judge(lua_State *L, const ending *end)
{
    box *b = check_box(L);
    char why[128];
    b->strikes = end->limit == ERR_BUDGET || end->limit == ERR_NO_MEMORY ? b->strikes + 1 : 0;
    if (end->held_ms > b->held_ms) {
        snprintf(why, sizeof why, "one step of it kept the server from all other work for %lld ms",
                 (long long)end->held_ms);
        disable(L, why);
    } else if (b->strikes >= b->strikes_max) {
        snprintf(why, sizeof why, "%d calls in a row ended at a limit of CPU or memory", b->strikes);
        disable(L, why);
    }
}

/* Stack: box handler …; the error value is on top. */
static int failed(lua_State *L, task *t, box_frame *f, int status)
{
    err e = {0};
    err_kind limit = f->condemned == ERR_NONE && status == LUA_ERRMEM ? ERR_NO_MEMORY : f->condemned;
    bool outer = t->condemned != ERR_NONE;
    for (const box_frame *up = f->up; up; up = up->up)
        outer = outer || up->condemned != ERR_NONE;
    if (!outer && limit == ERR_NONE) read_error(L, t, f, &e);
    ending end = leave(t, f);
    end.limit = limit;
    if (outer) return budget__rethrow(L, t);
    if (end.limit != ERR_NONE) {
        e = (err){0};
        limit_error(&end, check_box(L), &e);
    }
    judge(L, &end);
    lua_pushnil(L);          // … nil
    push_error(L, &e, &end); // … nil err
    return 2;
}

/* Stack: box handler results… */
static int call_k(lua_State *L, int status, lua_KContext ctx)
{
    task *t = host_of(L)->running;
    box_frame *f = (box_frame *)ctx;
    if (status != LUA_OK && status != LUA_YIELD) return failed(L, t, f, status);
    ending end = leave(t, f);
    end.limit = ERR_NONE;
    judge(L, &end);
    lua_pushboolean(L, 1); // box handler results… true
    lua_replace(L, 2);     // box true results…
    return lua_gettop(L) - 1;
}

/* Stack: box fn args…; calls under the limits of the box. */
static int call_as(lua_State *L, bool no_wait)
{
    const box *b = check_box(L);
    task *t = task_current(L);
    if (!t) return luaL_error(L, "sandboxed scripts run in a task only: start one with loop.spawn");
    lua_getfield(L, 1, "disabled"); // box fn args… why
    if (lua_toboolean(L, -1)) {
        err e = {0};
        lua_getfield(L, 1, "name"); // box fn args… why name
        err_set(&e, ERR_SCRIPT, "%s is disabled: %s", lua_tostring(L, -1), lua_tostring(L, -2));
        err_hint(&e, "mend the file: it is loaded again when it changes");
        return host_push_err(L, &e);
    }
    lua_pop(L, 1);                   // box fn args…
    lua_pushcfunction(L, l_handler); // box fn args… handler
    lua_insert(L, 2);                // box handler fn args…
    box_frame *f = enter(L, b, t);
    f->no_wait = no_wait;
    int status = lua_pcallk(L, lua_gettop(L) - 3, LUA_MULTRET, 2, (lua_KContext)f, call_k);
    return call_k(L, status, (lua_KContext)f);
}

static int call(lua_State *L) { return call_as(L, false); }

static int l_call(lua_State *L)
{
    luaL_checkany(L, 2);
    return call(L);
}

/* native.call_now(box, fn, …): as call, but a wait inside of it is an error. */
static int l_call_now(lua_State *L)
{
    luaL_checkany(L, 2);
    return call_as(L, true);
}

/* ---- plain data ---- */

static void copy_value(lua_State *L, int idx, int depth);

static void copy_table(lua_State *L, int idx, int depth)
{
    if (depth >= PLAIN_DEPTH) luaL_error(L, "the result is nested too deeply, or contains itself");
    luaL_checkstack(L, 8, NULL);
    size_t n = lua_rawlen(L, idx); /* which may be a lie: a few elements make a border far away */
    lua_createtable(L, (int)(n < ROOM_AT_ONCE ? n : ROOM_AT_ONCE), 0); // copy
    int copy = lua_gettop(L);
    lua_pushnil(L);            // copy key
    while (lua_next(L, idx)) { // copy key value
        budget__poll(host_of(L), L);
        int kind = lua_type(L, -2);
        if (kind != LUA_TSTRING && kind != LUA_TNUMBER)
            luaL_error(L, "the result has a key of type %s", lua_typename(L, kind));
        lua_pushvalue(L, -2);               // copy key value key
        copy_value(L, copy + 2, depth + 1); // copy key value key value'
        lua_rawset(L, copy);                // copy key value
        lua_pop(L, 1);                      // copy key
    }
    /* The marks of lunette.json stay. Upvalue 1 is the table of metatables that may. */
    if (!lua_getmetatable(L, idx)) return;
    lua_pushvalue(L, -1);               // copy mt mt
    lua_rawget(L, lua_upvalueindex(1)); // copy mt known
    bool known = lua_toboolean(L, -1);
    lua_pop(L, 1); // copy mt
    if (known)
        lua_setmetatable(L, copy);
    else
        lua_pop(L, 1);
}

/* Pushes a copy of the value at idx. */
static void copy_value(lua_State *L, int idx, int depth)
{
    switch (lua_type(L, idx)) {
    case LUA_TTABLE: copy_table(L, idx, depth); break;
    case LUA_TNIL:
    case LUA_TBOOLEAN:
    case LUA_TNUMBER:
    case LUA_TSTRING:
    case LUA_TLIGHTUSERDATA: /* json.null */ lua_pushvalue(L, idx); break;
    default: luaL_error(L, "the result holds a %s: only plain data can be handed out", luaL_typename(L, idx));
    }
}

static int data_k(lua_State *L, int status, lua_KContext ctx)
{
    int n = lua_gettop(L);
    (void)status;
    (void)ctx;
    luaL_checkstack(L, n + 8, NULL);
    for (int i = 1; i <= n; i++) {
        copy_value(L, i, 0);
        lua_replace(L, i);
    }
    return n;
}

static int l_data_body(lua_State *L)
{
    lua_callk(L, lua_gettop(L) - 1, LUA_MULTRET, 0, data_k);
    return data_k(L, LUA_OK, 0);
}

/* Stack: box fn args…; puts body, whose upvalue is the value on top, before fn. */
static int call_through(lua_State *L, lua_CFunction body, bool no_wait)
{
    lua_pushcclosure(L, body, 1); // box fn args… body
    lua_insert(L, 2);             // box body fn args…
    return call_as(L, no_wait);
}

/* native.data(box, fn, …): as call, the results copied. Upvalue 1: the metatables that stay. */
static int l_data(lua_State *L)
{
    luaL_checkany(L, 2);
    lua_pushvalue(L, lua_upvalueindex(1)); // box fn args… marks
    return call_through(L, l_data_body, false);
}

/* ---- results without the script's metatables ---- */

/* Takes off the table at idx a metatable that the box's scripts set (upvalue 1 knows them). False: it has another one,
 * and is the framework's own object, which is left alone. */
static bool strip_one(lua_State *L, int idx)
{
    if (!lua_getmetatable(L, idx)) return true;
    bool own = lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL; // … is
    lua_pop(L, 1);                                             // …
    if (!own) return false;
    lua_pushnil(L);
    lua_setmetatable(L, idx);
    return true;
}

/* … and off all tables that can be reached from it. seen: index of the table of those that were, or 0: then *left
 * counts down the tables that a walk without it may take, and false says that they were too many, or too deep. */
// NOLINTNEXTLINE(misc-no-recursion): PLAIN_DEPTH
static bool strip(lua_State *L, int idx, int seen, int depth, int *left)
{
    if (seen) {
        if (depth >= PLAIN_DEPTH) luaL_error(L, "the result is nested too deeply");
        bool known = lua_rawgetp(L, seen, lua_topointer(L, idx)) != LUA_TNIL;
        lua_pop(L, 1);
        if (known) return true;
        lua_pushboolean(L, 1);
        lua_rawsetp(L, seen, lua_topointer(L, idx));
    } else if (depth >= PLAIN_DEPTH || --*left < 0) {
        return false;
    }
    luaL_checkstack(L, 8, NULL);
    if (!strip_one(L, idx)) return true;
    int key = lua_gettop(L) + 1;
    lua_pushnil(L);            // … key
    while (lua_next(L, idx)) { // … key value
        budget__poll(host_of(L), L);
        if (lua_type(L, key) == LUA_TTABLE && !strip(L, key, seen, depth + 1, left)) return false;
        if (lua_type(L, key + 1) == LUA_TTABLE && !strip(L, key + 1, seen, depth + 1, left)) return false;
        lua_pop(L, 1); // … key
    }
    return true;
}

static void strip_result(lua_State *L, int idx)
{
    int top = lua_gettop(L), left = TREE_TABLES;
    if (lua_type(L, idx) != LUA_TTABLE || strip(L, idx, 0, 0, &left)) return;
    lua_settop(L, top);
    lua_newtable(L); // … seen
    strip(L, idx, top + 1, 0, &left);
    lua_settop(L, top);
}

static int clean_k(lua_State *L, int status, lua_KContext ctx)
{
    int n = lua_gettop(L);
    (void)status;
    (void)ctx;
    luaL_checkstack(L, 8, NULL);
    for (int i = 1; i <= n; i++)
        strip_result(L, i);
    return n;
}

static int l_clean_body(lua_State *L)
{
    lua_callk(L, lua_gettop(L) - 1, LUA_MULTRET, 0, clean_k);
    return clean_k(L, LUA_OK, 0);
}

static int clean_as(lua_State *L, bool no_wait)
{
    luaL_checkany(L, 2);
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_rawgeti(L, 1, 2); // box fn args… own
    return call_through(L, l_clean_body, no_wait);
}

/* native.clean(box, fn, …): as call, the results without the script's metatables, which box[2] knows. */
static int l_clean(lua_State *L) { return clean_as(L, false); }

static int l_clean_now(lua_State *L) { return clean_as(L, true); }

/* ---- chunks ---- */

typedef struct piece_reader {
    const char *at, *end;
} piece_reader;

/* The compiler cannot be suspended, and a short text can keep it busy for long: it gets a little at a time. */
static const char *read_piece(lua_State *L, void *arg, size_t *n)
{
    piece_reader *r = (piece_reader *)arg;
    const char *piece = r->at;
    budget__poll(host_of(L), L);
    *n = (size_t)(r->end - r->at) < LOAD_PIECE ? (size_t)(r->end - r->at) : LOAD_PIECE;
    r->at += *n;
    return *n ? piece : NULL;
}

/* native.load(text, chunkname, env) -> fn; or nil, message: text only. */
static int l_load(lua_State *L)
{
    size_t n;
    const char *text = luaL_checklstring(L, 1, &n), *name = luaL_checkstring(L, 2);
    luaL_checktype(L, 3, LUA_TTABLE);
    piece_reader r = {text, text + n};
    int status = lua_load(L, read_piece, &r, name, "t"); // text name env fn
    task *t = task_current(L);
    if (status != LUA_OK) {
        if (t && budget__condemned(t)) return budget__rethrow(L, t);
        if (status == LUA_ERRMEM && t && t->box) budget__condemn_box(L, t->box, ERR_NO_MEMORY);
        lua_pushnil(L);    // text name env message nil
        lua_insert(L, -2); // text name env nil message
        return 2;
    }
    lua_pushvalue(L, 3); // text name env fn env
    if (!lua_setupvalue(L, -2, 1)) lua_pop(L, 1);
    return 1;
}

/* native.placed(message) -> err, of a message of the compiler's */
static int l_placed(lua_State *L)
{
    err e = {0};
    ending end = {.limit = ERR_NONE};
    const char *text = luaL_checkstring(L, 1);
    size_t at = read_place(text, end.file, sizeof end.file, &end.line);
    err_set(&e, ERR_SCRIPT, "%s", text + at);
    push_error(L, &e, &end);
    return 1;
}

/* native.adopt(task, most) -> whether the call under way may have one more task; it is cancelled when the call ends. */
static int l_adopt(lua_State *L)
{
    task *child = task__check(L, 1);
    const task *t = task_current(L);
    box_frame *f = t ? t->box : NULL;
    lua_Integer most = luaL_checkinteger(L, 2);
    bool fits = f && f->n_children < most && f->n_children < BOX_CHILDREN;
    if (fits) {
        child->refs++;
        f->child[f->n_children++] = child;
    }
    lua_pushboolean(L, fits);
    return 1;
}

/* native.usage() -> bytes that the call under way holds, CPU milliseconds that it has used; nothing outside of a call
 */
static int l_usage(lua_State *L)
{
    const task *t = task_current(L);
    if (!t || !t->box) return 0;
    lua_pushinteger(L, (lua_Integer)t->box->account->used);
    lua_pushnumber(L, (lua_Number)(budget__cpu_ns(t) - t->box->begin_ns) / 1e6);
    return 2;
}

/* native.held(box) -> bytes that all calls of the box have left alive */
static int l_held(lua_State *L)
{
    lua_pushinteger(L, (lua_Integer)check_box(L)->account->used);
    return 1;
}

static const luaL_Reg FUNCS[] = {{"new", l_new},
                                 {"call", l_call},
                                 {"call_now", l_call_now},
                                 {"load", l_load},
                                 {"guards", box__guards},
                                 {"clean", l_clean},
                                 {"clean_now", l_clean_now},
                                 {"placed", l_placed},
                                 {"adopt", l_adopt},
                                 {"json_marks", box__json_marks},
                                 {"usage", l_usage},
                                 {"held", l_held},
                                 {NULL, NULL}};

static int l_open(lua_State *L)
{
    luaL_newlib(L, FUNCS);          // native
    lua_newtable(L);                // native marks
    lua_pushvalue(L, -1);           // native marks marks
    lua_setfield(L, -3, "marks");   // native marks
    lua_pushcclosure(L, l_data, 1); // native data
    lua_setfield(L, -2, "data");    // native
    return 1;
}

void box__install(lua_State *L)
{
    luaL_newmetatable(L, BOX_TYPE);                            // mt
    lua_pushcfunction(L, l_box_gc);                            // mt fn
    lua_setfield(L, -2, "__gc");                               // mt
    lua_pop(L, 1);                                             //
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE); // preload
    lua_pushcfunction(L, l_open);                              // preload open
    lua_setfield(L, -2, "lunette.sandbox.native");             // preload
    lua_pop(L, 1);                                             //
}
