-- SPDX-License-Identifier: MIT
---@meta
-- luacheck: ignore 212 241
-- lunette.crypto: random bytes, digests, text encodings.

---@class lunette.crypto
local crypto = {}

---@param n integer  at most 65536
---@return string bytes
function crypto.random(n) end

--- Random characters of Crockford's base32, upper case: 5 bits each.
---@param n integer
---@return string
function crypto.crockford(n) end

---@return string  # a random UUID, lower case
function crypto.uuid() end

---@param s string
---@return string  # lower case
function crypto.hex(s) end

---@param s string
---@return string
function crypto.base64(s) end

---@param s string
---@return string?  # nil when s is not exactly right
---@nodiscard
function crypto.unbase64(s) end

---@param s string
---@return string  # without padding
function crypto.base64url(s) end

---@param s string  without padding
---@return string?
---@nodiscard
function crypto.unbase64url(s) end

---@param s string
---@return string  # 32 bytes
function crypto.sha256(s) end

---@param key string
---@param s string
---@return string  # 32 bytes
function crypto.hmac_sha256(key, s) end

--- Compares in constant time.
---@param a string
---@param b string
---@return boolean
function crypto.equal(a, b) end

return crypto
