/* SPDX-License-Identifier: MIT */
/* list.c: every regular file below the artifact root. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "artifacts/artifacts.h"

static bool add(art_list *l, const char *name, const struct stat *st)
{
    if (l->n == ART_LIST_MAX) {
        l->dropped++;
        return true;
    }
    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 64;
        art_entry *more = mem_realloc(l->items, cap * sizeof *more);
        if (!more) return false;
        l->items = more;
        l->cap = cap;
    }
    char *copy = slice_dup(slice_str(name));
    if (!copy) return false;
    l->items[l->n++] = (art_entry){copy, {st->st_size, (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec}};
    return true;
}

/* Lists the folder fd, which it closes. prefix holds its name with a slash behind, room for PATH_MAX. */
static int list_folder(int fd, char *prefix, size_t n, int depth, art_list *l, err *e) // NOLINT(misc-no-recursion)
{
    DIR *dir = fdopendir(fd);
    if (!dir) {
        close(fd);
        return err_sys(e, ERR_IO, errno, "cannot list the artifact root");
    }
    int rc = 0;
    for (struct dirent *d; rc == 0 && (d = readdir(dir));) {
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0) continue;
        struct stat st;
        size_t m = strlen(d->d_name);
        if (n + m + 2 > PATH_MAX || fstatat(dirfd(dir), d->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) continue;
        memcpy(prefix + n, d->d_name, m + 1);
        if (S_ISREG(st.st_mode) && !add(l, prefix, &st)) rc = err_set(e, ERR_NO_MEMORY, "no memory for the inventory");
        if (!S_ISDIR(st.st_mode)) continue;
        int down =
            depth < ART_DEPTH_MAX ? openat(dirfd(dir), d->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW) : -1;
        if (down < 0) continue; /* not ours to read */
        prefix[n + m] = '/';
        rc = list_folder(down, prefix, n + m + 1, depth + 1, l, e);
    }
    closedir(dir);
    return rc;
}

static int newest_first(const void *a, const void *b)
{
    const art_entry *x = a, *y = b;
    if (x->info.mtime_ns != y->info.mtime_ns) return x->info.mtime_ns < y->info.mtime_ns ? 1 : -1;
    return strcmp(x->name, y->name);
}

int art_list_files(int root, art_list *out, err *e)
{
    char prefix[PATH_MAX] = "";
    int fd = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return err_sys(e, ERR_IO, errno, "cannot list the artifact root");
    int rc = list_folder(fd, prefix, 0, 0, out, e);
    if (rc < 0) {
        art_list_fini(out);
        return rc;
    }
    if (out->n) qsort(out->items, out->n, sizeof *out->items, newest_first);
    return 0;
}

void art_list_fini(art_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->items[i].name);
    free(l->items);
    *l = (art_list){0};
}
