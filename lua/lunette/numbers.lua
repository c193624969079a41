-- SPDX-License-Identifier: MIT
-- numbers: how numbers, addresses and times are written on the wire.
local M = {}

local SAFE <const> = 9007199254740991 -- 2^53 - 1: what a JavaScript client reads exactly

--- An address, a method or module pointer, a keyword or mask: "0x" and lower-case digits, as unsigned 64 bits.
---@param n integer
---@return string
function M.address(n) return ("0x%x"):format(n) end

--- "0x1f", "1F" with 0x, or decimal digits -> integer; nil when it is neither or does not fit into 64 bits.
---@param s string
---@return integer?
function M.parse_address(s)
  if math.type(s) == "integer" then return s end
  if type(s) ~= "string" then return nil end
  local hex = s:match("^%s*0[xX](%x+)%s*$")
  if hex then
    hex = hex:gsub("^0+", "")
    return #hex <= 16 and (hex == "" and 0 or math.tointeger(tonumber("0x" .. hex))) or nil
  end
  local digits = s:match("^%s*(%d+)%s*$")
  return digits and math.tointeger(tonumber(digits)) or nil
end

--- The number, unless it is none or without end, which JSON cannot say.
---@param n number?
---@return number?
function M.finite(n) return type(n) == "number" and n - n == 0 and n or nil end

--- A count that may pass 2^53: a number while every client reads it exactly, decimal text beyond.
---@param n integer
---@return integer|string
function M.count(n)
  if n >= -SAFE and n <= SAFE then return n end
  return ("%d"):format(n)
end

--- An unsigned 64-bit count, always as decimal text.
function M.ulong(n)
  if n >= 0 then return ("%d"):format(n) end
  local half = (n >> 1) // 5 -- n / 10, unsigned
  return ("%d%d"):format(half, n - half * 10)
end

--- Milliseconds since 1970 -> "2026-11-30T06:44:19.123Z".
---@param unix_ms integer
---@return string
function M.iso(unix_ms)
  unix_ms = math.floor(unix_ms)
  return os.date("!%Y-%m-%dT%H:%M:%S", unix_ms // 1000) .. (".%03dZ"):format(unix_ms % 1000)
end

--- Milliseconds -> "00:00:05.1230000", the contract's timespan.
---@param ms number
---@return string
function M.timespan(ms)
  local sign = ms < 0 and "-" or ""
  local ticks = math.floor(math.abs(ms) * 10000 + 0.5)
  local seconds, rest = ticks // 10000000, ticks % 10000000
  local days = seconds // 86400
  local text = ("%s%s%02d:%02d:%02d"):format(sign, days > 0 and days .. "." or "", seconds // 3600 % 24, seconds // 60 % 60, seconds % 60)
  return rest > 0 and text .. (".%07d"):format(rest) or text
end

M.SHORT_MS = 50 -- below it "0.0 s" would be said

--- Milliseconds -> how long a window was, for a sentence: "5.0 s", "43 ms". 0 is what a recording without a time tells.
---@param ms number
---@return string
function M.span(ms)
  if ms >= M.SHORT_MS then return ("%.1f s"):format(ms / 1000) end
  return ms > 0 and ("%.2g ms"):format(ms) or "an unknown time"
end

--- Rounds to so many digits behind the point; nil for what is no finite number (unavailable, never zero).
function M.round(x, digits)
  if type(x) ~= "number" or x ~= x or x == math.huge or x == -math.huge then return nil end
  if math.type(x) == "integer" then return x end
  local f = 10.0 ^ (digits or 2)
  local r = math.floor(x * f + 0.5) / f
  return math.tointeger(r) or r
end

--- A computed number as it is shown: six significant digits, but its whole part always. Integers, and what is no finite number, stay.
---@generic T
---@param x T
---@return T
function M.shown(x)
  if math.type(x) ~= "float" or x - x ~= 0 then return x end
  local text = math.abs(x) < 1e6 and ("%.6g"):format(x) or ("%.0f"):format(x)
  return tonumber(text)
end

return M
