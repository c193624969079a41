/* SPDX-License-Identifier: MIT */
/* il_map.h: which IL offset an instruction of jitted code came from, by the events MethodILToNativeMap (of the
 * runtime's provider, keyword 0x20000, level 5) and MethodDCEndILToNativeMap (of the rundown). Plain C, one thread a
 * map. Code that was compiled ahead of time (ReadyToRun) has no map. */
#ifndef LUNETTE_CLR_IL_MAP_H
#define LUNETTE_CLR_IL_MAP_H

#include "nettrace/nettrace.h"

typedef struct clr_il_maps clr_il_maps;

#define CLR_IL_MAPS_MAX_BYTES ((size_t)32 << 20)
/* The keyword of both providers that brings the maps; the level must be 5 (verbose). */
#define CLR_IL_MAP_KEYWORD UINT64_C(0x20000)
#define CLR_IL_NONE        UINT32_MAX

/* max_bytes caps the whole (0: CLR_IL_MAPS_MAX_BYTES). NULL: no memory. */
clr_il_maps *clr_il_maps_new(size_t max_bytes);
void clr_il_maps_free(clr_il_maps *m);
/* Is this a kind that brings a map? A code > 0 for clr_il_maps_event; 0: no. */
int clr_il_maps_kind(const nt_kind *k);
/* Takes one event. 0, or -ERR_LIMIT when the cap is met or memory is out, the first time only: later ones are counted.
 */
int clr_il_maps_event(clr_il_maps *m, int code, const nt_event *ev);
/* The IL offset of the instruction at native_offset bytes behind the start of the body; the body is named by the
 * MethodID and ReJITID of its load event. In a prologue or epilogue, or in code without a source, it is that of the
 * nearest mapped instruction before, else after. CLR_IL_NONE: there is no map for this body. */
uint32_t clr_il_maps_find(const clr_il_maps *m, uint64_t method_id, uint64_t rejit_id, uint32_t native_offset);
size_t clr_il_maps_count(const clr_il_maps *m);
uint64_t clr_il_maps_dropped(const clr_il_maps *m);
size_t clr_il_maps_memory(const clr_il_maps *m); /* bytes, estimate */

#endif
