/* SPDX-License-Identifier: MIT */
/* srcsrv.h: addresses of source files by the stream "srcsrv" of a Windows PDB, as far as its files are had by http.
 * Format: Debugging Tools for Windows, "Source Server: Language Specification 1". */
#ifndef LUNETTE_SYMBOLS_SRCSRV_H
#define LUNETTE_SYMBOLS_SRCSRV_H

#include "symbols/sourcelink.h"

/* Reads the text into a map of whole paths; its strings are copied into a. A file whose target is a command, or no
 * address, is left out, as what is damaged. False: no memory. */
bool sym_srcsrv_read(sym_links *l, slice text, arena *a);

#endif
