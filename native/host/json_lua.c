/* SPDX-License-Identifier: MIT */
/* json_lua.c: lunette.json: Lua values to compact JSON with exact integers, and back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/utf.h"
#include "host/faces.h"
#include "host/host_internal.h"

#define ARRAY_TYPE     "lunette.json.array"
#define RAW_TYPE       "lunette.json.raw"
#define ENCODER_TYPE   "lunette.json.encoder"
#define DECODER_TYPE   "lunette.json.decoder"
#define TEXT_MAX       ((size_t)128 << 20) /* bytes of one document, written or read */
#define KEYS_MAX       200000              /* keys of one object */
#define KEYS_FEW       12
#define KEEP_MAX       ((size_t)1 << 20) /* a buffer that grew past this is given back after use */
#define VALUE_PATH_MAX 200

/* A key of the object at hand; the key itself is on the stack. */
typedef struct json_key {
    const char *p; /* borrowed from the Lua string; NULL: the text is in digits */
    size_t n;
    int idx; /* stack index of the key */
    char digits[24];
} json_key;

static slice key_text(const json_key *k) { return slice_of(k->p ? k->p : k->digits, k->n); }

/* The metatables that mark arrays and raw text are upvalues 1 and 2 of every function; the reusable encoder or decoder
 * is upvalue 3, the string "__order" upvalue 4. */
enum { UP_ARRAY = 1, UP_RAW = 2, UP_TOOL = 3, UP_ORDER = 4 };

typedef struct encoder {
    buf out;
    jsonw w;
    lua_State *L;
    const char *why;           /* what is wrong; NULL: nothing yet */
    char path[VALUE_PATH_MAX]; /* where, written from the end as the levels return */
    size_t path_at;
    char why_text[96];
} encoder;

/* ---- encode: nothing here throws or makes Lua objects, so nothing is collected meanwhile ---- */

static bool write_value(encoder *en, int idx);

static bool wrong(encoder *en, const char *why)
{
    if (!en->why) en->why = why;
    return false;
}

/* On the way out of a failure: puts the key (or index) of this level before the path so far. False, for `return`. */
static bool wrong_in(encoder *en, slice key)
{
    if (key.n + 2 > en->path_at) return false;
    if (en->path[en->path_at]) en->path[--en->path_at] = '.';
    en->path_at -= key.n;
    memcpy(en->path + en->path_at, key.p, key.n);
    return false;
}

static bool wrong_at(encoder *en, lua_Integer i)
{
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%lld", (long long)i);
    return wrong_in(en, slice_of(digits, (size_t)n));
}

static bool write_array(encoder *en, int idx)
{
    lua_State *L = en->L;
    jsonw_array(&en->w);
    lua_Integer n = (lua_Integer)lua_rawlen(L, idx);
    for (lua_Integer i = 1; i <= n; i++) {
        lua_rawgeti(L, idx, i); // … v
        if (!write_value(en, lua_gettop(L))) return wrong_at(en, i);
        lua_pop(L, 1); // …
    }
    jsonw_end_array(&en->w);
    return true;
}

static int by_text(const void *a, const void *b)
{
    const json_key *x = (const json_key *)a, *y = (const json_key *)b;
    size_t n = x->n < y->n ? x->n : y->n;
    int c = memcmp(key_text(x).p, key_text(y).p, n);
    return c ? c : (x->n > y->n) - (x->n < y->n);
}

/* A number as an object's key: integers only, as digits. */
static bool number_key(encoder *en, json_key *k)
{
    int is_int = 0;
    lua_Integer i = lua_tointegerx(en->L, k->idx, &is_int);
    if (!is_int) return wrong(en, "a key is a fraction");
    k->n = (size_t)snprintf(k->digits, sizeof k->digits, "%lld", (long long)i);
    k->p = NULL;
    return true;
}

/* The keys of one object: few are on the C stack, many on the heap. */
typedef struct key_list {
    json_key *keys; /* few or heap */
    json_key *heap; /* the caller's to free */
    size_t n, cap;
    json_key few[KEYS_FEW];
} key_list;

