/* SPDX-License-Identifier: MIT */
/* fetch.c: downloads by libcurl. Redirects are followed by hand: each place is looked at before it is asked. */
#include "symbols/fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "symbols/curl.h"

enum { URL_MAX = 4096, HTTP_OK = 200, HTTP_NOT_FOUND = 404, HTTP_GONE = 410, RESTING_MAX = 32 };

/* ---- servers that did not answer ---- */

static pthread_mutex_t resting_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    uint64_t server; /* hash */
    int64_t until;
} resting[RESTING_MAX];

static uint64_t server_hash(const char *server) { return hash_bytes(slice_str(server), 0); }

static bool rests(const char *server)
{
    uint64_t h = server_hash(server);
    int64_t now = mono_ns();
    bool yes = false;
    pthread_mutex_lock(&resting_lock);
    for (int i = 0; i < RESTING_MAX; i++)
        yes = yes || (resting[i].server == h && resting[i].until > now);
    pthread_mutex_unlock(&resting_lock);
    return yes;
}

static void let_rest(const char *server)
{
    pthread_mutex_lock(&resting_lock);
    int place = 0;
    for (int i = 1; i < RESTING_MAX; i++)
        if (resting[i].until < resting[place].until) place = i;
    resting[place].server = server_hash(server);
    resting[place].until = deadline_in_ms(SYM_FETCH_REST_MS);
    pthread_mutex_unlock(&resting_lock);
}

/* ---- one request ---- */

typedef struct download {
    int fd;
    uint64_t got;
    bool too_long;
    int sys; /* errno of a failed write */
} download;

static size_t on_data(char *p, size_t one, size_t n, void *arg)
{
    download *d = arg;
    size_t total = one * n, done = 0;
    d->got += total;
    d->too_long = d->got > SYM_FETCH_MAX_BYTES;
    while (!d->too_long && done < total) {
        ssize_t k = write(d->fd, p + done, total - done);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) {
            d->sys = errno;
            return 0;
        }
        done += (size_t)k;
    }
    return done;
}

static void set_up(const sym_curl *curl, CURL *c, const char *url, struct curl_slist *headers, long left_ms,
                   download *d)
{
    curl->easy_reset(c);
    curl->easy_setopt(c, CURLOPT_URL, url);
    curl->easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl->easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
    curl->easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl->easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)SYM_FETCH_CONNECT_MS);
    curl->easy_setopt(c, CURLOPT_TIMEOUT_MS, left_ms);
    curl->easy_setopt(c, CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)SYM_FETCH_MAX_BYTES);
    curl->easy_setopt(c, CURLOPT_USERAGENT, "lunette/" LUNETTE_VERSION);
    curl->easy_setopt(c, CURLOPT_HTTPHEADER, headers);
    curl->easy_setopt(c, CURLOPT_WRITEFUNCTION, on_data);
    curl->easy_setopt(c, CURLOPT_WRITEDATA, d);
}

static int failed(const char *server, const char *url, CURLcode code, const download *d, err *e)
{
    if (d->too_long || code == CURLE_FILESIZE_EXCEEDED)
        return err_set(e, ERR_LIMIT, "%.200s has more than %llu bytes", url, (unsigned long long)SYM_FETCH_MAX_BYTES);
    if (d->sys) return err_sys(e, ERR_IO, d->sys, "cannot keep what a symbol server sent");
    let_rest(server);
    err_kind kind = code == CURLE_OPERATION_TIMEDOUT ? ERR_TIMEOUT : ERR_IO;
    return err_set(e, kind, "the symbol server did not answer (%.200s): %s", url,
                   sym_curl_get(NULL)->easy_strerror(code));
}

/* 0: the file is there. 1: url is now where the server pointed to. */
static int judge(const sym_path *p, CURL *c, char *url, err *e)
{
    const sym_curl *curl = sym_curl_get(NULL);
    long status = 0;
    char *to = NULL;
    bool was_secure = false, secure = false;
    curl->easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
    if (status == HTTP_OK) return 0;
    curl->easy_getinfo(c, CURLINFO_REDIRECT_URL, &to);
    if (status >= 300 && status < 400 && to) {
        sym_path__allows(p, url, &was_secure);
        if (!sym_path__allows(p, to, &secure) || (was_secure && !secure))
            return err_set(e, ERR_PERMISSION_DENIED,
                           "the symbol server pointed to %.200s, which is not allowed: it was not asked", to);
        if (strlen(to) >= URL_MAX)
            return err_set(e, ERR_IO, "the symbol server pointed to an address that is too long");
        memcpy(url, to, strlen(to) + 1);
        return 1;
    }
    if (status == HTTP_NOT_FOUND || status == HTTP_GONE)
        return err_set(e, ERR_NOT_FOUND, "the symbol server has no %.300s", url);
    return err_set(e, ERR_IO, "the symbol server answered with status %ld (%.200s)", status, url);
}

