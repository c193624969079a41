/* SPDX-License-Identifier: MIT */
/* The Lua face of the HTTP server: lunette.http. Each request runs on_request(req) in a task of its own. */
#include <stdlib.h>

#include "base/log.h"
#include "host/host.h"
#include "transport/http.h"

#define SERVER_TYPE "lunette.http.server"
#define REQ_TYPE    "lunette.http.request"

typedef struct server_ud {
    http_server *server;
    host *h;
    int on_request; /* registry reference */
    int self;       /* registry reference: a server that listens is alive, whoever holds it */
} server_ud;

typedef struct req_ud {
    http_req *req;
    host *h;
    int on_close; /* registry reference of the function to run when the client goes away */
} req_ud;

/* ---- requests ---- */
static void push_slice(lua_State *L, slice s) { lua_pushlstring(L, s.n ? (const char *)s.p : "", s.n); }

static void set_slice(lua_State *L, const char *key, slice s)
{
    push_slice(L, s);
    lua_setfield(L, -2, key);
}

static void push_headers(lua_State *L, const http_req *r)
{
    http_kv h[HTTP_HEADERS_MAX];
    size_t n = http_req_headers(r, h, HTTP_HEADERS_MAX);
    lua_createtable(L, 0, (int)n); // headers
    for (size_t i = 0; i < n; i++) {
        luaL_Buffer b;
        char *name = luaL_buffinitsize(L, &b, h[i].name.n);
        for (size_t k = 0; k < h[i].name.n; k++)
            name[k] = (char)(h[i].name.p[k] >= 'A' && h[i].name.p[k] <= 'Z' ? h[i].name.p[k] + 32 : h[i].name.p[k]);
        luaL_pushresultsize(&b, h[i].name.n);   // headers name
        lua_pushvalue(L, -1);                   // headers name name
        if (lua_rawget(L, -3) == LUA_TSTRING) { // headers name old
            lua_pushliteral(L, ", ");
            push_slice(L, h[i].value);
            lua_concat(L, 3); // headers name both
        } else {
            lua_pop(L, 1);
            push_slice(L, h[i].value); // headers name value
        }
        lua_rawset(L, -3); // headers
    }
}

static void push_request(lua_State *L, host *h, http_req *r)
{
    req_ud *u = lua_newuserdatauv(L, sizeof *u, 1); // req
    *u = (req_ud){.req = NULL, .h = h, .on_close = LUA_NOREF};
    luaL_setmetatable(L, REQ_TYPE);
    lua_createtable(L, 0, 6); // req fields
    lua_pushstring(L, http_req_method(r));
    lua_setfield(L, -2, "method");
    set_slice(L, "path", http_req_path(r));
    set_slice(L, "query", http_req_query(r));
    set_slice(L, "body", http_req_body(r));
    lua_pushstring(L, http_req_remote(r));
    lua_setfield(L, -2, "remote");
    push_headers(L, r);
    lua_setfield(L, -2, "headers");
    lua_setiuservalue(L, -2, 1); // req
    u->req = http_req_ref(r);
}

/* For a request that no script answered. */
static void answer_500(http_req *r)
{
    static const char body[] = "{\"error\":\"the server could not answer this request; its log says why\"}";
    const http_kv type = {SLICE_LIT("Content-Type"), SLICE_LIT("application/json")};
    err e = {0};
    if (!http_req_answered(r)) http_req_respond(r, 500, &type, 1, slice_str(body), &e);
}

static req_ud *check_req(lua_State *L) { return luaL_checkudata(L, 1, REQ_TYPE); }

/* req.NAME: a method, else one of the fields. */
static int l_req_index(lua_State *L)
{
    check_req(L);
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) return 1;
    lua_getiuservalue(L, 1, 1);
    lua_pushvalue(L, 2);
    lua_rawget(L, -2);
    return 1;
}