static bool grow(key_list *list)
{
    size_t cap = 4 * list->cap;
    json_key *more = (json_key *)mem_realloc(list->heap, cap * sizeof *more);
    if (!more) return false;
    if (!list->heap) memcpy(more, list->few, sizeof list->few);
    list->keys = list->heap = more;
    list->cap = cap;
    return true;
}

/* Pushes all keys of the table at idx, and describes them in *list. */
static bool collect_keys(encoder *en, int idx, key_list *list)
{
    lua_State *L = en->L;
    lua_pushnil(L);            // … nil
    while (lua_next(L, idx)) { // … keys… key v
        lua_pop(L, 1);         // … keys… key
        if (list->n == KEYS_MAX || !lua_checkstack(L, 8)) return wrong(en, "too many keys");
        if (list->n == list->cap && !grow(list)) return wrong(en, "memory is out");
        json_key *k = &list->keys[list->n++];
        *k = (json_key){.idx = lua_gettop(L)};
        if (lua_type(L, -1) == LUA_TSTRING)
            k->p = lua_tolstring(L, -1, &k->n);
        else if (lua_type(L, -1) != LUA_TNUMBER)
            return wrong(en, "a key is neither text nor a number");
        else if (!number_key(en, k))
            return false;
        lua_pushvalue(L, -1); // … keys… key key      one stays, one goes to lua_next
    }
    return true;
}

static void sort_keys(key_list *list)
{
    if (list->n > KEYS_FEW) {
        qsort(list->keys, list->n, sizeof *list->keys, by_text);
        return;
    }
    for (size_t i = 1; i < list->n; i++) {
        json_key k = list->keys[i];
        size_t at = i;
        for (; at > 0 && by_text(&k, &list->keys[at - 1]) < 0; at--)
            list->keys[at] = list->keys[at - 1];
        list->keys[at] = k;
    }
}

/* Writes key and value; the key is on the stack at kidx, its text is s. */
static bool write_member(encoder *en, int idx, int kidx, slice s)
{
    lua_State *L = en->L;
    lua_pushvalue(L, kidx); // … key
    lua_rawget(L, idx);     // … v
    jsonw_key(&en->w, s);
    if (!write_value(en, lua_gettop(L))) return wrong_in(en, s);
    lua_pop(L, 1); // …
    return true;
}

/* The keys of __order, a list at stack index order, in its order. */
static bool write_ordered(encoder *en, int idx, int order)
{
    lua_State *L = en->L;
    lua_Integer n = (lua_Integer)lua_rawlen(L, order);
    for (lua_Integer i = 1; i <= n; i++) {
        if (lua_rawgeti(L, order, i) == LUA_TSTRING) { // … key
            size_t len;
            const char *p = lua_tolstring(L, -1, &len);
            lua_pushvalue(L, -1);                        // … key key
            bool there = lua_rawget(L, idx) != LUA_TNIL; // … key v
            lua_pop(L, 1);                               // … key
            if (there && !write_member(en, idx, lua_gettop(L), slice_of(p, len))) return false;
        }
        lua_pop(L, 1); // …
    }
    return true;
}

/* Pushes the set of an order's keys and gives its index; 0, with nothing pushed, for an order that is read faster than
 * a set is made. */
static int push_names(lua_State *L, int order)
{
    lua_Integer n = order ? (lua_Integer)lua_rawlen(L, order) : 0;
    if (n <= KEYS_FEW) return 0;
    lua_newtable(L); // … names
    for (lua_Integer i = 1; i <= n; i++) {
        if (lua_rawgeti(L, order, i) != LUA_TSTRING) { // … names key
            lua_pop(L, 1);
            continue;
        }
        lua_pushboolean(L, 1);
        lua_rawset(L, -3); // … names
    }
    return lua_gettop(L);
}

