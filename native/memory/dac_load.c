/* SPDX-License-Identifier: MIT */
/* dac_load.c: which libmscordaccore.so belongs to a target, whether it may be trusted, and loading it. It is foreign
 * code: the build must be the runtime's own, the owner root, we, or the target's user, and in the last case we give up
 * what that user may not do before it runs. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernel/kernel.h"
#include "memory/dac_internal.h"
#include "memory/memory_internal.h"

#define DAC_FILE     "libmscordaccore.so"
#define RUNTIME_FILE "libcoreclr.so"
#define FRAMEWORK    "shared/Microsoft.NETCore.App"
#define VERSION_MARK "@(#)Version "
#if defined(__aarch64__)
#define RUNTIME_ID "linux-arm64"
#else
#define RUNTIME_ID "linux-x64"
#endif
#define PACKAGE        "microsoft.netcore.app.runtime." RUNTIME_ID
#define PACKAGE_FOLDER "/runtimes/" RUNTIME_ID "/native"

/* ---- files ---- */

static bool get_fd(void *arg, uint64_t offset, void *to, size_t n)
{
    return pread(*(int *)arg, to, n, (off_t)offset) == (ssize_t)n;
}

static size_t build_id_of_fd(int fd, uint8_t id[MEM_BUILD_ID_MAX])
{
    mem__elf *m = mem_alloc(sizeof *m);
    if (!m) return 0;
    size_t n = mem__elf_read(m, 0, get_fd, &fd) ? mem__build_id(m, false, get_fd, &fd, id) : 0;
    free(m);
    return n;
}

static bool has_build_id(const char *path, const uint8_t *id, size_t n)
{
    uint8_t found[MEM_BUILD_ID_MAX];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return false;
    bool same = n > 0 && build_id_of_fd(fd, found) == n && memcmp(found, id, n) == 0;
    close(fd);
    return same;
}

/* ---- the runtime ---- */

/* "@(#)Version 10.0.1226.42308": the third part is 100 times the patch, and the year. */
static void version_of_file(const char *path, dac_runtime *out)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size <= 0) {
        if (fd >= 0) close(fd);
        return;
    }
    void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (p == MAP_FAILED) return;
    const char *at = memmem(p, (size_t)st.st_size, VERSION_MARK, sizeof VERSION_MARK - 1);
    size_t left = at ? (size_t)((char *)p + st.st_size - at) : 0;
    char text[64];
    snprintf(text, sizeof text, "%.*s", left < 63 ? (int)left : 63, at ? at + sizeof VERSION_MARK - 1 : "");
    char *end = text;
    long part[3] = {0};
    for (int i = 0; i < 3 && left > sizeof VERSION_MARK; i++) {
        part[i] = strtol(end, &end, 10);
        end += *end == '.';
    }
    if (part[0] > 0 && part[0] < 1000) {
        out->major = (int)part[0];
        snprintf(out->version, sizeof out->version, "%ld.%ld.%ld", part[0], part[1], part[2] / 100);
    }
    munmap(p, (size_t)st.st_size);
}

static void version_of(mem_target *t, dac_runtime *out)
{
    char path[PATH_MAX];
    const char *at = strstr(out->path, FRAMEWORK "/");
    if (at) {
        at += sizeof FRAMEWORK;
        snprintf(out->version, sizeof out->version, "%.*s", (int)strcspn(at, "/"), at);
        out->major = (int)strtol(out->version, NULL, 10);
    } else if (out->version[0] == '\0' && mem_file_path(t, out->path, path, sizeof path))
        version_of_file(path, out);
}

static bool single_file(mem_target *t, const mem_module *m, dac_runtime *out)
{
    uint64_t at;
    uint8_t info[112];
    if (!mem_symbol(t, m, "DotNetRuntimeInfo", &at) || !mem_get(t, at, info, sizeof info)) return false;
    int32_t parts[4], layout;
    memcpy(&layout, info + 20, sizeof layout);
    if (memcmp(info, "DotNetRuntimeInfo", 18) != 0 || layout < 1) return false;
    if (info[24] > 0 && info[24] <= 23) memcpy(out->build_id, info + 25, out->build_id_size = info[24]);
    if (info[48] > 0 && info[48] <= 23) memcpy(out->dac_id, info + 49, out->dac_id_size = info[48]);
    memcpy(parts, info + 96, sizeof parts);
    if (layout >= 2 && parts[0] > 0) {
        out->major = parts[0];
        snprintf(out->version, sizeof out->version, "%d.%d.%d", parts[0], parts[1], parts[2] / 100);
    }
    return true;
}

void dac_find_runtime(mem_target *t, dac_runtime *out)
{
    size_t n;
    *out = (dac_runtime){0};
    const mem_module *m = mem_module_named(t, RUNTIME_FILE);
    if (m) {
        *out = (dac_runtime){.kind = DAC_CORECLR, .base = m->base, .path = m->path, .build_id_size = m->build_id_size};
        memcpy(out->build_id, m->build_id, sizeof out->build_id);
        version_of(t, out);
        return;
    }
    m = mem_modules(t, &n);
    for (size_t i = 0; i < n && out->kind == DAC_NONE; i++) {
        uint64_t at;
        bool file = single_file(t, &m[i], out), aot = !file && mem_symbol(t, &m[i], "DotNetRuntimeDebugHeader", &at);
        if (!file && !aot) continue;
        out->kind = file ? DAC_SINGLE_FILE : DAC_NATIVE_AOT;
        out->base = m[i].base;
        out->path = m[i].path;
    }
}