/* Reads a table of headers at idx into kv, which has HTTP_HEADERS_MAX places; their number. */
static size_t read_headers(lua_State *L, int idx, http_kv *kv)
{
    if (lua_isnoneornil(L, idx)) return 0;
    luaL_checktype(L, idx, LUA_TTABLE);
    size_t n = 0;
    lua_pushnil(L);
    while (lua_next(L, idx)) { // … key value
        size_t kn = 0, vn = 0;
        if (lua_type(L, -2) != LUA_TSTRING || lua_type(L, -1) != LUA_TSTRING)
            luaL_error(L, "headers must map names to strings");
        const char *k = lua_tolstring(L, -2, &kn);
        const char *v = lua_tolstring(L, -1, &vn);
        if (n == HTTP_HEADERS_MAX) luaL_error(L, "more than %d headers", HTTP_HEADERS_MAX);
        kv[n++] = (http_kv){slice_of(k, kn), slice_of(v, vn)};
        lua_pop(L, 1); // … key    both strings stay referenced by the caller's table
    }
    return n;
}

static int push_status(lua_State *L, int rc, const err *e)
{
    if (rc < 0) return host_push_err(L, e);
    lua_pushboolean(L, 1);
    return 1;
}

/* req:respond(status, headers?, body?) -> true, or nil, err */
static int l_respond(lua_State *L)
{
    req_ud *u = check_req(L);
    lua_Integer status = luaL_checkinteger(L, 2);
    size_t n = 0;
    lua_settop(L, 4);
    const char *body = luaL_optlstring(L, 4, "", &n);
    http_kv kv[HTTP_HEADERS_MAX];
    luaL_argcheck(L, status >= 200 && status <= 599, 2, "an HTTP status from 200 to 599");
    size_t nh = read_headers(L, 3, kv);
    err e = {0};
    return push_status(L, http_req_respond(u->req, (unsigned)status, kv, nh, slice_of(body, n), &e), &e);
}

/* req:respond_kept(status, headers, head, tail, generation) -> true, or nil, err. The body is head, the request's own
 * JSON-RPC id, tail; later requests that equal this one but for the id get the same without a script, until
 * server:forget(). generation: req:generation() from before the answer was made. */
static int l_respond_kept(lua_State *L)
{
    req_ud *u = check_req(L);
    lua_Integer status = luaL_checkinteger(L, 2);
    size_t nh = 0, nt = 0;
    const char *head = luaL_checklstring(L, 4, &nh), *tail = luaL_checklstring(L, 5, &nt);
    uint64_t generation = (uint64_t)luaL_checkinteger(L, 6);
    http_kv kv[HTTP_HEADERS_MAX];
    luaL_argcheck(L, status >= 200 && status <= 599, 2, "an HTTP status from 200 to 599");
    size_t n = read_headers(L, 3, kv);
    err e = {0};
    return push_status(
        L,
        http_req_respond_kept(u->req, (unsigned)status, kv, n, slice_of(head, nh), slice_of(tail, nt), generation, &e),
        &e);
}

static int l_generation(lua_State *L)
{
    lua_pushinteger(L, (lua_Integer)http_req_generation(check_req(L)->req));
    return 1;
}

/* req:stream(status, headers?) -> the request itself, now open for write and close; or nil, err */
static int l_stream(lua_State *L)
{
    req_ud *u = check_req(L);
    lua_Integer status = luaL_checkinteger(L, 2);
    http_kv kv[HTTP_HEADERS_MAX];
    lua_settop(L, 3);
    luaL_argcheck(L, status >= 200 && status <= 599, 2, "an HTTP status from 200 to 599");
    size_t nh = read_headers(L, 3, kv);
    err e = {0};
    if (http_req_stream(u->req, (unsigned)status, kv, nh, &e) < 0) return host_push_err(L, &e);
    lua_pushvalue(L, 1);
    return 1;
}

static int l_write(lua_State *L)
{
    req_ud *u = check_req(L);
    size_t n = 0;
    const char *text = luaL_checklstring(L, 2, &n);
    err e = {0};
    return push_status(L, http_req_write(u->req, slice_of(text, n), &e), &e);
}