static bool in_order(lua_State *L, int order, int names, int kidx)
{
    if (!order) return false;
    if (names) {
        lua_pushvalue(L, kidx);                        // … key
        bool named = lua_rawget(L, names) != LUA_TNIL; // … v
        lua_pop(L, 1);                                 // …
        return named;
    }
    lua_Integer n = (lua_Integer)lua_rawlen(L, order);
    bool found = false;
    for (lua_Integer i = 1; i <= n && !found; i++) {
        lua_rawgeti(L, order, i); // … key
        found = lua_rawequal(L, -1, kidx);
        lua_pop(L, 1); // …
    }
    return found;
}

/* order: stack index of __order, or 0. */
static bool write_object(encoder *en, int idx, int order)
{
    lua_State *L = en->L;
    int top = lua_gettop(L);
    key_list list;
    list.heap = NULL;
    list.keys = list.few;
    list.n = 0;
    list.cap = KEYS_FEW;
    jsonw_object(&en->w);
    int names = push_names(L, order);
    bool ok = (!order || write_ordered(en, idx, order)) && collect_keys(en, idx, &list);
    if (ok) sort_keys(&list);
    for (size_t i = 0; ok && i < list.n; i++) {
        const json_key *k = &list.keys[i];
        if (!in_order(L, order, names, k->idx)) ok = write_member(en, idx, k->idx, key_text(k));
    }
    free(list.heap);
    lua_settop(L, top);
    jsonw_end_object(&en->w);
    return ok;
}

/* Does the table, an array by its first element, have any key beside 1 … n? Looks only at what follows the array part.
 */
static bool has_other_keys(lua_State *L, int idx)
{
    lua_Integer n = (lua_Integer)lua_rawlen(L, idx);
    lua_pushinteger(L, n);     // … key
    while (lua_next(L, idx)) { // … key v
        lua_pop(L, 1);         // … key
        int is_int = 0;
        lua_Integer i = lua_tointegerx(L, -1, &is_int);
        if (is_int && i >= 1 && i <= n && lua_type(L, -1) == LUA_TNUMBER) continue;
        lua_pop(L, 1); // …
        return true;
    }
    return false;
}

static bool write_raw(encoder *en, int idx)
{
    size_t n;
    lua_rawgeti(en->L, idx, 1); // … text
    const char *p = lua_tolstring(en->L, -1, &n);
    if (p) jsonw_raw(&en->w, slice_of(p, n));
    lua_pop(en->L, 1); // …
    return p || wrong(en, "raw JSON without its text");
}

/* Pushes the __order list of the metatable on top, or nil. */
static bool push_order(lua_State *L)
{
    lua_pushvalue(L, lua_upvalueindex(UP_ORDER)); // … mt "__order"
    return lua_rawget(L, -2) == LUA_TTABLE;       // … mt order
}

static bool write_table(encoder *en, int idx)
{
    lua_State *L = en->L;
    int top = lua_gettop(L), order = 0;
    bool ok = true, is_array = false, is_raw = false;
    if (en->w.depth >= JSON_DEPTH_MAX) return wrong(en, "nested too deep, or it contains itself");
    if (lua_getmetatable(L, idx)) { // … mt
        is_array = lua_rawequal(L, -1, lua_upvalueindex(UP_ARRAY));
        is_raw = lua_rawequal(L, -1, lua_upvalueindex(UP_RAW));
        if (!is_array && !is_raw && push_order(L)) order = lua_gettop(L); // … mt order
    }
    if (!is_array && !is_raw && !order) {
        is_array = lua_rawgeti(L, idx, 1) != LUA_TNIL; // … first
        lua_pop(L, 1);                                 // …
        if (is_array && has_other_keys(L, idx)) ok = wrong(en, "a list that has other keys too");
    }
    if (!ok)
        ;
    else if (is_raw)
        ok = write_raw(en, idx);
    else if (is_array)
        ok = write_array(en, idx);
    else
        ok = write_object(en, idx, order);
    if (ok) lua_settop(L, top);
    return ok;
}

