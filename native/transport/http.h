/* SPDX-License-Identifier: MIT */
/* http.h: an HTTP/1.1 server on the loop's thread (libmicrohttpd does the parsing and TLS). A request is handed on when
 * its body is complete; the answer is one body, or a stream of writes. All functions are for the loop's thread. */
#ifndef LUNETTE_TRANSPORT_HTTP_H
#define LUNETTE_TRANSPORT_HTTP_H

#include "base/bytes.h"
#include "loop/loop.h"

typedef struct http_server http_server;
typedef struct http_req http_req;

#define HTTP_BODY_MAX_DEFAULT ((size_t)4 << 20) /* a larger body is answered 413 */
/* Bytes that a slow reader may leave unread: a message behind as many closes its stream. One message may be larger. */
#define HTTP_STREAM_BACKLOG_MAX ((size_t)8 << 20)
#define HTTP_CONNECTIONS_MAX    1024u
#define HTTP_IDLE_SECONDS       120u /* a connection without progress is closed; one that waits for its answer is not */
#define HTTP_FIRST_SECONDS      15u  /* a new connection must have sent its first request's headers by then */
#define HTTP_HEADERS_MAX        100

typedef struct http_cfg {
    const char *address;  /* numeric IPv4 or IPv6; NULL: 127.0.0.1 */
    uint16_t port;        /* 0: any; http_server_port tells which */
    const char *cert_pem; /* both or none: the PEM texts, for TLS; copied */
    const char *key_pem;
    size_t body_max;        /* bytes; 0: HTTP_BODY_MAX_DEFAULT */
    unsigned first_seconds; /* 0: HTTP_FIRST_SECONDS */
    /* A request is there. r is borrowed: keep it with http_req_ref until it is answered; one that nobody keeps is
     * answered 500. */
    void (*on_request)(void *arg, http_req *r);
    void *arg;
} http_cfg;

typedef struct http_kv {
    slice name, value; /* borrowed */
} http_kv;

/* Listens. Errors: INVALID_ARGUMENT (address, certificate), IO (port in use, with a hint). */
int http_server_new(loop *l, const http_cfg *cfg, http_server **out, err *e);
uint16_t http_server_port(const http_server *s);
/* Ends all streams and connections; requests still kept by others see http_req_closed. NULL is fine. */
void http_server_free(http_server *s);

http_req *http_req_ref(http_req *r);
void http_req_unref(http_req *r);
const char *http_req_method(const http_req *r);
slice http_req_path(const http_req *r);  /* as sent (still percent-encoded), without the query */
slice http_req_query(const http_req *r); /* after the '?', as sent; empty if none */
slice http_req_body(const http_req *r);
const char *http_req_remote(const http_req *r); /* numeric address of the peer */
/* The request's headers, at most HTTP_HEADERS_MAX; their number. Good while on_request runs. */
size_t http_req_headers(const http_req *r, http_kv *out, size_t max);

/* Answers with one body (copied). At most one answer: a second gives ERR_CONFLICT; ERR_CANCELLED when the client is
 * gone. */
int http_req_respond(http_req *r, unsigned status, const http_kv *headers, size_t n, slice body, err *e);
/* As http_req_respond with head, the request's JSON-RPC id and tail for a body; the server gives the same answer, with
 * their ids, to later requests that equal this one but for the id (kept.h), until http_server_forget. generation:
 * http_req_generation from before the answer was made. NOT_SUPPORTED when the request has no such id; nothing is
 * answered then. */
int http_req_respond_kept(http_req *r, unsigned status, const http_kv *headers, size_t n, slice head, slice tail,
                          uint64_t generation, err *e);
uint64_t http_req_generation(const http_req *r);
/* Drops all kept answers: what they were made from has changed. */
void http_server_forget(http_server *s);
/* Begins an answer of unknown length. Then writes, then the end. Each write is copied and goes out as soon as the
 * client reads. */
int http_req_stream(http_req *r, unsigned status, const http_kv *headers, size_t n, err *e);
int http_req_write(http_req *r, slice data,
                   err *e); /* CANCELLED: client gone; LIMIT: it does not read (the stream is closed then) */
void http_req_end(http_req *r);
/* True once http_req_respond or http_req_stream was called with success. */
bool http_req_answered(const http_req *r);
/* True once the client went away, or the answer was sent whole. */
bool http_req_closed(const http_req *r);
/* fn(arg, gone) once, when the exchange is over: gone tells whether the client went away before the answer was
 * complete. NULL removes it. */
void http_req_on_end(http_req *r, void (*fn)(void *arg, bool gone), void *arg);

#endif