static int l_close(lua_State *L)
{
    http_req_end(check_req(L)->req);
    return 0;
}

static int l_closed(lua_State *L)
{
    lua_pushboolean(L, http_req_closed(check_req(L)->req));
    return 1;
}

/* The function is let go of in any case: it may hold the request, which holds nothing else alive. */
static void exchange_over(void *arg, bool gone)
{
    req_ud *u = arg;
    lua_State *L = host_state(u->h);
    int ref = u->on_close;
    u->on_close = LUA_NOREF;
    if (ref == LUA_NOREF) return;
    lua_rawgeti(L, LUA_REGISTRYINDEX, ref); // fn
    luaL_unref(L, LUA_REGISTRYINDEX, ref);
    if (!gone)
        lua_pop(L, 1);
    else if (!host_spawn(u->h, 0, NULL, NULL))
        log_msg(LOG_ERROR, "http", "no memory to tell a script that its client is gone");
}

/* req:on_close(fn): fn runs as a task if the client goes away before the answer is complete; at once if it is gone
 * already. nil removes it. */
static int l_on_close(lua_State *L)
{
    req_ud *u = check_req(L);
    luaL_unref(L, LUA_REGISTRYINDEX, u->on_close);
    u->on_close = LUA_NOREF;
    http_req_on_end(u->req, NULL, NULL);
    if (lua_isnoneornil(L, 2)) return 0;
    luaL_checktype(L, 2, LUA_TFUNCTION);
    lua_pushvalue(L, 2);
    u->on_close = luaL_ref(L, LUA_REGISTRYINDEX);
    if (http_req_closed(u->req))
        exchange_over(u, true);
    else
        http_req_on_end(u->req, exchange_over, u);
    return 0;
}

static int l_req_gc(lua_State *L)
{
    req_ud *u = check_req(L);
    if (!u->req) return 0;
    http_req_on_end(u->req, NULL, NULL);
    luaL_unref(L, LUA_REGISTRYINDEX, u->on_close);
    u->on_close = LUA_NOREF;
    answer_500(u->req);
    http_req_end(u->req);
    http_req_unref(u->req);
    u->req = NULL;
    return 0;
}

/* ---- the server ---- */
static void request_done(void *arg, task *t, lua_State *L, bool ok, int nres)
{
    http_req *r = arg;
    (void)t;
    (void)nres;
    if (!ok) {
        err e = {0};
        host_to_err(L, -1, &e);
        log_err(LOG_ERROR, "http", "a request ended in an error", &e);
        answer_500(r);
        http_req_end(r);
    }
    http_req_unref(r);
}

static int l_push_request(lua_State *L)
{
    server_ud *s = lua_touserdata(L, 1);
    push_request(L, s->h, lua_touserdata(L, 2));
    return 1;
}

static void on_request(void *arg, http_req *r)
{
    server_ud *s = arg;
    lua_State *L = host_state(s->h);
    lua_rawgeti(L, LUA_REGISTRYINDEX, s->on_request); // fn
    lua_pushcfunction(L, l_push_request);             // fn push
    lua_pushlightuserdata(L, s);
    lua_pushlightuserdata(L, r);
    if (lua_pcall(L, 2, 1, 0) != LUA_OK) { // fn req | fn error
        lua_pop(L, 2);
        log_msg(LOG_ERROR, "http", "no memory for a request");
        return;
    }
    if (!host_spawn(s->h, 1, request_done, http_req_ref(r))) http_req_unref(r);
}

static char *opt_field(lua_State *L, const char *key)
{
    lua_getfield(L, 1, key);
    if (lua_isnil(L, -1)) return NULL;
    if (lua_type(L, -1) != LUA_TSTRING) luaL_error(L, "listen: '%s' must be a string", key);
    return (char *)lua_tostring(L, -1); /* stays on the stack, and in the caller's table */
}

