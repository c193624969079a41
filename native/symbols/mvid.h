/* SPDX-License-Identifier: MIT */
/* mvid.h: the version id of a module, read without the rest of its metadata. */
#ifndef LUNETTE_SYMBOLS_MVID_H
#define LUNETTE_SYMBOLS_MVID_H

#include "symbols/pe.h"

/* The 16 bytes as they lie in the file. MalformedInput: not managed, or damaged. */
int sym_pe_mvid(const sym_pe *pe, uint8_t mvid[16], err *e);

#endif
