/* SPDX-License-Identifier: MIT */
/* test_fds.c: classes of descriptors and states of TCP connections, in a fixture and of this very process. */
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fixtures.h"

static void a_link_tells_its_class(void **state)
{
    (void)state;
    static const struct {
        const char *target;
        kn_fd_class c;
        uint64_t inode;
    } cases[] = {
        {"socket:[123]", KN_FD_SOCKET, 123},
        {"socket:[18446744073709551615]", KN_FD_SOCKET, UINT64_MAX},
        {"socket:[18446744073709551616]", KN_FD_SOCKET, 0},
        {"socket:[]", KN_FD_SOCKET, 0},
        {"socket:[", KN_FD_SOCKET, 0},
        {"socket:[12", KN_FD_SOCKET, 0},
        {"/", KN_FD_REGULAR, 0},
        {"/var/log/x (deleted)", KN_FD_REGULAR, 0},
        {"pipe:[5]", KN_FD_PIPE, 0},
        {"anon_inode:[eventfd]", KN_FD_EVENTFD, 0},
        {"anon_inode:[eventfd:12]", KN_FD_EVENTFD, 0},
        {"anon_inode:[eventpoll]", KN_FD_OTHER, 0},
        {"anon_inode:inotify", KN_FD_OTHER, 0},
        {"", KN_FD_OTHER, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t inode = 0;
        assert_int_equal(kn_classify_fd(slice_str(cases[i].target), &inode), cases[i].c);
        assert_int_equal(inode, cases[i].inode);
    }
}

static void the_fixture_has_one_of_each(void **state)
{
    (void)state;
    kn_fds f;
    err e = {0};
    assert_int_equal(kn_fds_of(fixture("v2"), 42, &f, &e), 0);
    assert_int_equal(f.count, 10);
    assert_int_equal(f.by_class[KN_FD_SOCKET], 5);
    assert_int_equal(f.by_class[KN_FD_REGULAR], 2);
    assert_int_equal(f.by_class[KN_FD_PIPE], 1);
    assert_int_equal(f.by_class[KN_FD_EVENTFD], 1);
    assert_int_equal(f.by_class[KN_FD_OTHER], 1);
    assert_true(f.has_tcp);
    assert_int_equal(f.tcp.listen, 1);
    assert_int_equal(f.tcp.established, 1); /* the other one belongs to somebody else */
    assert_int_equal(f.tcp.close_wait, 1);
    assert_int_equal(f.tcp.other, 1);
    /* One on the port it listens on, one to a peer that it is connecting to; the one on port 0x2222 is a stranger's. */
    assert_int_equal(f.tcp.time_wait, 2);
    assert_int_equal(f.notes.n, 0);
}

static void what_cannot_be_listed_is_an_error(void **state)
{
    (void)state;
    kn_fds f;
    err e = {0};
    assert_int_equal(kn_fds_of(fixture("v2"), 4242, &f, &e), -ERR_PROCESS_NOT_FOUND);
    err_clear(&e);
    assert_int_equal(kn_fds_of(fixture("none"), 42, &f, &e), -ERR_NOT_FOUND);
}

static void garbage_in_a_socket_table_counts_nothing(void **state)
{
    (void)state;
    map64 own = {0};
    map64_put(&own, 7, 1);
    kn_tcp_count c = {.own = &own};
    kn_parse_tcp(
        slice_str("  sl  local_address\n\n0: x y zz 0 0 0 0 0 7\n0: a b 0A\n 0: A:1F90 B:0000 0A 0 0 0 0 0 7\n"), true,
        &c);
    assert_int_equal(c.n.listen, 1);
    assert_int_equal(c.n.established + c.n.time_wait + c.n.close_wait + c.n.other, 0);
    kn_tcp_fini(&c);
    map64_fini(&own);
}

static int listener(uint16_t *port)
{
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    assert_int_equal(bind(s, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(s, 4), 0);
    assert_int_equal(getsockname(s, (struct sockaddr *)&a, &n), 0);
    *port = a.sin_port;
    return s;
}

static int connected(uint16_t port)
{
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = port};
    assert_int_equal(connect(s, (struct sockaddr *)&a, sizeof a), 0);
    return s;
}

static void our_own_descriptors_are_counted_as_they_open(void **state)
{
    (void)state;
    kn_fds before, after;
    err e = {0};
    int p[2];
    uint16_t port;
    assert_int_equal(kn_fds_of("", getpid(), &before, &e), 0);
    int l = listener(&port), c = connected(port), a = accept4(l, NULL, NULL, SOCK_CLOEXEC);
    int ev = eventfd(0, EFD_CLOEXEC), file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    assert_int_equal(kn_fds_of("", getpid(), &after, &e), 0);
    assert_int_equal(after.count - before.count, 7);
    assert_int_equal(after.by_class[KN_FD_SOCKET] - before.by_class[KN_FD_SOCKET], 3);
    assert_int_equal(after.by_class[KN_FD_PIPE] - before.by_class[KN_FD_PIPE], 2);
    assert_int_equal(after.by_class[KN_FD_EVENTFD] - before.by_class[KN_FD_EVENTFD], 1);
    assert_int_equal(after.by_class[KN_FD_REGULAR] - before.by_class[KN_FD_REGULAR], 1);
    assert_int_equal(after.tcp.listen - before.tcp.listen, 1);
    assert_int_equal(after.tcp.established - before.tcp.established, 2);
    /* The peer goes away and this end does not close: close-wait, the leak that the view looks for. */
    close(c);
    assert_int_equal(kn_fds_of("", getpid(), &after, &e), 0);
    assert_int_equal(after.tcp.close_wait - before.tcp.close_wait, 1);
    /* This end closes too: the peer's side lingers in time-wait, owned by nobody, on our listening port or beside it.
     */
    close(a);
    close(l);
    close(ev);
    close(file);
    close(p[0]);
    close(p[1]);
    assert_int_equal(kn_fds_of("", getpid(), &after, &e), 0);
    assert_int_equal(after.count, before.count);
}

static void past_the_cap_descriptors_are_counted_and_not_classified(void **state)
{
    (void)state;
    enum { MANY = KN_FD_CLASSIFY + 50 };
    struct rlimit lim;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &lim), 0);
    if (lim.rlim_max < MANY + 100) skip(); /* this host does not let us open as many */
    lim.rlim_cur = lim.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &lim), 0);
    int *fds = calloc(MANY, sizeof *fds), null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    for (int i = 0; i < MANY; i++)
        fds[i] = fcntl(null, F_DUPFD_CLOEXEC, 3);
    kn_fds f;
    err e = {0};
    assert_int_equal(kn_fds_of("", getpid(), &f, &e), 0);
    for (int i = 0; i < MANY; i++)
        close(fds[i]);
    close(null);
    free(fds);
    assert_true(f.count >= MANY);
    assert_int_equal(f.unclassified, f.count - KN_FD_CLASSIFY);
    assert_true(f.by_class[KN_FD_OTHER] >= f.unclassified);
    uint32_t sum = 0;
    for (int i = 0; i < KN_FD_CLASSES; i++)
        sum += f.by_class[i];
    assert_int_equal(sum, f.count);
    assert_int_equal(f.notes.n, 1);
    assert_non_null(strstr(f.notes.text[0], "were not classified"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_link_tells_its_class),
        cmocka_unit_test(the_fixture_has_one_of_each),
        cmocka_unit_test(what_cannot_be_listed_is_an_error),
        cmocka_unit_test(garbage_in_a_socket_table_counts_nothing),
        cmocka_unit_test(our_own_descriptors_are_counted_as_they_open),
        cmocka_unit_test(past_the_cap_descriptors_are_counted_and_not_classified),
    };
    return cmocka_run_group_tests(tests, fixtures_make, fixtures_remove);
}