static lua_Integer opt_int(lua_State *L, const char *key, lua_Integer min, lua_Integer max)
{
    lua_getfield(L, 1, key);
    lua_Integer v = luaL_optinteger(L, -1, 0);
    if (v < min || v > max) luaL_error(L, "listen: '%s' must be from %d to %d", key, (int)min, (int)max);
    return v;
}

/* http.listen{address=, port=, tls_cert=PEM?, tls_key=PEM?, max_body=bytes?, on_request=fn(req)} -> server, or nil, err
 */
static int l_listen(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    server_ud *s = lua_newuserdatauv(L, sizeof *s, 0); // cfg server
    *s = (server_ud){.server = NULL, .h = host_of(L), .on_request = LUA_NOREF, .self = LUA_NOREF};
    luaL_setmetatable(L, SERVER_TYPE);
    if (lua_getfield(L, 1, "on_request") != LUA_TFUNCTION)
        return luaL_error(L, "listen: 'on_request' must be a function");
    s->on_request = luaL_ref(L, LUA_REGISTRYINDEX);
    http_cfg cfg = {.on_request = on_request, .arg = s};
    cfg.address = opt_field(L, "address");
    cfg.cert_pem = opt_field(L, "tls_cert");
    cfg.key_pem = opt_field(L, "tls_key");
    cfg.port = (uint16_t)opt_int(L, "port", 0, 65535);
    cfg.body_max = (size_t)opt_int(L, "max_body", 0, 1 << 30);
    err e = {0};
    if (http_server_new(host_loop(L), &cfg, &s->server, &e) < 0) return host_push_err(L, &e);
    lua_pushvalue(L, 2);
    s->self = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_pushvalue(L, 2);
    return 1;
}

static int l_server_close(lua_State *L)
{
    server_ud *s = luaL_checkudata(L, 1, SERVER_TYPE);
    http_server *server = s->server;
    s->server = NULL;
    http_server_free(server);
    luaL_unref(L, LUA_REGISTRYINDEX, s->on_request);
    luaL_unref(L, LUA_REGISTRYINDEX, s->self);
    s->on_request = s->self = LUA_NOREF;
    return 0;
}

/* server:forget(): drops all kept answers. */
static int l_server_forget(lua_State *L)
{
    server_ud *s = luaL_checkudata(L, 1, SERVER_TYPE);
    if (s->server) http_server_forget(s->server);
    return 0;
}

static int l_server_index(lua_State *L)
{
    server_ud *s = luaL_checkudata(L, 1, SERVER_TYPE);
    const char *key = luaL_checkstring(L, 2);
    if (strcmp(key, "port") == 0 && s->server)
        lua_pushinteger(L, http_server_port(s->server));
    else if (strcmp(key, "forget") == 0)
        lua_pushcfunction(L, l_server_forget);
    else if (strcmp(key, "close") == 0)
        lua_pushcfunction(L, l_server_close);
    else
        lua_pushnil(L);
    return 1;
}

static const luaL_Reg req_methods[] = {{"respond", l_respond},
                                       {"respond_kept", l_respond_kept},
                                       {"generation", l_generation},
                                       {"stream", l_stream},
                                       {"write", l_write},
                                       {"close", l_close},
                                       {"closed", l_closed},
                                       {"on_close", l_on_close},
                                       {NULL, NULL}};
static const luaL_Reg functions[] = {{"listen", l_listen}, {NULL, NULL}};

int luaopen_lunette_http(lua_State *L);
int luaopen_lunette_http(lua_State *L)
{
    luaL_newmetatable(L, REQ_TYPE); // mt
    luaL_newlib(L, req_methods);    // mt methods
    lua_pushcclosure(L, l_req_index, 1);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, l_req_gc);
    lua_setfield(L, -2, "__gc");
    luaL_newmetatable(L, SERVER_TYPE);
    lua_pushcfunction(L, l_server_index);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, l_server_close);
    lua_setfield(L, -2, "__gc");
    lua_pushcfunction(L, l_server_close);
    lua_setfield(L, -2, "__close");
    luaL_newlib(L, functions);
    return 1;
}
