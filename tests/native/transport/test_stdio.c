/* SPDX-License-Identifier: MIT */
/* Standard input and output as a transport: each case puts a pipe in place of descriptors 0 and 1. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "transport/stdio.h"

#define PATIENCE_MS 5000

typedef struct fixture {
    loop *l;
    stdio_link *s;
    int to_in, from_out, saved_in, saved_out;
    int lines, too_long, eofs;
    char last[256];
    size_t last_n;
} fixture;

static void on_line(void *arg, slice line, bool too_long)
{
    fixture *f = arg;
    if (too_long) {
        f->too_long++;
        return;
    }
    f->lines++;
    f->last_n = line.n;
    memcpy(f->last, line.p, line.n < sizeof f->last ? line.n : sizeof f->last);
}

static void on_eof(void *arg) { ((fixture *)arg)->eofs++; }

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    int in[2], out[2];
    err e = {0};
    fflush(stdout);
    assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC), 0);
    f->saved_in = dup(0);
    f->saved_out = dup(1);
    assert_true(dup2(in[0], 0) == 0 && dup2(out[1], 1) == 1);
    close(in[0]);
    close(out[1]);
    f->to_in = in[1];
    f->from_out = out[0];
    assert_int_equal(loop_new(&f->l, &e), 0);
    stdio_cfg cfg = {.line_max = 1000, .on_line = on_line, .on_eof = on_eof, .arg = f};
    assert_int_equal(stdio_start(f->l, &cfg, &f->s, &e), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    stdio_free(f->s);
    loop_free(f->l);
    fflush(stdout);
    assert_true(dup2(f->saved_in, 0) == 0 && dup2(f->saved_out, 1) == 1);
    close(f->saved_in);
    close(f->saved_out);
    if (f->to_in >= 0) close(f->to_in);
    if (f->from_out >= 0) close(f->from_out);
    free(f);
    return 0;
}

static void turn_until(fixture *f, const int *counter, int value)
{
    int64_t deadline = deadline_in_ms(PATIENCE_MS);
    err e = {0};
    while (*counter < value && mono_ns() < deadline)
        assert_true(loop_run_once(f->l, 5, &e) >= 0);
    assert_int_equal(*counter, value);
}

static void give(fixture *f, const char *text)
{
    assert_int_equal(write(f->to_in, text, strlen(text)), (ssize_t)strlen(text));
}

static void lines_are_split_whatever_the_pieces(void **state)
{
    fixture *f = *state;
    give(f, "one\r\n\n{\"tw");
    turn_until(f, &f->lines, 1);
    assert_memory_equal(f->last, "one", 3);
    assert_int_equal(f->last_n, 3);
    give(f, "o\":2}\nthree");
    turn_until(f, &f->lines, 2);
    assert_memory_equal(f->last, "{\"two\":2}", 9);
    close(f->to_in);
    f->to_in = -1;
    turn_until(f, &f->eofs, 1);
    assert_int_equal(f->lines, 3);
    assert_memory_equal(f->last, "three", 5);
}

/* The loop still holds the read of a file that is due when its link is let go. */
static void a_link_to_a_file_ends_before_it_was_read(void **state)
{
    fixture *f = *state;
    err e = {0};
    int file = open(LUNETTE_SOURCE_DIR "/LICENSE", O_RDONLY | O_CLOEXEC);
    assert_true(file >= 0);
    stdio_free(f->s);
    f->s = NULL;
    assert_int_equal(dup2(file, 0), 0);
    close(file);
    stdio_cfg cfg = {.line_max = 1000, .on_line = on_line, .on_eof = on_eof, .arg = f};
    assert_int_equal(stdio_start(f->l, &cfg, &f->s, &e), 0);
    stdio_free(f->s);
    f->s = NULL;
    assert_true(loop_run_once(f->l, 5, &e) >= 0);
    assert_int_equal(f->lines, 0);
}

static void a_giant_line_is_dropped_and_told(void **state)
{
    fixture *f = *state;
    static char giant[300001];
    memset(giant, 'x', sizeof giant - 1);
    /* The pipe holds less than this: write while the loop reads. */
    fcntl(f->to_in, F_SETFL, O_NONBLOCK);
    for (size_t done = 0; done < sizeof giant - 1;) {
        err e = {0};
        ssize_t n = write(f->to_in, giant + done, sizeof giant - 1 - done);
        if (n > 0) done += (size_t)n;
        assert_true(loop_run_once(f->l, 1, &e) >= 0);
    }
    give(f, "\nafter\n");
    turn_until(f, &f->lines, 1);
    assert_int_equal(f->too_long, 1);
    assert_memory_equal(f->last, "after", 5);
}

static void output_is_kept_in_order_for_a_slow_reader(void **state)
{
    fixture *f = *state;
    static char line[50001];
    err e = {0};
    memset(line, 'y', sizeof line - 1);
    for (int i = 0; i < 40; i++) {
        line[0] = (char)('A' + i % 26);
        assert_int_equal(stdio_write(f->s, slice_of(line, sizeof line - 1), &e), 0);
    }
    size_t got = 0;
    char piece[4096];
    fcntl(f->from_out, F_SETFL, O_NONBLOCK);
    while (got < 40 * sizeof line) {
        ssize_t n = read(f->from_out, piece, sizeof piece);
        for (ssize_t k = 0; k < n; k++, got++) {
            size_t at = got % sizeof line;
            char want = (char)(at == 0 ? 'A' + (int)(got / sizeof line) % 26 : at == sizeof line - 1 ? '\n' : 'y');
            assert_int_equal(piece[k], want);
        }
        if (n <= 0) assert_true(loop_run_once(f->l, 5, &e) >= 0);
    }
    assert_int_equal(f->eofs, 0);
}

static void stray_output_does_not_reach_the_client(void **state)
{
    fixture *f = *state;
    err e = {0};
    char got[16] = {0};
    assert_int_equal(write(1, "", 0), 0);
    printf("stray\n");
    fflush(stdout);
    assert_int_equal(stdio_write(f->s, SLICE_LIT("ours"), &e), 0);
    assert_int_equal(read(f->from_out, got, sizeof got), 5);
    assert_memory_equal(got, "ours\n", 5);
}

static void a_reader_that_is_gone_ends_it_once(void **state)
{
    fixture *f = *state;
    err e = {0};
    close(f->from_out);
    f->from_out = -1;
    assert_int_equal(stdio_write(f->s, SLICE_LIT("x"), &e), -ERR_CANCELLED);
    err_clear(&e);
    assert_int_equal(stdio_write(f->s, SLICE_LIT("x"), &e), -ERR_CANCELLED);
    assert_int_equal(f->eofs, 1);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lines_are_split_whatever_the_pieces, setup, teardown),
        cmocka_unit_test_setup_teardown(a_link_to_a_file_ends_before_it_was_read, setup, teardown),
        cmocka_unit_test_setup_teardown(a_giant_line_is_dropped_and_told, setup, teardown),
        cmocka_unit_test_setup_teardown(output_is_kept_in_order_for_a_slow_reader, setup, teardown),
        cmocka_unit_test_setup_teardown(stray_output_does_not_reach_the_client, setup, teardown),
        cmocka_unit_test_setup_teardown(a_reader_that_is_gone_ends_it_once, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
