/* SPDX-License-Identifier: MIT */
/* guid.c: see guid.h. */
#include "base/guid.h"

#include <string.h>

#define DASH UINT8_MAX

/* Which byte each pair of digits is, in the order of the text. */
static const uint8_t ORDER[GUID_BYTES + 4] = {3,    2, 1, 0,    DASH, 5,  4,  DASH, 7,  6,
                                              DASH, 8, 9, DASH, 10,   11, 12, 13,   14, 15};

static char *put_byte(char *at, uint8_t byte)
{
    static const char digits[] = "0123456789abcdef";
    *at++ = digits[byte >> 4];
    *at++ = digits[byte & 15];
    return at;
}

void guid_text(const uint8_t *guid, char out[GUID_TEXT_LEN + 1])
{
    for (size_t i = 0; i < sizeof ORDER; i++) {
        if (ORDER[i] == DASH)
            *out++ = '-';
        else
            out = put_byte(out, guid[ORDER[i]]);
    }
    *out = 0;
}

void guid_hex(const uint8_t *guid, char out[2 * GUID_BYTES + 1])
{
    for (size_t i = 0; i < sizeof ORDER; i++)
        if (ORDER[i] != DASH) out = put_byte(out, guid[ORDER[i]]);
    *out = 0;
}

static int digit(uint8_t c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool guid_parse(slice text, uint8_t *guid)
{
    uint8_t out[GUID_BYTES];
    if (text.n != GUID_TEXT_LEN) return false;
    const uint8_t *at = text.p;
    for (size_t i = 0; i < sizeof ORDER; i++) {
        if (ORDER[i] == DASH) {
            if (*at++ != '-') return false;
            continue;
        }
        int high = digit(at[0]), low = digit(at[1]);
        if (high < 0 || low < 0) return false;
        out[ORDER[i]] = (uint8_t)(high << 4 | low);
        at += 2;
    }
    memcpy(guid, out, sizeof out);
    return true;
}
