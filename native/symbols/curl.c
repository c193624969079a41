/* SPDX-License-Identifier: MIT */
/* curl.c: finds libcurl's functions. */
#include "symbols/curl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static sym_curl curl;
static int found;

static int find(void *lib, const char *name, void *to)
{
    void *at = dlsym(lib, name);
    memcpy(to, &at, sizeof at); /* a pointer to data is none to a function, but POSIX says that it may be one */
    return at != NULL;
}

static void load(void)
{
    static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};
    void *lib = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !lib; i++)
        lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!lib) return;
    found = 1;
#define FIND(name) found &= find(lib, "curl_" #name, &curl.name);
    SYM_CURL_CALLS(FIND)
#undef FIND
    found = found && curl.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
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
