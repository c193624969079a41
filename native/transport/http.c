/* SPDX-License-Identifier: MIT */
/* The HTTP server: libmicrohttpd driven from our loop through its epoll descriptor, with suspended connections while an
 * answer is made. */
#include "transport/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/log.h"
#include "base/mem.h"
#include "transport/kept.h"

#define REMIND_MS 50 /* between two reminders that a client has hung up */

struct client;
struct http_server {
    loop *l;
    struct MHD_Daemon *mhd;
    loop_fd *watch;
    loop_timer *timer, *reminder;
    struct client *hung_up; /* connections that MHD still holds */
    http_cfg cfg;
    char *cert, *key_pem;
    uint16_t port;
    bool running; /* inside MHD_run, which is not re-entrant */
    bool resumed; /* a connection was resumed: MHD_run is due */
    bool stopping;
    bool freed; /* http_server_free came from inside MHD_run, which has to unwind first */
    kept *kept;
    buf key, body;  /* of a lookup; reused */
    http_req *live; /* requests whose connection MHD still holds */
};

/* One connection. While a request is suspended MHD does not look at the socket; we do, to notice that the client hung
 * up. */
struct client {
    http_server *s;
    int fd;
    loop_fd *watch;
    http_req *req; /* the request under way, if any */
    bool gone;
    struct client *prev, *next; /* of hung_up, when gone */
};

struct http_req {
    unsigned refs;
    http_server *s; /* NULL once MHD is done with the request */
    struct MHD_Connection *conn;
    http_req *prev, *next;
    char *uri, *method;
    char remote[INET6_ADDRSTRLEN];
    buf body;
    struct client *client;
    bool begun, handed, suspended, closed, too_big, streaming, ended, queued, answered;
    size_t discarded;
    unsigned status;
    struct MHD_Response *response;
    buf out;        /* of a stream: written, not yet taken by MHD */
    size_t out_off; /* bytes of out that MHD took */
    void (*on_end)(void *arg, bool gone);
    void *on_end_arg;
};

static void on_timer(void *arg);

/* Under an outside loop MHD does not wake itself on a resume (seen with 0.9.75: its epoll descriptor stays quiet). */
static void req_resume(http_req *r)
{
    http_server *s = r->s;
    if (!s || !r->suspended) return;
    r->suspended = false;
    MHD_resume_connection(r->conn);
    if (s->resumed) return;
    s->resumed = true;
    if (s->running) return;
    loop_timer_del(s->timer);
    s->timer = loop_timer_at(s->l, 0, on_timer, s);
}

/* ---- the life of a request ---- */
http_req *http_req_ref(http_req *r)
{
    r->refs++;
    return r;
}

/* A queued response is MHD's; a stream's response keeps its request, so ours must not outlive the connection. */
static void drop_response(http_req *r)
{
    struct MHD_Response *resp = r->response;
    r->response = NULL;
    if (resp) MHD_destroy_response(resp);
}

static void req_free(http_req *r)
{
    free(r->uri);
    free(r->method);
    buf_fini(&r->body);
    buf_fini(&r->out);
    free(r);
}

void http_req_unref(http_req *r)
{
    if (!r || --r->refs > 0) return;
    req_free(r);
}

/* The last keeper let go without an answer: say so rather than leave the client waiting. */
static void req_unanswered(http_req *r)
{
    static const char body[] = "{\"error\":\"the request was dropped without an answer\"}";
    err e = {0};
    if (r->s && !r->answered && !r->closed) http_req_respond(r, 500, NULL, 0, slice_str(body), &e);
}

static void req_over(http_req *r, bool gone)
{
    r->closed = true;
    void (*fn)(void *, bool) = r->on_end;
    r->on_end = NULL;
    if (fn) fn(r->on_end_arg, gone);
}

static void req_client_gone(http_req *r)
{
    if (r->closed) return;
    req_over(r, true);
    req_resume(r);
}

/* After a short read MHD (0.9.75) waits for the next edge, and misses an end that came together with the data: it would
 * keep the connection until its timeout. Shutting down what the client has shut down already loses nothing and is such
 * an edge. */
static void remind(void *arg)
{
    http_server *s = arg;
    s->reminder = NULL;
    for (struct client *c = s->hung_up; c; c = c->next)
        if (!c->req) (void)shutdown(c->fd, SHUT_RD);
    if (s->hung_up) s->reminder = loop_timer_at(s->l, deadline_in_ms(REMIND_MS), remind, s);
}

