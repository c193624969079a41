/* SPDX-License-Identifier: MIT */
/* tap_lua.h: how a face offers a tap (nettrace/tap.h) to events.open: a full userdata that begins with a tap_box, whose
 * metatable has the field TAP_FIELD (which scripts can't reach, as they can't make userdata). */
#ifndef LUNETTE_PROBE_TAP_LUA_H
#define LUNETTE_PROBE_TAP_LUA_H

#include "nettrace/tap.h"

#define TAP_FIELD "lunette.events.tap"

typedef struct tap_box {
    /* The tap, its reference still the box's; NULL: it has none, or it has been used for a stream. It counts as used
     * from then on. */
    nt_tap *(*take)(struct tap_box *box);
} tap_box;

#endif
