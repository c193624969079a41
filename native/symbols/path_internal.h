/* SPDX-License-Identifier: MIT */
/* path_internal.h: what a symbol path is made of, for the finder. */
#ifndef LUNETTE_SYMBOLS_PATH_INTERNAL_H
#define LUNETTE_SYMBOLS_PATH_INTERNAL_H

#include <stdatomic.h>

#include "base/mem.h"
#include "symbols/path.h"

typedef struct sym__part {
    bool is_server;
    const char *text; /* a folder without a "/" at its end, or a URL without one */
} sym__part;

typedef struct sym__host {
    const char *name; /* lower case, "[…]" of an IPv6 address without the brackets */
    long port;        /* 0: any */
} sym__host;

struct sym_path {
    atomic_int holders;
    arena a;
    sym__part parts[SYM_PATH_MAX_PARTS];
    size_t n, n_servers;
    sym__host *hosts;
    size_t n_hosts;
    bool any_host, by_hosts;
    const char *cache; /* NULL: none */
};

/* Whether this path may ask the server of a URL. Anything but http and https: no. *secure, if given, tells https. */
bool sym_path__allows(const sym_path *p, const char *url, bool *secure);

#endif