/* ---- where its library is ---- */

typedef struct search {
    const dac *d;
    char found[PATH_MAX];
    bool saw_other; /* there is a library, of another build */
} search;

/* Is the library in this folder that of the target's build? */
static bool try_folder(search *s, const char *folder)
{
    const dac_runtime *rt = &s->d->rt;
    char library[PATH_MAX], runtime[PATH_MAX];
    int n = snprintf(library, sizeof library, "%s/" DAC_FILE, folder);
    int k = snprintf(runtime, sizeof runtime, "%s/" RUNTIME_FILE, folder);
    if (n < 0 || k < 0 || (size_t)n >= sizeof library || (size_t)k >= sizeof runtime || access(library, F_OK) != 0)
        return false;
    bool is = rt->dac_id_size > 0 ? has_build_id(library, rt->dac_id, rt->dac_id_size)
                                  : has_build_id(runtime, rt->build_id, rt->build_id_size);
    if (!is)
        s->saw_other = true;
    else
        memcpy(s->found, library, sizeof library);
    return is;
}

/* Each version of a folder that holds several: ROOT/MIDDLE/VERSION/LAST. */
static bool try_versions(search *s, const char *root, const char *middle, const char *last)
{
    char folder[PATH_MAX];
    if (snprintf(folder, sizeof folder, "%s/%s", root, middle) >= (int)sizeof folder) return false;
    DIR *dir = opendir(folder);
    bool is = false;
    for (struct dirent *entry; dir && !is && (entry = readdir(dir)) != NULL;) {
        char one[PATH_MAX];
        if (entry->d_name[0] != '.' &&
            snprintf(one, sizeof one, "%s/%s%s", folder, entry->d_name, last) < (int)sizeof one)
            is = try_folder(s, one);
    }
    if (dir) closedir(dir);
    return is;
}

/* Where runtimes are installed: the usual places, then what says that it is one. */
static bool try_installed(search *s)
{
    static const char *const roots[] = {"/usr/share/dotnet", "/usr/lib/dotnet", "/usr/lib64/dotnet",
                                        "/usr/local/share/dotnet", NULL};
    const char *own = getenv("DOTNET_ROOT"), *home = getenv("HOME");
    char path[PATH_MAX];
    for (size_t i = 0; roots[i]; i++)
        if (try_versions(s, roots[i], FRAMEWORK, "")) return true;
    if (own && own[0] == '/' && try_versions(s, own, FRAMEWORK, "")) return true;
    return home && home[0] == '/' && snprintf(path, sizeof path, "%s/.dotnet", home) < (int)sizeof path &&
           try_versions(s, path, FRAMEWORK, "");
}

/* Whoever built a self-contained program has the runtime's package, and with it the library that the program lacks. */
static bool try_packages(search *s)
{
    const char *own = getenv("NUGET_PACKAGES"), *home = getenv("HOME");
    char path[PATH_MAX];
    if (own && own[0] == '/') return try_versions(s, own, PACKAGE, PACKAGE_FOLDER);
    return home && home[0] == '/' && snprintf(path, sizeof path, "%s/.nuget/packages", home) < (int)sizeof path &&
           try_versions(s, path, PACKAGE, PACKAGE_FOLDER);
}

static bool find_library(search *s, const char *dac_path)
{
    char path[PATH_MAX];
    if (dac_path) {
        snprintf(path, sizeof path, "%s", dac_path);
        struct stat st;
        return try_folder(s, stat(path, &st) == 0 && S_ISDIR(st.st_mode) ? path : dirname(path));
    }
    if (mem_file_path(s->d->t, s->d->rt.path, path, sizeof path) && try_folder(s, dirname(path))) return true;
    return try_installed(s) || try_packages(s);
}

static int not_found(const search *s, err *e)
{
    const dac_runtime *rt = &s->d->rt;
    char id[2 * MEM_BUILD_ID_MAX + 1] = "none";
    bool alone = rt->kind == DAC_SINGLE_FILE;
    const uint8_t *bytes = alone ? rt->dac_id : rt->build_id;
    for (size_t i = 0; i < (alone ? rt->dac_id_size : rt->build_id_size); i++)
        snprintf(id + 2 * i, 3, "%02x", bytes[i]);
    int rc = err_set(e, ERR_NOT_FOUND, "%s of .NET %s (build id %s) %s", DAC_FILE, rt->version[0] ? rt->version : "?",
                     id, s->saw_other ? "is not here: those that are belong to other builds" : "is not here");
    if (alone)
        err_hint(e,
                 "a self-contained single file does not carry it: install the .NET runtime %s here, or put " DAC_FILE
                 " of that version beside the program, or into the folder of NuGet packages (it is in "
                 "Microsoft.NETCore.App.Runtime." RUNTIME_ID ")",
                 rt->version[0] ? rt->version : "of the same version");
    else
        err_hint(e, "it lies beside libcoreclr.so: install the same version of the .NET runtime here, or look at the "
                    "process where it runs");
    return rc;
}

