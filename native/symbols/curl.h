/* SPDX-License-Identifier: MIT */
/* curl.h: libcurl, loaded when a symbol server's address is first looked at. Some twenty libraries come with it: three
 * megabytes of memory, and time at every start, which most runs need not spend. */
#ifndef LUNETTE_SYMBOLS_CURL_H
#define LUNETTE_SYMBOLS_CURL_H

#include <curl/curl.h>

#include "base/err.h"

#undef curl_easy_setopt /* the checks of their arguments are macros that call by name */
#undef curl_easy_getinfo

/* libcurl's functions, without their prefix. */
typedef struct sym_curl {
    __typeof__(&curl_free) free;
    __typeof__(&curl_global_init) global_init;
    __typeof__(&curl_easy_init) easy_init;
    __typeof__(&curl_easy_reset) easy_reset;
    __typeof__(&curl_easy_setopt) easy_setopt;
    __typeof__(&curl_easy_perform) easy_perform;
    __typeof__(&curl_easy_getinfo) easy_getinfo;
    __typeof__(&curl_easy_strerror) easy_strerror;
    __typeof__(&curl_easy_escape) easy_escape;
    __typeof__(&curl_easy_cleanup) easy_cleanup;
    __typeof__(&curl_slist_append) slist_append;
    __typeof__(&curl_slist_free_all) slist_free_all;
    __typeof__(&curl_url) url;
    __typeof__(&curl_url_set) url_set;
    __typeof__(&curl_url_get) url_get;
    __typeof__(&curl_url_cleanup) url_cleanup;
} sym_curl;

/* NULL with *e (may be NULL) filled, NotSupported: it is not installed. Any thread. */
const sym_curl *sym_curl_get(err *e);

#endif
