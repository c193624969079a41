/* SPDX-License-Identifier: MIT */
/* curl.c: finds libcurl's functions. */
#include "symbols/curl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static sym_curl curl;
static bool found;

static const struct {
    const char *name;
    void *to;
} calls[] = {
    {"curl_free", &curl.free},
    {"curl_global_init", &curl.global_init},
    {"curl_easy_init", &curl.easy_init},
    {"curl_easy_reset", &curl.easy_reset},
    {"curl_easy_setopt", &curl.easy_setopt},
    {"curl_easy_perform", &curl.easy_perform},
    {"curl_easy_getinfo", &curl.easy_getinfo},
    {"curl_easy_strerror", &curl.easy_strerror},
    {"curl_easy_escape", &curl.easy_escape},
    {"curl_easy_cleanup", &curl.easy_cleanup},
    {"curl_slist_append", &curl.slist_append},
    {"curl_slist_free_all", &curl.slist_free_all},
    {"curl_url", &curl.url},
    {"curl_url_set", &curl.url_set},
    {"curl_url_get", &curl.url_get},
    {"curl_url_cleanup", &curl.url_cleanup},
};

static void load(void)
{
    static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};
    void *lib = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !lib; i++)
        lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!lib) return;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        void *at = dlsym(lib, calls[i].name);
        if (!at) return;
        memcpy(calls[i].to, &at, sizeof at); /* POSIX: what dlsym gives may be a function, too */
    }
    found = curl.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
}

const sym_curl *sym_curl_get(err *e)
{
    pthread_once(&once, load);
    if (found) return &curl;
    (void)err_set(e, ERR_NOT_SUPPORTED, "no symbol server can be asked: libcurl.so.4 is not installed");
    if (e)
        err_hint(e, "install libcurl4, or leave the servers out of the symbol path: its folders are searched without");
    return NULL;
}
