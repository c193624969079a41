/* SPDX-License-Identifier: MIT */
/* crypto_lua.c: lunette.crypto: random bytes, digests and text encodings. Hashes are nettle's, randomness the kernel's.
 */
#include <errno.h>
#include <nettle/hmac.h>
#include <nettle/memops.h>
#include <nettle/sha2.h>
#include <string.h>
#include <sys/random.h>

#include "base/mem.h"
#include "host/faces.h"
#include "host/host_internal.h"

#define RANDOM_MAX 65536 /* bytes of one call */

static const char B64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char B64URL[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
static const char HEX[] = "0123456789abcdef";
static const char CROCKFORD[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/* Fills p from the kernel's generator; throws if it cannot (there is no second best). */
static void l_fill_random(lua_State *L, uint8_t *p, size_t n)
{
    for (size_t at = 0; at < n;) {
        ssize_t got = getrandom(p + at, n - at, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) luaL_error(L, "no random bytes from the kernel: %s", strerror(errno));
        at += (size_t)got;
    }
}

static size_t check_count(lua_State *L, int idx)
{
    lua_Integer n = luaL_checkinteger(L, idx);
    luaL_argcheck(L, n >= 0 && n <= RANDOM_MAX, idx, "must be from 0 to 65536");
    return (size_t)n;
}

/* crypto.random(n) -> n bytes */
static int l_random(lua_State *L)
{
    size_t n = check_count(L, 1);
    luaL_Buffer b;
    l_fill_random(L, (uint8_t *)luaL_buffinitsize(L, &b, n), n);
    luaL_pushresultsize(&b, n);
    return 1;
}

/* crypto.crockford(n) -> n random characters of Crockford's base32: 5 bits each */
static int l_crockford(lua_State *L)
{
    size_t n = check_count(L, 1);
    luaL_Buffer b;
    char *p = luaL_buffinitsize(L, &b, n);
    l_fill_random(L, (uint8_t *)p, n);
    for (size_t i = 0; i < n; i++)
        p[i] = CROCKFORD[(uint8_t)p[i] & 31];
    luaL_pushresultsize(&b, n);
    return 1;
}

/* crypto.uuid() -> a random UUID (version 4), lower case */
static int l_uuid(lua_State *L)
{
    uint8_t r[16];
    char text[37];
    size_t at = 0;
    l_fill_random(L, r, sizeof r);
    r[6] = (uint8_t)((r[6] & 0x0f) | 0x40);
    r[8] = (uint8_t)((r[8] & 0x3f) | 0x80);
    for (size_t i = 0; i < sizeof r; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10) text[at++] = '-';
        text[at++] = HEX[r[i] >> 4];
        text[at++] = HEX[r[i] & 15];
    }
    lua_pushlstring(L, text, at);
    return 1;
}

static int l_hex(lua_State *L)
{
    size_t n;
    const uint8_t *s = (const uint8_t *)luaL_checklstring(L, 1, &n);
    luaL_Buffer b;
    char *p = luaL_buffinitsize(L, &b, 2 * n);
    for (size_t i = 0; i < n; i++) {
        p[2 * i] = HEX[s[i] >> 4];
        p[2 * i + 1] = HEX[s[i] & 15];
    }
    luaL_pushresultsize(&b, 2 * n);
    return 1;
}

/* ---- base64, RFC 4648 ---- */

static size_t encode64(const uint8_t *s, size_t n, const char *alphabet, bool pad, char *out)
{
    size_t at = 0;
    for (size_t i = 0; i < n; i += 3) {
        size_t left = n - i;
        uint32_t v = (uint32_t)s[i] << 16 | (left > 1 ? (uint32_t)s[i + 1] << 8 : 0) | (left > 2 ? s[i + 2] : 0);
        out[at++] = alphabet[v >> 18];
        out[at++] = alphabet[v >> 12 & 63];
        if (left > 1) out[at++] = alphabet[v >> 6 & 63];
        if (left > 2) out[at++] = alphabet[v & 63];
        for (size_t k = left; pad && k < 3; k++)
            out[at++] = '=';
    }
    return at;
}

/* The text without padding. False for a character outside the alphabet, an impossible length, or bits that are set but
 * unused. */
static bool decode64(const char *s, size_t n, const char *alphabet, uint8_t *out, size_t *n_out)
{
    uint32_t acc = 0;
    unsigned bits = 0;
    size_t at = 0;
    if (n % 4 == 1) return false;
    for (size_t i = 0; i < n; i++) {
        const char *hit = s[i] ? strchr(alphabet, s[i]) : NULL;
        if (!hit) return false;
        acc = acc << 6 | (uint32_t)(hit - alphabet);
        bits += 6;
        if (bits < 8) continue;
        bits -= 8;
        out[at++] = (uint8_t)(acc >> bits);
        acc &= (1u << bits) - 1;
    }
    *n_out = at;
    return acc == 0;
}

static int push_encoded(lua_State *L, const char *alphabet, bool pad)
{
    size_t n;
    const uint8_t *s = (const uint8_t *)luaL_checklstring(L, 1, &n);
    luaL_Buffer b;
    char *p = luaL_buffinitsize(L, &b, (n + 2) / 3 * 4);
    luaL_pushresultsize(&b, encode64(s, n, alphabet, pad, p));
    return 1;
}

static int push_decoded(lua_State *L, const char *s, size_t n, const char *alphabet)
{
    luaL_Buffer b;
    uint8_t *p = (uint8_t *)luaL_buffinitsize(L, &b, n);
    size_t n_out = 0;
    if (!decode64(s, n, alphabet, p, &n_out)) return 0;
    luaL_pushresultsize(&b, n_out);
    return 1;
}

static int l_base64(lua_State *L) { return push_encoded(L, B64, true); }
static int l_base64url(lua_State *L) { return push_encoded(L, B64URL, false); }

/* crypto.unbase64(s) -> bytes, or nil: padding is due, and nothing else may be in the text */
static int l_unbase64(lua_State *L)
{
    size_t n;
    const char *s = luaL_checklstring(L, 1, &n);
    lua_settop(L, 1);
    if (n % 4 == 0) {
        size_t pad = n && s[n - 1] == '=' ? 1 + (s[n - 2] == '=') : 0;
        if (push_decoded(L, s, n - pad, B64)) return 1;
    }
    lua_pushnil(L);
    return 1;
}

/* crypto.unbase64url(s) -> bytes, or nil: no padding */
static int l_unbase64url(lua_State *L)
{
    size_t n;
    const char *s = luaL_checklstring(L, 1, &n);
    if (!push_decoded(L, s, n, B64URL)) lua_pushnil(L);
    return 1;
}

/* ---- digests ---- */

/* crypto.sha256(s) -> 32 bytes */
static int l_sha256(lua_State *L)
{
    size_t n;
    const uint8_t *s = (const uint8_t *)luaL_checklstring(L, 1, &n);
    struct sha256_ctx ctx;
    uint8_t digest[SHA256_DIGEST_SIZE];
    sha256_init(&ctx);
    sha256_update(&ctx, n, s);
    sha256_digest(&ctx, sizeof digest, digest);
    lua_pushlstring(L, (const char *)digest, sizeof digest);
    return 1;
}

/* crypto.hmac_sha256(key, s) -> 32 bytes */
static int l_hmac_sha256(lua_State *L)
{
    size_t n_key, n;
    const uint8_t *key = (const uint8_t *)luaL_checklstring(L, 1, &n_key);
    const uint8_t *s = (const uint8_t *)luaL_checklstring(L, 2, &n);
    struct hmac_sha256_ctx ctx;
    uint8_t digest[SHA256_DIGEST_SIZE];
    hmac_sha256_set_key(&ctx, n_key, key);
    hmac_sha256_update(&ctx, n, s);
    hmac_sha256_digest(&ctx, sizeof digest, digest);
    lua_pushlstring(L, (const char *)digest, sizeof digest);
    return 1;
}

/* crypto.equal(a, b): in a time that depends on b's length only, once the lengths agree */
static int l_equal(lua_State *L)
{
    size_t na, nb;
    const char *a = luaL_checklstring(L, 1, &na);
    const char *b = luaL_checklstring(L, 2, &nb);
    lua_pushboolean(L, na == nb && memeql_sec(a, b, na));
    return 1;
}

static const luaL_Reg CRYPTO_FUNCS[] = {{"random", l_random},       {"hex", l_hex},
                                        {"base64", l_base64},       {"unbase64", l_unbase64},
                                        {"base64url", l_base64url}, {"unbase64url", l_unbase64url},
                                        {"sha256", l_sha256},       {"hmac_sha256", l_hmac_sha256},
                                        {"equal", l_equal},         {"crockford", l_crockford},
                                        {"uuid", l_uuid},           {NULL, NULL}};

int luaopen_lunette_crypto(lua_State *L)
{
    luaL_newlib(L, CRYPTO_FUNCS);
    return 1;
}