static void client_hung_up(struct client *c)
{
    http_server *s = c->s;
    if (c->gone) return;
    c->gone = true;
    c->next = s->hung_up;
    if (s->hung_up) s->hung_up->prev = c;
    s->hung_up = c;
    if (!s->reminder) s->reminder = loop_timer_at(s->l, deadline_in_ms(REMIND_MS), remind, s);
}

static void client_free(struct client *c)
{
    if (!c) return;
    loop_fd_del(c->watch);
    if (c->next) c->next->prev = c->prev;
    if (c->prev)
        c->prev->next = c->next;
    else if (c->gone)
        c->s->hung_up = c->next;
    free(c);
}

static void on_hang_up(void *arg, uint32_t events)
{
    struct client *c = arg;
    if (!(events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))) return;
    client_hung_up(c);
    if (c->req && c->req->handed) req_client_gone(c->req);
}

static void on_connection(void *cls, struct MHD_Connection *conn, void **context,
                          enum MHD_ConnectionNotificationCode toe)
{
    http_server *s = cls;
    struct client *c = *context;
    if (toe == MHD_CONNECTION_NOTIFY_CLOSED) {
        client_free(c);
        *context = NULL;
        return;
    }
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(conn, MHD_CONNECTION_INFO_CONNECTION_FD);
    err e = {0};
    *context = c = mem_calloc(1, sizeof *c);
    if (!c || !info) return;
    c->s = s;
    c->fd = info->connect_fd;
    MHD_set_connection_option(conn, MHD_CONNECTION_OPTION_TIMEOUT, s->cfg.first_seconds);
    if (loop_fd_add(s->l, info->connect_fd, EPOLLRDHUP | EPOLLET, on_hang_up, c, &c->watch, &e) < 0)
        log_err(LOG_WARNING, "http", "a client's hang-up will be noticed late", &e);
}

static struct client *client_of(struct MHD_Connection *conn)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(conn, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

static void *on_uri(void *cls, const char *uri, struct MHD_Connection *conn)
{
    http_server *s = cls;
    http_req *r = mem_calloc(1, sizeof *r);
    if (!r) return NULL;
    r->refs = 1;
    r->s = s;
    r->conn = conn;
    r->client = client_of(conn);
    r->uri = slice_dup(slice_str(uri));
    buf_init(&r->body, s->cfg.body_max);
    buf_init(&r->out, HTTP_STREAM_BACKLOG_MAX);
    r->next = s->live;
    if (s->live) s->live->prev = r;
    s->live = r;
    return r;
}

static void on_completed(void *cls, struct MHD_Connection *conn, void **con_cls, enum MHD_RequestTerminationCode toe)
{
    (void)cls;
    (void)conn;
    http_req *r = *con_cls;
    if (!r) return;
    *con_cls = NULL;
    http_server *s = r->s;
    r->suspended = false;
    if (!r->closed) req_over(r, toe != MHD_REQUEST_TERMINATED_COMPLETED_OK);
    if (r->client) r->client->req = NULL;
    r->client = NULL;
    r->s = NULL;
    r->conn = NULL;
    if (r->prev)
        r->prev->next = r->next;
    else
        s->live = r->next;
    if (r->next) r->next->prev = r->prev;
    drop_response(r);
    http_req_unref(r);
}

struct header_list {
    http_kv *out;
    size_t n, max;
};

static enum MHD_Result list_header(void *cls, enum MHD_ValueKind kind, const char *key, const char *value)
{
    (void)kind;
    struct header_list *list = cls;
    if (list->n == list->max) return MHD_NO;
    list->out[list->n++] = (http_kv){slice_str(key), slice_str(value ? value : "")};
    return MHD_YES;
}

static void peer_text(http_req *r)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(r->conn, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    if (!info || !info->client_addr) return;
    if (info->client_addr->sa_family == AF_INET)
        inet_ntop(AF_INET, &((const struct sockaddr_in *)info->client_addr)->sin_addr, r->remote, sizeof r->remote);
    else if (info->client_addr->sa_family == AF_INET6)
        inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)info->client_addr)->sin6_addr, r->remote, sizeof r->remote);
}