static int get(const sym_path *p, const char *server, char *url, const char *checksum, int64_t deadline, int fd, err *e)
{
    const sym_curl *curl = sym_curl_get(NULL);
    char line[160];
    CURL *c = curl->easy_init();
    struct curl_slist *headers = NULL;
    int rc = c ? 1 : err_set(e, ERR_NO_MEMORY, "no memory to ask a symbol server");
    if (c && *checksum && snprintf(line, sizeof line, "SymbolChecksum: %s", checksum) < (int)sizeof line)
        headers = curl->slist_append(NULL, line);
    for (int i = 0; rc == 1; i++) {
        download d = {.fd = fd};
        int64_t left = (deadline - mono_ns()) / 1000000;
        if (i > SYM_FETCH_REDIRECTS) rc = err_set(e, ERR_IO, "the symbol server pointed on and on");
        if (rc == 1 && left <= 0) rc = err_set(e, ERR_TIMEOUT, "no time was left to ask a symbol server");
        if (rc == 1 && (ftruncate(fd, 0) != 0 || lseek(fd, 0, SEEK_SET) != 0))
            rc = err_sys(e, ERR_IO, errno, "cannot write the file of a symbol server");
        if (rc < 0) break;
        set_up(curl, c, url, headers, (long)left, &d);
        CURLcode code = curl->easy_perform(c);
        rc = code == CURLE_OK ? judge(p, c, url, e) : failed(server, url, code, &d, e);
    }
    curl->slist_free_all(headers);
    curl->easy_cleanup(c);
    return rc;
}

/* The folder and those above it, for their owner only. 0, or an errno. */
static int make_folders(const char *folder)
{
    char path[PATH_MAX];
    size_t n = strlen(folder);
    if (n >= sizeof path) return ENAMETOOLONG;
    memcpy(path, folder, n + 1);
    for (char *p = path + 1;; p++) {
        if (*p && *p != '/') continue;
        char was = *p;
        *p = '\0';
        if (mkdir(path, 0700) != 0 && errno != EEXIST) return errno;
        *p = was;
        if (!was) return 0;
    }
}

/* SERVER/NAME/KEY/FILE with its names escaped. False: it is too long, or there is no memory. */
static bool put_url(const sym_curl *curl, const char *server, const char *name, const char *key, const char *file,
                    char url[URL_MAX])
{
    char *folder = curl->easy_escape(NULL, name, 0), *last = curl->easy_escape(NULL, file ? file : name, 0);
    int n = folder && last ? snprintf(url, URL_MAX, "%s/%s/%s/%s", server, folder, key, last) : -1;
    curl->free(folder);
    curl->free(last);
    return n >= 0 && n < URL_MAX;
}

int sym_fetch(const sym_path *p, const char *server, const char *name, const char *key, const char *file,
              const char *checksum, int64_t deadline_ns, char *temp, size_t temp_size, err *e)
{
    char url[URL_MAX];
    const sym_curl *curl = sym_curl_get(e);
    if (!curl) return -ERR_NOT_SUPPORTED;
    if (!sym_path__allows(p, server, NULL))
        return err_set(e, ERR_PERMISSION_DENIED, "the symbol server %.200s is not allowed", server);
    if (rests(server))
        return err_set(e, ERR_IO, "the symbol server %.200s did not answer within the last minute", server);
    if (!put_url(curl, server, name, key, file, url))
        return err_set(e, ERR_INVALID_ARGUMENT, "the symbol server's address is too long");
    int n = snprintf(temp, temp_size, "%s/fetch.XXXXXX", p->cache);
    if (n < 0 || (size_t)n >= temp_size) return err_set(e, ERR_INVALID_ARGUMENT, "the cache folder's name is too long");
    int sys = make_folders(p->cache);
    if (sys) return err_sys(e, ERR_IO, sys, "cannot make %s", p->cache);
    int fd = mkostemp(temp, O_CLOEXEC); /* 0600 */
    if (fd < 0) return err_sys(e, ERR_IO, errno, "cannot make a file in %s", p->cache);
    int64_t own = deadline_in_ms(SYM_FETCH_TOTAL_MS);
    int rc = get(p, server, url, checksum, deadline_ns && deadline_ns < own ? deadline_ns : own, fd, e);
    close(fd);
    if (rc < 0) unlink(temp);
    return rc;
}
