/* SPDX-License-Identifier: MIT */
/* test_artifacts.c: nothing leads out of the artifact root, pieces make up the whole, and what a process wrote is taken
 * only when it is a file. */
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "artifacts/artifacts.h"
#include "check.h"

static char top[64], root[96]; /* root is top/root; what is beside it is outside */

static const char *in(const char *folder, const char *name)
{
    static char path[4][PATH_MAX];
    static int next;
    char *p = path[next++ % 4];
    assert_in_range(snprintf(p, PATH_MAX, "%s/%s", folder, name), 1, PATH_MAX - 1);
    return p;
}

static void put(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(top, sizeof top, "/tmp/lunette-artifacts-XXXXXX");
    if (!mkdtemp(top)) return -1;
    (void)snprintf(root, sizeof root, "%s/root", top);
    if (mkdir(root, 0700) != 0 || mkdir(in(root, "a"), 0700) != 0) return -1;
    put(in(top, "secret"), "outside");
    put(in(root, "a/one"), "0123456789");
    put(in(root, "two"), "22");
    return symlink(top, in(root, "out")) || symlink("../two", in(root, "a/in")) ||
           symlink(in(top, "secret"), in(root, "s"));
}

static int tear_down(void **state)
{
    (void)state;
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf %s", top);
    return system(command); // NOLINT(cert-env33-c)
}

static int root_fd(void)
{
    err e = {0};
    int fd = art_root(root, &e);
    assert_true(fd >= 0);
    return fd;
}

static void names_stay_below_the_root(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        bool absolute;
        int rc;
        const char *name;
    } cases[] = {
        {"a/one", false, 0, "a/one"},
        {"./a//one", false, 0, "a/one"},
        {"a/in", false, 0, "two"}, /* a link that stays inside */
        {"a/../two", false, -ERR_INVALID_ARTIFACT_PATH, NULL},
        {"..", true, -ERR_INVALID_ARTIFACT_PATH, NULL},
        {"out/secret", false, -ERR_INVALID_ARTIFACT_PATH, NULL},
        {"s", false, -ERR_INVALID_ARTIFACT_PATH, NULL},
        {"", false, -ERR_INVALID_ARTIFACT_PATH, NULL},
        {"/etc/passwd", true, -ERR_INVALID_ARTIFACT_PATH, NULL},
        {"/no/such/file", true, -ERR_INVALID_ARTIFACT_PATH, NULL}, /* nobody learns that it is not there */
        {"none", false, -ERR_ARTIFACT_NOT_FOUND, NULL},
        {"two/x", false, -ERR_INVALID_ARTIFACT_PATH, NULL},
    };
    char name[PATH_MAX];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        err e = {0};
        int rc = art_name(root, cases[i].path, cases[i].absolute, name, &e);
        if (rc != cases[i].rc) print_error("path %s\n", cases[i].path);
        assert_int_equal(rc, cases[i].rc);
        if (rc == 0) assert_string_equal(name, cases[i].name);
    }
    err e = {0};
    assert_int_equal(art_name(root, in(root, "a/one"), true, name, &e), 0);
    assert_string_equal(name, "a/one");
    assert_int_equal(art_name(root, in(root, "a/one"), false, name, &e), -ERR_INVALID_ARTIFACT_PATH);
    err_clear(&e);
    assert_int_equal(art_name(root, in(root, "none"), true, name, &e), -ERR_ARTIFACT_NOT_FOUND);
}

/* Whoever swaps a part for a link between the check and the opening gets nothing. */
static void a_link_is_never_followed(void **state)
{
    (void)state;
    static const char *const paths[] = {"out/secret", "s", "a/in", "../secret", "a/../two"};
    int fd = root_fd();
    art_info info;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        err e = {0};
        assert_int_equal(art_open(fd, paths[i], &e), -ERR_INVALID_ARTIFACT_PATH);
        if (i > 2) continue;
        err_clear(&e);
        assert_int_equal(art_remove(fd, paths[i], &info, &e), -ERR_INVALID_ARTIFACT_PATH);
    }
    err e = {0};
    assert_int_equal(art_folder(fd, "out/new", &e), -ERR_INVALID_ARTIFACT_PATH);
    err_clear(&e);
    assert_int_equal(art_open(fd, "a", &e), -ERR_INVALID_ARTIFACT_PATH); /* a folder is no file */
    err_clear(&e);
    assert_int_equal(mkfifo(in(root, "pipe"), 0600), 0);
    assert_int_equal(art_open(fd, "pipe", &e), -ERR_INVALID_ARTIFACT_PATH);
    unlink(in(root, "pipe"));
    assert_int_equal(access(in(top, "secret"), F_OK), 0);
    close(fd);
}

