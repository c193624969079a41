/* SPDX-License-Identifier: MIT */
/* guid.h: GUIDs as text and back. Their 16 bytes are as they lie in files and on the wire: the first three groups are
 * little-endian. */
#ifndef LUNETTE_BASE_GUID_H
#define LUNETTE_BASE_GUID_H

#include "base/bytes.h"

#define GUID_BYTES    16
#define GUID_TEXT_LEN 36

/* "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", with its NUL. */
void guid_text(const uint8_t *guid, char out[GUID_TEXT_LEN + 1]);
/* The same 32 digits without dashes, as symbol servers have them in paths. */
void guid_hex(const uint8_t *guid, char out[2 * GUID_BYTES + 1]);
/* From the form of guid_text, in digits of either case; false: text is none, and guid is left alone. */
bool guid_parse(slice text, uint8_t *guid);

#endif