static bool write_value(encoder *en, int idx)
{
    lua_State *L = en->L;
    size_t n;
    if (!lua_checkstack(L, 16)) return wrong(en, "the stack is full");
    if (budget__late(L)) return wrong(en, "it takes too long");
    switch (lua_type(L, idx)) {
    case LUA_TNIL: jsonw_null(&en->w); break;
    case LUA_TBOOLEAN: jsonw_bool(&en->w, lua_toboolean(L, idx)); break;
    case LUA_TNUMBER:
        if (lua_isinteger(L, idx))
            jsonw_int(&en->w, lua_tointeger(L, idx));
        else
            jsonw_num(&en->w, lua_tonumber(L, idx));
        break;
    case LUA_TSTRING: {
        const char *p = lua_tolstring(L, idx, &n);
        jsonw_str(&en->w, slice_of(p, n));
        break;
    }
    case LUA_TTABLE: return write_table(en, idx);
    case LUA_TLIGHTUSERDATA:
        if (lua_touserdata(L, idx)) return wrong(en, "a light userdata");
        jsonw_null(&en->w);
        break;
    default:
        snprintf(en->why_text, sizeof en->why_text, "a value of type %s", luaL_typename(L, idx));
        return wrong(en, en->why_text);
    }
    return true;
}

static int l_encoder_gc(lua_State *L)
{
    buf_fini(&((encoder *)lua_touserdata(L, 1))->out);
    return 0;
}

/* json.encode(v) -> text */
static int l_encode(lua_State *L)
{
    luaL_checkany(L, 1);
    lua_settop(L, 1); // v
    encoder *en = (encoder *)lua_touserdata(L, lua_upvalueindex(UP_TOOL));
    buf_reset(&en->out);
    jsonw_init(&en->w, &en->out);
    en->L = L;
    en->why = NULL;
    en->path_at = sizeof en->path - 1;
    en->path[en->path_at] = '\0';
    bool ok = write_value(en, 1);
    if (ok && !jsonw_done(&en->w)) ok = wrong(en, en->out.failed ? "the text is longer than 128 MiB" : "malformed");
    if (!ok) {
        const char *where = en->path + en->path_at;
        return luaL_error(L, "cannot encode %s: %s", *where ? where : "the value", en->why);
    }
    lua_pushlstring(L, (const char *)en->out.p, en->out.n); // v text
    if (en->out.cap > KEEP_MAX) buf_fini(&en->out);
    return 1;
}

/* ---- decode ---- */

/* A finalizer that runs while Lua tables are made here may decode too: it then finds the reader busy and gets one of
 * its own. */
typedef struct decoder {
    jsonr r;
    bool busy;
    int64_t since_ns; /* the resume in which it became busy: in a later one it is not, an error came between */
    bool ordered;     /* objects keep the order of their keys, in __order of a metatable, as encode reads it */
} decoder;

static int l_decoder_gc(lua_State *L)
{
    jsonr_fini(&((decoder *)lua_touserdata(L, 1))->r);
    return 0;
}

static decoder *push_decoder(lua_State *L)
{
    decoder *d = (decoder *)lua_newuserdatauv(L, sizeof *d, 0); // … decoder
    memset(d, 0, sizeof *d);
    luaL_setmetatable(L, DECODER_TYPE);
    return d;
}

static bool read_value(lua_State *L, decoder *d, json_tok tok);

/* Appends the key on top to the order of the object below it, unless the object has it already. */
static void note_key(lua_State *L)
{
    lua_pushvalue(L, -1);                                   // … object key key
    bool known = lua_rawget(L, -3) != LUA_TNIL;             // … object key old
    lua_pop(L, 1);                                          // … object key
    if (known || !lua_getmetatable(L, -2)) return;          // … object key mt
    lua_getfield(L, -1, "__order");                         // … object key mt order
    lua_pushvalue(L, -3);                                   // … object key mt order key
    lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1); // … object key mt order
    lua_pop(L, 2);                                          // … object key
}