static void folders_are_private(void **state)
{
    (void)state;
    err e = {0};
    struct stat st;
    int fd = root_fd(), folder = art_folder(fd, "x/y", &e);
    assert_true(folder >= 0);
    assert_int_equal(fstat(folder, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    close(folder);
    assert_int_equal(rmdir(in(root, "x/y")), 0);
    assert_int_equal(rmdir(in(root, "x")), 0);
    close(fd);
}

static void the_list_is_newest_first_and_without_links(void **state)
{
    (void)state;
    err e = {0};
    art_list l = {0};
    const struct timespec old[2] = {{1000, 0}, {1000, 0}};
    assert_int_equal(utimensat(AT_FDCWD, in(root, "two"), old, 0), 0);
    int fd = root_fd();
    assert_int_equal(art_list_files(fd, &l, &e), 0);
    assert_int_equal(l.n, 2);
    assert_string_equal(l.items[0].name, "a/one");
    assert_int_equal(l.items[0].info.size, 10);
    assert_string_equal(l.items[1].name, "two");
    assert_int_equal(l.items[1].info.mtime_ns, INT64_C(1000000000000));
    art_list_fini(&l);
    close(fd);
}

static void pieces_make_up_the_whole(void **state)
{
    (void)state;
    static const char sum[] = "84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c19f96bedb9f882f7882"; /* of 0123456789 */
    int fd = root_fd();
    err e = {0};
    int file = art_open(fd, "a/one", &e);
    assert_true(file >= 0);
    char whole[16] = "";
    for (int64_t at = 0; at < 10;) {
        art_piece p = {0};
        assert_int_equal(art_read(file, at, 4, ART_FILE_MAX, &p, &e), 0);
        assert_int_equal(p.size, 10);
        assert_string_equal(p.sha256, sum);
        memcpy(whole + at, p.bytes.p, p.bytes.n);
        at += (int64_t)p.bytes.n;
        art_piece_fini(&p);
    }
    assert_string_equal(whole, "0123456789");
    art_piece p = {0};
    assert_int_equal(art_read(file, 10, 4, ART_FILE_MAX, &p, &e), 0); /* the end itself is no error */
    assert_int_equal(p.bytes.n, 0);
    art_piece_fini(&p);
    assert_int_equal(art_read(file, 11, 4, ART_FILE_MAX, &p, &e), -ERR_INVALID_ARGUMENT);
    assert_string_equal(e.detail, "offset");
    art_piece_fini(&p);
    err_clear(&e);
    assert_int_equal(art_read(file, 0, 4, 9, &p, &e), -ERR_INVALID_ARGUMENT);
    art_piece_fini(&p);
    close(file);
    put(in(root, "a/one"), "012345678x"); /* as long as before: the digest is another */
    file = art_open(fd, "a/one", &(err){0});
    assert_int_equal(art_read(file, 0, 4, ART_FILE_MAX, &p, &(err){0}), 0);
    assert_string_not_equal(p.sha256, sum);
    art_piece_fini(&p);
    close(file);
    put(in(root, "a/one"), "0123456789");
    close(fd);
}

static void a_file_is_written_whole_and_never_through_a_link(void **state)
{
    (void)state;
    err e = {0};
    struct stat st;
    int fd = root_fd();
    assert_int_equal(art_write(fd, "w/new", "abc", 3, &e), 0);
    assert_int_equal(stat(in(root, "w/new"), &st), 0);
    assert_int_equal(st.st_size, 3);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(art_write(fd, "w/new", "", 0, &e), 0); /* in the place of what is there */
    assert_int_equal(stat(in(root, "w/new"), &st), 0);
    assert_int_equal(st.st_size, 0);
    assert_int_equal(art_write(fd, "out/new", "abc", 3, &e), -ERR_INVALID_ARTIFACT_PATH);
    assert_int_equal(access(in(top, "new"), F_OK), -1);
    err_clear(&e);
    assert_int_equal(art_write(fd, "s", "abc", 3, &e), 0); /* the link itself is replaced, not what it leads to */
    assert_int_equal(stat(in(top, "secret"), &st), 0);
    assert_int_equal(st.st_size, 7);
    assert_int_equal(lstat(in(root, "s"), &st), 0);
    assert_true(S_ISREG(st.st_mode));
    unlink(in(root, "s"));
    assert_int_equal(symlink(in(top, "secret"), in(root, "s")), 0);
    assert_true(art_write(fd, "w/..", "abc", 3, &e) < 0);
    unlink(in(root, "w/new"));
    assert_int_equal(rmdir(in(root, "w")), 0); /* no half-written file is left */
    close(fd);
}

static void a_file_is_removed_and_told_of(void **state)
{
    (void)state;
    err e = {0};
    art_info info;
    int fd = root_fd();
    put(in(root, "a/gone"), "abc");
    assert_int_equal(art_remove(fd, "a/gone", &info, &e), 0);
    assert_int_equal(info.size, 3);
    assert_int_equal(art_remove(fd, "a/gone", &info, &e), -ERR_ARTIFACT_NOT_FOUND);
    close(fd);
}

static void what_a_process_wrote_is_taken(void **state)
{
    (void)state;
    err e = {0};
    art_stage s;
    art_info info;
    bool copied;
    struct stat st;
    const char *const folders[] = {"relative", "/no/such/folder", top, NULL};
    assert_int_equal(art_stage_open(getpid(), geteuid(), folders, &s, &e), 0);
    assert_false(s.direct);
    assert_true(s.free_bytes > 0);
    assert_int_equal(stat(s.path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(art_stage_size(&s, "d"), -1);
    put(in(s.path, "d"), "dump");
    put(in(s.path, "e"), "else");
    assert_int_equal(art_stage_size(&s, "d"), 4);
    int fd = root_fd(), dest = art_folder(fd, "a", &e);
    assert_int_equal(art_stage_take(&s, "d", dest, "dump", &info, &copied, &e), 0);
    assert_false(copied);
    assert_int_equal(info.size, 4);
    assert_int_equal(stat(in(root, "a/dump"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(art_stage_take(&s, "e", dest, "dump", &info, &copied, &e),
                     -ERR_CONFLICT); /* nothing is replaced */
    err_clear(&e);
    assert_int_equal(art_stage_take(&s, "none", dest, "x", &info, &copied, &e), -ERR_NOT_FOUND);
    char path[PATH_MAX];
    memcpy(path, s.path, sizeof path);
    const char *const files[] = {"d", "e", NULL};
    art_stage_close(&s, files);
    assert_int_equal(access(path, F_OK), -1);
    unlink(in(root, "a/dump"));
    close(dest);
    close(fd);
}

/* Of a server that was killed its folder goes; of one that lives it stays, and so does what only looks like one. */
static void what_a_killed_server_left_goes(void **state)
{
    (void)state;
    err e = {0};
    art_stage s;
    struct stat st;
    static const char *const odd[] = {"lunette-0123456789abcdef0123456", "lunette-0123456789abcdef0123456g",
                                      "lunette-0123456789abcdef012345678", "xlunette-0123456789abcdef01234567"};
    char left[PATH_MAX], open_one[PATH_MAX], folder[PATH_MAX], bare[PATH_MAX];
    memcpy(folder, in(top, "tmp"), sizeof folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    const char *const folders[] = {folder, NULL};
    assert_int_equal(art_stage_open(getpid(), geteuid(), folders, &s, &e), 0);
    put(in(s.path, "used"), "dump");
    memcpy(left, in(folder, "lunette-0123456789abcdef01234567"), sizeof left);
    assert_int_equal(mkdir(left, 0700), 0);
    put(in(left, "x.dmp.part"), "dump");
    assert_int_equal(symlink(in(top, "secret"), in(left, "link")), 0);
    memcpy(open_one, in(folder, "lunette-0123456789abcdef01234568"), sizeof open_one);
    assert_int_equal(mkdir(open_one, 0700), 0);
    assert_int_equal(chmod(open_one, 0755), 0);
    memcpy(bare, in(folder, "lunette-0123456789abcdef01234569"), sizeof bare);
    assert_int_equal(symlink(left, bare), 0);
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        assert_int_equal(mkdir(in(folder, odd[i]), 0700), 0);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    art_stage_sweep(fd, "", geteuid(), 60);
    assert_int_equal(access(left, F_OK), 0); /* young */
    art_stage_sweep(fd, "", geteuid(), -2);
    assert_int_equal(access(left, F_OK), -1);
    assert_int_equal(access(open_one, F_OK), 0);
    assert_int_equal(lstat(bare, &st), 0);
    assert_int_equal(access(in(s.path, "used"), F_OK), 0);
    const char *const files[] = {"used", NULL};
    art_stage_close(&s, files);
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        assert_int_equal(rmdir(in(folder, odd[i])), 0);
    unlink(bare);
    rmdir(open_one);
    rmdir(folder);
    close(fd);
}

static void what_is_no_file_is_not_taken(void **state)
{
    (void)state;
    err e = {0};
    art_stage s;
    art_info info;
    bool copied;
    const char *const folders[] = {top, NULL};
    assert_int_equal(art_stage_open(getpid(), geteuid(), folders, &s, &e), 0);
    int fd = root_fd();
    assert_int_equal(symlink(in(top, "secret"), in(s.path, "link")), 0);
    assert_int_equal(mkfifo(in(s.path, "pipe"), 0600), 0);
    assert_int_equal(art_stage_size(&s, "link"), -1);
    assert_true(art_stage_take(&s, "link", fd, "x", &info, &copied, &e) < 0);
    err_clear(&e);
    assert_int_equal(art_stage_take(&s, "pipe", fd, "x", &info, &copied, &e), -ERR_IO);
    err_clear(&e);
    put(in(s.path, "hard"), "shared"); /* the process would keep a name of it: a copy is taken */
    assert_int_equal(link(in(s.path, "hard"), in(s.path, "other")), 0);
    assert_int_equal(art_stage_take(&s, "hard", fd, "x", &info, &copied, &e), 0);
    assert_true(copied);
    struct stat st;
    assert_int_equal(stat(in(root, "x"), &st), 0);
    assert_int_equal(st.st_nlink, 1);
    assert_int_equal(st.st_size, 6);
    unlink(in(root, "x"));
    const char *const files[] = {"link", "pipe", "hard", "other", NULL};
    art_stage_close(&s, files);
    close(fd);
}

static void the_folder_itself_serves_who_sees_it(void **state)
{
    (void)state;
    err e = {0};
    art_stage s;
    int fd = root_fd();
    assert_int_equal(art_stage_direct(getpid(), geteuid(), root, fd, "a", &s, &e), 1);
    assert_true(s.direct);
    assert_int_equal(strncmp(s.path, in(root, "a/.lunette-"), strlen(root) + strlen("/a/.lunette-")), 0);
    char path[PATH_MAX];
    memcpy(path, s.path, sizeof path);
    put(in(path, "d"), "dump");
    const char *const files[] = {"d", NULL};
    art_stage_close(&s, files);
    assert_int_equal(access(path, F_OK), -1); /* who is late finds no place to write */
    assert_int_equal(access(in(root, "a"), F_OK), 0);
    assert_int_equal(art_stage_direct(getpid(), geteuid() + 1, root, fd, "a", &s, &e), 0); /* 0700: not for another */
    assert_int_equal(art_stage_direct(getpid(), geteuid(), root, fd, "out", &s, &e), -ERR_INVALID_ARTIFACT_PATH);
    err_clear(&e);
    const char *const none[] = {"/no/such/folder", NULL};
    assert_int_equal(art_stage_open(getpid(), geteuid(), none, &s, &e), -ERR_PERMISSION_DENIED);
    err_clear(&e);
    assert_int_equal(art_stage_open(INT_MAX, geteuid(), none, &s, &e), -ERR_PROCESS_NOT_FOUND);
    close(fd);
}

static void a_mapped_file_is_opened_without_links(void **state)
{
    (void)state;
    err e = {0};
    int file = art_open_of(getpid(), in(root, "a/one"), &e);
    assert_true(file >= 0);
    close(file);
    assert_int_equal(art_open_of(getpid(), in(root, "s"), &e), -ERR_NOT_FOUND);
    err_clear(&e);
    assert_true(art_open_of(getpid(), in(root, "out/secret"), &e) < 0);
    err_clear(&e);
    assert_int_equal(art_open_of(getpid(), "relative", &e), -ERR_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_stay_below_the_root),
        cmocka_unit_test(a_link_is_never_followed),
        cmocka_unit_test(folders_are_private),
        cmocka_unit_test(the_list_is_newest_first_and_without_links),
        cmocka_unit_test(pieces_make_up_the_whole),
        cmocka_unit_test(a_file_is_written_whole_and_never_through_a_link),
        cmocka_unit_test(a_file_is_removed_and_told_of),
        cmocka_unit_test(what_a_process_wrote_is_taken),
        cmocka_unit_test(what_a_killed_server_left_goes),
        cmocka_unit_test(what_is_no_file_is_not_taken),
        cmocka_unit_test(the_folder_itself_serves_who_sees_it),
        cmocka_unit_test(a_mapped_file_is_opened_without_links),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