static enum MHD_Result queue_simple(struct MHD_Connection *conn, unsigned status, const char *text)
{
    struct MHD_Response *resp = MHD_create_response_from_buffer(strlen(text), (void *)text, MHD_RESPMEM_PERSISTENT);
    if (!resp) return MHD_NO;
    MHD_add_response_header(resp, "Content-Type", "application/json");
    enum MHD_Result rc = MHD_queue_response(conn, status, resp);
    MHD_destroy_response(resp);
    return rc;
}

static enum MHD_Result refuse_body(http_req *r)
{
    r->answered = true;
    return queue_simple(r->conn, MHD_HTTP_CONTENT_TOO_LARGE,
                        "{\"error\":\"the body is larger than this server accepts\"}");
}

static enum MHD_Result begin(http_req *r, const char *method)
{
    r->begun = true;
    MHD_set_connection_option(r->conn, MHD_CONNECTION_OPTION_TIMEOUT, HTTP_IDLE_SECONDS);
    r->method = slice_dup(slice_str(method));
    if (!r->method || !r->uri) return MHD_NO;
    peer_text(r);
    int n = MHD_get_connection_values(r->conn, MHD_HEADER_KIND, NULL, NULL);
    if (n < 0 || n > HTTP_HEADERS_MAX)
        return queue_simple(r->conn, MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE, "{\"error\":\"too many headers\"}");
    const char *len = MHD_lookup_connection_value(r->conn, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    if (len && strtoull(len, NULL, 10) > r->s->cfg.body_max) return refuse_body(r);
    return MHD_YES;
}

static enum MHD_Result take_body(http_req *r, const char *data, size_t *n)
{
    if (!r->too_big && !buf_put(&r->body, data, *n)) r->too_big = true;
    if (r->too_big) r->discarded += *n;
    *n = 0;
    return r->discarded > r->s->cfg.body_max ? MHD_NO : MHD_YES;
}

static enum MHD_Result send_answer(http_req *r)
{
    r->queued = true;
    enum MHD_Result rc = MHD_queue_response(r->conn, r->status, r->response);
    drop_response(r);
    return rc;
}

/* Gives a kept answer, if there is one for this request. */
static bool answer_kept(http_req *r, enum MHD_Result *rc)
{
    http_server *s = r->s;
    slice id;
    if (!kept_any(s->kept) || !kept_id(buf_view(&r->body), &id) || !kept_key(&s->key, r, buf_view(&r->body), id))
        return false;
    const kept_answer *a = kept_find(s->kept, buf_view(&s->key));
    err e = {0};
    if (!a) return false;
    buf_reset(&s->body);
    if (!buf_slice(&s->body, a->head) || !buf_slice(&s->body, id) || !buf_slice(&s->body, a->tail)) return false;
    if (http_req_respond(r, a->status, a->headers, a->n_headers, buf_view(&s->body), &e) < 0) return false;
    *rc = send_answer(r);
    return true;
}

static enum MHD_Result on_access(void *cls, struct MHD_Connection *conn, const char *url, const char *method,
                                 const char *version, const char *data, size_t *n, void **con_cls)
{
    (void)url;
    (void)version;
    (void)conn;
    http_server *s = cls;
    http_req *r = *con_cls;
    if (!r || s->stopping) return MHD_NO;
    if (!r->begun) return begin(r, method);
    if (*n > 0) return take_body(r, data, n);
    if (r->closed) return MHD_NO;
    if (r->too_big) return refuse_body(r);
    if (r->queued) return MHD_YES;
    if (r->response) return send_answer(r);
    if (r->handed) return MHD_NO;
    enum MHD_Result rc;
    if (answer_kept(r, &rc)) return rc;
    r->handed = true;
    r->suspended = true;
    MHD_suspend_connection(r->conn);
    if (r->client) r->client->req = r;
    http_req_ref(r);
    s->cfg.on_request(s->cfg.arg, r);
    if (r->refs == 2) req_unanswered(r);
    if (r->client && r->client->gone) req_client_gone(r);
    http_req_unref(r);
    return MHD_YES;
}

/* ---- answers ---- */
static void add_headers(struct MHD_Response *resp, const http_kv *headers, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char *k = slice_dup(headers[i].name), *v = slice_dup(headers[i].value);
        if (k && v && MHD_add_response_header(resp, k, v) != MHD_YES)
            log_msg(LOG_WARNING, "http", "header %s was not accepted and is left out", k);
        free(k);
        free(v);
    }
}