static bool read_object(lua_State *L, decoder *d)
{
    lua_newtable(L); // … object
    if (d->ordered) {
        lua_createtable(L, 0, 1);       // … object mt
        lua_newtable(L);                // … object mt order
        lua_setfield(L, -2, "__order"); // … object mt
        lua_setmetatable(L, -2);        // … object
    }
    for (;;) {
        json_tok tok = jsonr_next(&d->r);
        if (tok == JSON_OBJECT_END) return true;
        if (tok != JSON_KEY) return false;
        lua_pushlstring(L, (const char *)d->r.str.p, d->r.str.n); // … object key
        if (d->ordered) note_key(L);
        if (!read_value(L, d, jsonr_next(&d->r))) return false; // … object key value
        lua_rawset(L, -3);                                      // … object
    }
}

static bool read_array(lua_State *L, decoder *d)
{
    lua_newtable(L);                              // … array
    lua_pushvalue(L, lua_upvalueindex(UP_ARRAY)); // … array mt
    lua_setmetatable(L, -2);                      // … array
    for (lua_Integer i = 1;; i++) {
        json_tok tok = jsonr_next(&d->r);
        if (tok == JSON_ARRAY_END) return true;
        if (!read_value(L, d, tok)) return false; // … array value
        lua_rawseti(L, -2, i);                    // … array
    }
}

/* Pushes the value that tok begins. False on malformed text; the stack is then anyhow. */
static bool read_value(lua_State *L, decoder *d, json_tok tok)
{
    budget__poll(host_of(L), L); /* it may throw: the next decode sees that this one was left */
    luaL_checkstack(L, 8, "JSON nested too deep");
    switch (tok) {
    case JSON_OBJECT: return read_object(L, d);
    case JSON_ARRAY: return read_array(L, d);
    case JSON_STR: lua_pushlstring(L, (const char *)d->r.str.p, d->r.str.n); return true;
    case JSON_INT: lua_pushinteger(L, d->r.i); return true;
    case JSON_NUM: lua_pushnumber(L, d->r.num); return true;
    case JSON_TRUE: lua_pushboolean(L, 1); return true;
    case JSON_FALSE: lua_pushboolean(L, 0); return true;
    case JSON_NULL: lua_pushlightuserdata(L, NULL); return true;
    case JSON_ERROR:
    case JSON_END:
    case JSON_OBJECT_END:
    case JSON_ARRAY_END:
    case JSON_KEY: return false;
    }
    return false;
}

/* json.decode(text, ordered?) -> value, or nil, err */
static int l_decode(lua_State *L)
{
    size_t n;
    const char *text = luaL_checklstring(L, 1, &n);
    bool ordered = lua_isboolean(L, 2) && lua_toboolean(L, 2); /* not the count that gsub gives */
    lua_settop(L, 1);                                          // text
    err e = {0};
    if (n > TEXT_MAX) {
        err_set(&e, ERR_LIMIT, "JSON text of %zu bytes; the most is %zu", n, TEXT_MAX);
        return host_push_err(L, &e);
    }
    decoder *d = (decoder *)lua_touserdata(L, lua_upvalueindex(UP_TOOL));
    int64_t now_ns = host_of(L)->resumed_ns;
    if (d->busy && d->since_ns != now_ns) jsonr_fini(&d->r);
    if (d->busy && d->since_ns == now_ns) d = push_decoder(L); // text (decoder)
    d->busy = true;
    d->since_ns = now_ns;
    d->ordered = ordered;
    jsonr_init(&d->r, slice_of(text, n));
    bool ok = read_value(L, d, jsonr_next(&d->r)) && jsonr_next(&d->r) == JSON_END; // text (decoder) value
    if (!ok) {
        e = d->r.e;
        err_set(&e, ERR_MALFORMED, "not a JSON value");
    }
    jsonr_fini(&d->r);
    d->busy = false;
    return ok ? 1 : host_push_err(L, &e);
}

/* ---- marks ---- */

