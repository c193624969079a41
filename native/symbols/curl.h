/* SPDX-License-Identifier: MIT */
/* curl.h: libcurl, loaded when a symbol server's address is first looked at. Some twenty libraries come with it: three
 * megabytes of memory, and time at every start, which most runs need not spend. */
#ifndef LUNETTE_SYMBOLS_CURL_H
#define LUNETTE_SYMBOLS_CURL_H

#include <curl/curl.h>

#include "base/err.h"

#undef curl_easy_setopt /* the checks of their arguments are macros that call by name */
#undef curl_easy_getinfo

#define SYM_CURL_CALLS(call)                                                                                           \
    call(free) call(global_init) call(easy_init) call(easy_reset) call(easy_setopt) call(easy_perform)                 \
        call(easy_getinfo) call(easy_strerror) call(easy_escape) call(easy_cleanup) call(slist_append)                 \
            call(slist_free_all) call(url) call(url_set) call(url_get) call(url_cleanup)

/* libcurl's functions, without their prefix. */
typedef struct sym_curl {
#define SYM_CURL_CALL(name) __typeof__(&curl_##name) name;
    SYM_CURL_CALLS(SYM_CURL_CALL)
#undef SYM_CURL_CALL
} sym_curl;

/* NULL with *e (may be NULL) filled, NotSupported: it is not installed. Any thread. */
const sym_curl *sym_curl_get(err *e);

#endif
