/* SPDX-License-Identifier: MIT */
/* activity_path.c: reads the list of numbers in an activity id. It is written in half bytes, high half first: 1 to 10
 * stand for themselves, 0 ends the list, 0xC to 0xF say that a number of 1 to 4 bytes follows, low byte first, and 0xB
 * before one of these marks the number that replaces a path which did not fit. A code in a high half leaves the low
 * half of its byte free: there 0xC has the bits 8 to 11 of its number, the others nothing. The last four bytes are a
 * sum over the others and the process id. */
#include "clr/activity_path.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define PATH_BYTES 12u
#define HALVES     (2 * PATH_BYTES)
#define SUM_SEED   0x599D99ADu
#define PID_MAX    0x400000u /* PID_MAX_LIMIT of 64-bit Linux */

enum { LAST_DIGIT = 0xA, OVERFLOW = 0xB, MULTI_1 = 0xC };

typedef struct path_reader {
    const uint8_t *byte;
    uint32_t half; /* the next one, of HALVES */
} path_reader;

static uint32_t word(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint32_t next_half(path_reader *r)
{
    uint8_t b = r->byte[r->half / 2];
    return r->half++ % 2 ? b & 0xFu : b >> 4;
}

static bool rest_is_empty(const path_reader *r)
{
    for (uint32_t i = r->half / 2; i < PATH_BYTES; i++)
        if (r->byte[i]) return false;
    return true;
}

/* The number behind a code of 0xC and above. False: it would pass the end. */
static bool long_number(path_reader *r, uint32_t code, uint32_t *number)
{
    uint32_t high = 0, n = code - MULTI_1 + 1;
    if (r->half % 2) high = next_half(r); /* the code stood in a high half */
    if (r->half / 2 + n > PATH_BYTES) return false;
    *number = 0;
    for (uint32_t i = 0; i < n; i++)
        *number |= (uint32_t)r->byte[r->half / 2 + i] << 8 * i;
    r->half += 2 * n;
    if (!high) return true;
    if (n > 1) return false;
    *number |= high << 8;
    /* Runtimes before .NET 10 count a byte too many for such a number and leave it empty. No list goes on with an empty
     * byte. */
    if (r->half < HALVES && !r->byte[r->half / 2] && !rest_is_empty(r)) r->half += 2;
    return true;
}

/* Reads the list. False: no encoder writes this. */
static bool read_list(path_reader *r, char *out, size_t *length)
{
    size_t n = 1;
    out[0] = '/';
    while (r->half < HALVES) {
        char mark = '/';
        uint32_t number = next_half(r);
        if (number == 0) {
            if (r->half % 2 && (r->byte[r->half / 2] & 0xFu)) return false;
            r->half += r->half % 2;
            if (!rest_is_empty(r)) return false;
            break;
        }
        if (number == OVERFLOW) {
            mark = '$';
            if (r->half >= HALVES || (number = next_half(r)) < MULTI_1) return false;
        }
        if (number > LAST_DIGIT && !long_number(r, number, &number)) return false;
        int wrote = snprintf(out + n, ACTIVITY_PATH_SIZE - n, "%c%u", mark, number);
        if (wrote < 0 || (size_t)wrote >= ACTIVITY_PATH_SIZE - n - 1) return false;
        n += (size_t)wrote;
    }
    if (n == 1) return false;
    out[n++] = '/';
    out[n] = '\0';
    *length = n;
    return true;
}

size_t activity_path_text(const uint8_t guid[16], char out[ACTIVITY_PATH_SIZE], uint32_t *pid)
{
    out[0] = '\0';
    const uint32_t sum = word(guid) + word(guid + 4) + word(guid + 8) + SUM_SEED, process = sum ^ word(guid + 12);
    if (process > PID_MAX) return 0;
    path_reader r = {.byte = guid};
    size_t n = 0;
    if (!read_list(&r, out, &n)) {
        out[0] = '\0';
        return 0;
    }
    if (pid) *pid = process;
    return n;
}
