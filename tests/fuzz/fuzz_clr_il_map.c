/* SPDX-License-Identifier: MIT */
/* fuzz_clr_il_map.c: any payloads as IL maps, with look-ups between them: no crash, the cap held, and what was taken
 * and dropped adds up. Input: records of a length byte and four times so many bytes; a length of 255 looks the rest up.
 */
#include <stdlib.h>

#include "clr/il_map.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(cond)                                                                                                  \
    do {                                                                                                               \
        if (!(cond)) abort();                                                                                          \
    } while (0)

enum { LOOK = 255 };

static void look_up(const clr_il_maps *m, slice payload)
{
    cursor c = cursor_of(payload, 0);
    uint64_t method = cursor_u64(&c), rejit = cursor_u64(&c);
    uint32_t first = clr_il_maps_find(m, method, rejit, 0);
    REQUIRE(clr_il_maps_find(m, method, rejit, 0) == first);
    for (uint32_t at = 1; at; at <<= 1) /* a map has an offset everywhere, or nowhere */
        REQUIRE((clr_il_maps_find(m, method, rejit, at) == CLR_IL_NONE) == (first == CLR_IL_NONE));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const nt_kind kinds[] = {{.provider = SLICE_LIT("Microsoft-Windows-DotNETRuntime"), .id = 190},
                                    {.provider = SLICE_LIT("Microsoft-Windows-DotNETRuntimeRundown"), .id = 150}};
    clr_il_maps *m = clr_il_maps_new((size_t)1 << 20);
    uint64_t events = 0;
    if (!m) return 0;
    cursor c = cursor_of(slice_of(data, size), 0);
    while (cursor_left(&c)) {
        uint8_t n = cursor_u8(&c);
        slice payload = cursor_bytes(&c, n == LOOK ? cursor_left(&c) : (size_t)n * 4);
        if (!cursor_ok(&c)) break;
        if (n != LOOK) {
            nt_event ev = {.kind = &kinds[n & 1], .payload = payload};
            (void)clr_il_maps_event(m, clr_il_maps_kind(ev.kind), &ev);
            events++;
        }
        look_up(m, payload);
    }
    REQUIRE(clr_il_maps_count(m) + clr_il_maps_dropped(m) <= events);
    clr_il_maps_free(m);
    return 0;
}