/* ---- trust ---- */

static uid_t owner_of_target(const mem_target *t)
{
    struct stat st;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d", (int)mem_pid(t));
    return mem_is_live(t) && stat(path, &st) == 0 ? st.st_uid : geteuid();
}

/* We become that user for good: what it could do by changing its library, it could do before. */
static int become(uid_t uid, gid_t gid, err *e)
{
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (setgroups(0, NULL) != 0 || setresgid(gid, gid, gid) != 0 || setresuid(uid, uid, uid) != 0)
        return err_sys(e, ERR_PERMISSION_DENIED, errno, "cannot give up our rights to load a library of user %u",
                       (unsigned)uid);
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0); /* a change of user clears it */
    return 0;
}

static int check_owner(const dac *d, const char *path, const struct stat *st, err *e)
{
    uid_t us = geteuid(), target = owner_of_target(d->t);
    int rc = 0;
    if (!S_ISREG(st->st_mode)) return err_set(e, ERR_PERMISSION_DENIED, "%s is no regular file", path);
    if (st->st_uid != 0 && st->st_uid != us && st->st_uid != target)
        rc = err_set(e, ERR_PERMISSION_DENIED,
                     "%s belongs to user %u, who is neither root, nor we, nor the target's user", path,
                     (unsigned)st->st_uid);
    else if ((st->st_mode & S_IWOTH) || ((st->st_mode & S_IWGRP) && st->st_gid != 0 && st->st_gid != getegid()))
        rc = err_set(e, ERR_PERMISSION_DENIED, "%s can be written by others than its owner (mode %o)", path,
                     st->st_mode & 07777);
    if (rc < 0) {
        err_hint(
            e,
            "code in it would run with our rights: `chown root %s; chmod go-w %s`, or run lunette as the target's user",
            path, path);
        return rc;
    }
    return st->st_uid != 0 && st->st_uid != us ? become(st->st_uid, st->st_gid, e) : 0;
}

/* ---- loading ---- */

typedef int (*entry_fn)(void *module, uint32_t reason, void *reserved);

static int load(dac *d, const char *path, int fd, dac__create_fn *out, err *e)
{
    char by_fd[64];
    snprintf(by_fd, sizeof by_fd, "/proc/self/fd/%d", fd); /* the file that was checked is the one that is loaded */
    void *lib = dlopen(by_fd, RTLD_NOW | RTLD_LOCAL);
    if (!lib) {
        const char *why = dlerror();
        int rc = err_set(e, ERR_NOT_SUPPORTED, "%s cannot be loaded: %s", path, why ? why : "?");
        if (why && strstr(why, "musl"))
            err_hint(e,
                     "the target's runtime is built for musl (Alpine): run a lunette that is built for musl beside it");
        return rc;
    }
    dac__guard(d);
    bool has_pal = dlsym(lib, "DAC_PAL_InitializeDLL") || dlsym(lib, "PAL_InitializeDLL");
    entry_fn entry = (entry_fn)(uintptr_t)dlsym(lib, "DllMain");
    if (has_pal && (!entry || DAC_GUARDED(d, entry(lib, 1, NULL)) <= 0))
        return err_set(e, ERR_UNSUPPORTED_RUNTIME, "%s does not start", path);
    *out = (dac__create_fn)(uintptr_t)dlsym(lib, "CLRDataCreateInstance");
    return *out ? 0 : err_set(e, ERR_UNSUPPORTED_RUNTIME, "%s has no CLRDataCreateInstance", path);
}

int dac__load(dac *d, const char *dac_path, dac__create_fn *out, err *e)
{
    search *s = mem_calloc(1, sizeof *s);
    struct stat st;
    int fd = -1, rc = 0;
    if (!s) return err_set(e, ERR_NO_MEMORY, "no memory");
    s->d = d;
    if (!find_library(s, dac_path)) {
        rc = not_found(s, e);
        goto out;
    }
    fd = open(s->found, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &st) != 0)
        rc = err_sys(e, ERR_PERMISSION_DENIED, errno, "cannot open %s", s->found);
    else
        rc = check_owner(d, s->found, &st, e);
    /* The file may have been exchanged between the look at its build and the opening. */
    uint8_t id[MEM_BUILD_ID_MAX];
    if (rc >= 0 && d->rt.dac_id_size > 0 &&
        (build_id_of_fd(fd, id) != d->rt.dac_id_size || memcmp(id, d->rt.dac_id, d->rt.dac_id_size) != 0))
        rc = err_set(e, ERR_PERMISSION_DENIED, "%s was exchanged while it was looked at", s->found);
    if (rc >= 0) rc = load(d, s->found, fd, out, e);
out:
    if (fd >= 0) close(fd);
    free(s);
    return rc;
}