static int may_answer(const http_req *r, err *e)
{
    if (r->answered) return err_set(e, ERR_CONFLICT, "this request was answered already");
    if (r->closed || !r->s) return err_set(e, ERR_CANCELLED, "the client is gone");
    return 0;
}

int http_req_respond(http_req *r, unsigned status, const http_kv *headers, size_t n, slice body, err *e)
{
    int rc = may_answer(r, e);
    if (rc < 0) return rc;
    r->response = MHD_create_response_from_buffer(body.n, (void *)body.p, MHD_RESPMEM_MUST_COPY);
    if (!r->response) return err_set(e, ERR_NO_MEMORY, "no memory for an answer of %zu bytes", body.n);
    add_headers(r->response, headers, n);
    r->status = status;
    r->answered = true;
    req_resume(r);
    return 0;
}

int http_req_respond_kept(http_req *r, unsigned status, const http_kv *headers, size_t n, slice head, slice tail,
                          uint64_t generation, err *e)
{
    http_server *s = r->s;
    slice id;
    int rc = may_answer(r, e);
    if (rc < 0) return rc;
    if (!kept_id(buf_view(&r->body), &id))
        return err_set(e, ERR_NOT_SUPPORTED, "the request has no JSON-RPC id that is a text or an integer");
    buf_reset(&s->body);
    if (!buf_slice(&s->body, head) || !buf_slice(&s->body, id) || !buf_slice(&s->body, tail))
        return err_set(e, ERR_NO_MEMORY, "no memory for an answer of %zu bytes", head.n + tail.n);
    if (kept_key(&s->key, r, buf_view(&r->body), id)) {
        kept_answer a = {.status = status, .headers = (http_kv *)headers, .n_headers = n, .head = head, .tail = tail};
        kept_put(s->kept, generation, buf_view(&s->key), &a);
    }
    return http_req_respond(r, status, headers, n, buf_view(&s->body), e);
}

uint64_t http_req_generation(const http_req *r) { return r->s ? kept_generation(r->s->kept) : 0; }
void http_server_forget(http_server *s) { kept_forget(s->kept); }

static ssize_t stream_read(void *cls, uint64_t pos, char *out, size_t max)
{
    (void)pos;
    http_req *r = cls;
    size_t n = r->out.n - r->out_off < max ? r->out.n - r->out_off : max;
    if (n > 0) {
        memcpy(out, r->out.p + r->out_off, n);
        r->out_off += n;
        if (r->out_off > r->out.n / 2) {
            buf_consume(&r->out, r->out_off);
            r->out_off = 0;
        }
        return (ssize_t)n;
    }
    if (r->ended) return MHD_CONTENT_READER_END_OF_STREAM;
    if (r->closed || !r->s || r->s->stopping) return MHD_CONTENT_READER_END_WITH_ERROR;
    r->suspended = true;
    MHD_suspend_connection(r->conn);
    return 0;
}

static void stream_free(void *cls) { http_req_unref(cls); }

int http_req_stream(http_req *r, unsigned status, const http_kv *headers, size_t n, err *e)
{
    int rc = may_answer(r, e);
    if (rc < 0) return rc;
    r->response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16384, stream_read, http_req_ref(r), stream_free);
    if (!r->response) {
        http_req_unref(r);
        return err_set(e, ERR_NO_MEMORY, "no memory for a stream");
    }
    add_headers(r->response, headers, n);
    r->status = status;
    r->answered = r->streaming = true;
    req_resume(r);
    return 0;
}

int http_req_write(http_req *r, slice data, err *e)
{
    if (!r->streaming || r->ended) return err_set(e, ERR_CONFLICT, "this stream is not open");
    if (r->closed || !r->s) return err_set(e, ERR_CANCELLED, "the client is gone");
    const size_t unread = r->out.n - r->out_off;
    r->out.max = r->out.n + data.n; /* one message is taken whatever its size: an answer may be larger than the limit */
    if (unread > HTTP_STREAM_BACKLOG_MAX || !buf_slice(&r->out, data)) {
        req_client_gone(r);
        return err_set(e, ERR_LIMIT, "the client left more than %zu bytes of its stream unread; the stream is closed",
                       HTTP_STREAM_BACKLOG_MAX);
    }
    req_resume(r);
    return 0;
}