/* json.array(t?) -> t, marked as an array */
static int l_array(lua_State *L)
{
    if (lua_isnoneornil(L, 1)) {
        lua_settop(L, 0);
        lua_newtable(L); // t
    }
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);             // t
    if (lua_getmetatable(L, 1)) { // t mt
        luaL_argcheck(L, lua_rawequal(L, -1, lua_upvalueindex(UP_ARRAY)), 1, "has a metatable of its own");
        lua_pop(L, 1); // t
        return 1;
    }
    lua_pushvalue(L, lua_upvalueindex(UP_ARRAY)); // t mt
    lua_setmetatable(L, 1);                       // t
    return 1;
}

/* json.is_array(v): marked, or a table with [1] */
static int l_is_array(lua_State *L)
{
    bool yes = false;
    if (lua_istable(L, 1)) {
        yes = lua_getmetatable(L, 1) && lua_rawequal(L, -1, lua_upvalueindex(UP_ARRAY));
        if (!yes) yes = lua_rawgeti(L, 1, 1) != LUA_TNIL;
    }
    lua_pushboolean(L, yes);
    return 1;
}

/* json.raw(text) -> a value that encodes as this text */
static int l_raw(lua_State *L)
{
    luaL_checkstring(L, 1);
    lua_createtable(L, 1, 0);                   // text raw
    lua_pushvalue(L, 1);                        // text raw text
    lua_rawseti(L, -2, 1);                      // text raw
    lua_pushvalue(L, lua_upvalueindex(UP_RAW)); // text raw mt
    lua_setmetatable(L, -2);                    // text raw
    return 1;
}

static const luaL_Reg ENCODE[] = {{"encode", l_encode}, {NULL, NULL}};
static const luaL_Reg DECODE[] = {{"decode", l_decode}, {NULL, NULL}};
static const luaL_Reg MARKS[] = {{"array", l_array}, {"is_array", l_is_array}, {"raw", l_raw}, {NULL, NULL}};

static void with_gc(lua_State *L, const char *type, lua_CFunction gc)
{
    luaL_newmetatable(L, type);  // mt
    lua_pushcfunction(L, gc);    // mt fn
    lua_setfield(L, -2, "__gc"); // mt
    lua_pop(L, 1);               //
}

/* Stack: json array_mt raw_mt; adds the functions, whose third upvalue is on top and is popped. */
static void add_funcs(lua_State *L, const luaL_Reg *funcs)
{
    lua_pushvalue(L, 2);           // … tool array
    lua_pushvalue(L, 3);           // … tool array raw
    lua_rotate(L, -3, 2);          // … array raw tool
    lua_pushliteral(L, "__order"); // … array raw tool "__order"
    lua_pushvalue(L, 1);           // … array raw tool "__order" json
    lua_insert(L, -5);             // … json array raw tool "__order"
    luaL_setfuncs(L, funcs, 4);    // … json
    lua_pop(L, 1);                 // …
}

int luaopen_lunette_json(lua_State *L)
{
    with_gc(L, ENCODER_TYPE, l_encoder_gc);
    with_gc(L, DECODER_TYPE, l_decoder_gc);
    lua_settop(L, 0);
    lua_newtable(L);                                              // json
    luaL_newmetatable(L, ARRAY_TYPE);                             // json array
    luaL_newmetatable(L, RAW_TYPE);                               // json array raw
    encoder *en = (encoder *)lua_newuserdatauv(L, sizeof *en, 0); // json array raw encoder
    memset(en, 0, sizeof *en);
    buf_init(&en->out, TEXT_MAX);
    luaL_setmetatable(L, ENCODER_TYPE);
    add_funcs(L, ENCODE);           // json array raw
    push_decoder(L);                // json array raw decoder
    add_funcs(L, DECODE);           // json array raw
    lua_pushnil(L);                 // json array raw nil
    add_funcs(L, MARKS);            // json array raw
    lua_settop(L, 1);               // json
    lua_pushlightuserdata(L, NULL); // json null
    lua_setfield(L, 1, "null");     // json
    return 1;
}