void http_req_end(http_req *r)
{
    if (!r->streaming || r->ended) return;
    r->ended = true;
    req_resume(r);
}

bool http_req_answered(const http_req *r) { return r->answered; }
bool http_req_closed(const http_req *r) { return r->closed || !r->s; }

void http_req_on_end(http_req *r, void (*fn)(void *arg, bool gone), void *arg)
{
    r->on_end = fn;
    r->on_end_arg = arg;
}

const char *http_req_method(const http_req *r) { return r->method; }

slice http_req_path(const http_req *r)
{
    const char *q = strchr(r->uri, '?');
    return q ? slice_of(r->uri, (size_t)(q - r->uri)) : slice_str(r->uri);
}

slice http_req_query(const http_req *r)
{
    const char *q = strchr(r->uri, '?');
    return q ? slice_str(q + 1) : (slice){0};
}

slice http_req_body(const http_req *r) { return buf_view(&r->body); }
const char *http_req_remote(const http_req *r) { return r->remote; }

size_t http_req_headers(const http_req *r, http_kv *out, size_t max)
{
    struct header_list list = {out, 0, max};
    if (r->conn) MHD_get_connection_values(r->conn, MHD_HEADER_KIND, list_header, &list);
    return list.n;
}

/* ---- the server ---- */
static void server_run(void *arg);

static void on_timer(void *arg)
{
    http_server *s = arg;
    s->timer = NULL;
    server_run(s);
}

static void arm_timer(http_server *s)
{
    MHD_UNSIGNED_LONG_LONG ms = 0;
    loop_timer_del(s->timer);
    s->timer = NULL;
    if (s->resumed)
        s->timer = loop_timer_at(s->l, 0, on_timer, s);
    else if (MHD_get_timeout(s->mhd, &ms) == MHD_YES)
        s->timer = loop_timer_at(s->l, deadline_in_ms((int64_t)ms), on_timer, s);
}

static void server_run(void *arg)
{
    http_server *s = arg;
    if (s->running || s->stopping) return;
    s->running = true;
    s->resumed = false;
    MHD_run(s->mhd);
    s->running = false;
    if (s->freed)
        http_server_free(s);
    else
        arm_timer(s);
}

static void on_epoll(void *arg, uint32_t events)
{
    (void)events;
    server_run(arg);
}

static int parse_address(const char *text, uint16_t port, struct sockaddr_storage *out, bool *v6, err *e)
{
    struct sockaddr_in *in4 = (struct sockaddr_in *)out;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)out;
    if (inet_pton(AF_INET, text, &in4->sin_addr) == 1) {
        in4->sin_family = AF_INET;
        in4->sin_port = htons(port);
        *v6 = false;
        return 0;
    }
    if (inet_pton(AF_INET6, text, &in6->sin6_addr) == 1) {
        in6->sin6_family = AF_INET6;
        in6->sin6_port = htons(port);
        *v6 = true;
        return 0;
    }
    return err_set(e, ERR_INVALID_ARGUMENT, "'%s' is no IPv4 or IPv6 address", text);
}

static void mhd_log(void *cls, const char *fmt, va_list ap)
{
    (void)cls;
    char line[256];
    vsnprintf(line, sizeof line, fmt, ap);
    line[strcspn(line, "\n")] = 0;
    log_msg(LOG_DEBUG, "http", "%s", line);
}

static int start_daemon(http_server *s, const struct sockaddr *addr, bool v6, err *e)
{
    unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG | (v6 ? MHD_USE_IPv6 : 0u) |
                     (s->cert ? MHD_USE_TLS : 0u);
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, s->cert}, {MHD_OPTION_HTTPS_MEM_KEY, 0, s->key_pem}, {MHD_OPTION_END, 0, NULL}};
    if (!s->cert) tls[0].option = MHD_OPTION_END;
    errno = 0;
    s->mhd = MHD_start_daemon(flags, 0, NULL, NULL, on_access, s, MHD_OPTION_EXTERNAL_LOGGER, mhd_log, NULL,
                              MHD_OPTION_SOCK_ADDR, addr, MHD_OPTION_URI_LOG_CALLBACK, on_uri, s,
                              MHD_OPTION_NOTIFY_COMPLETED, on_completed, s, MHD_OPTION_NOTIFY_CONNECTION, on_connection,
                              s, MHD_OPTION_CONNECTION_LIMIT, HTTP_CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
                              HTTP_IDLE_SECONDS, MHD_OPTION_ARRAY, tls, MHD_OPTION_END);
    if (s->mhd) return 0;
    int sys = errno;
    if (s->cert && sys != EADDRINUSE && sys != EACCES)
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "TLS cannot start: the certificate and key must be PEM and belong together");
    err_sys(e, ERR_IO, sys, "cannot listen on %s port %u", s->cfg.address ? s->cfg.address : "127.0.0.1", s->cfg.port);
    if (sys == EADDRINUSE) err_hint(e, "another program has that port; choose one with --http ADDRESS:PORT");
    return -ERR_IO;
}

static int attach(http_server *s, err *e)
{
    const union MHD_DaemonInfo *ep = MHD_get_daemon_info(s->mhd, MHD_DAEMON_INFO_EPOLL_FD);
    const union MHD_DaemonInfo *port = MHD_get_daemon_info(s->mhd, MHD_DAEMON_INFO_BIND_PORT);
    BUG_IF(!ep, e);
    s->port = port ? port->port : s->cfg.port;
    int rc = loop_fd_add(s->l, ep->epoll_fd, EPOLLIN, on_epoll, s, &s->watch, e);
    if (rc == 0) arm_timer(s);
    return rc;
}

int http_server_new(loop *l, const http_cfg *cfg, http_server **out, err *e)
{
    struct sockaddr_storage addr = {0};
    bool v6 = false;
    http_server *s = mem_calloc(1, sizeof *s);
    int rc = s ? 0 : err_set(e, ERR_NO_MEMORY, "no memory for a server");
    if (rc < 0) goto fail;
    s->l = l;
    s->cfg = *cfg;
    s->kept = kept_new();
    buf_init(&s->key, 2 * KEPT_KEY_MAX);
    buf_init(&s->body, 0);
    if (!s->kept) {
        rc = err_set(e, ERR_NO_MEMORY, "no memory for a server");
        goto fail;
    }
    if (!s->cfg.body_max) s->cfg.body_max = HTTP_BODY_MAX_DEFAULT;
    if (!s->cfg.first_seconds) s->cfg.first_seconds = HTTP_FIRST_SECONDS;
    rc = parse_address(cfg->address ? cfg->address : "127.0.0.1", cfg->port, &addr, &v6, e);
    if (rc < 0) goto fail;
    if (!cfg->cert_pem != !cfg->key_pem) {
        rc = err_set(e, ERR_INVALID_ARGUMENT, "TLS needs a certificate and a key, and only one was given");
        goto fail;
    }
    if (cfg->cert_pem) {
        s->cert = slice_dup(slice_str(cfg->cert_pem));
        s->key_pem = slice_dup(slice_str(cfg->key_pem));
    }
    rc = start_daemon(s, (struct sockaddr *)&addr, v6, e);
    if (rc < 0) goto fail;
    rc = attach(s, e);
    if (rc < 0) goto fail;
    *out = s;
    return 0;
fail:
    http_server_free(s);
    return rc;
}

uint16_t http_server_port(const http_server *s) { return s->port; }

/* MHD aborts the process when it is stopped with suspended connections: wake them all first, and let them see that they
 * are to end. */
static void end_all(http_server *s)
{
    s->stopping = true;
    for (http_req *r = s->live, *next; r; r = next) {
        next = r->next;
        if (!r->closed) req_over(r, true);
        if (r->suspended) MHD_resume_connection(r->conn);
        r->suspended = false;
    }
}

void http_server_free(http_server *s)
{
    if (!s) return;
    loop_fd_del(s->watch);
    loop_timer_del(s->timer);
    loop_timer_del(s->reminder);
    s->watch = NULL;
    s->timer = s->reminder = NULL;
    s->freed = true;
    if (s->running) {
        s->stopping = true;
        return;
    }
    if (s->mhd) {
        end_all(s);
        MHD_run(s->mhd);
        MHD_stop_daemon(s->mhd);
        s->mhd = NULL;
    }
    kept_free(s->kept);
    buf_fini(&s->key);
    buf_fini(&s->body);
    free(s->cert);
    free(s->key_pem);
    free(s);
}
