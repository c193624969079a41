-- SPDX-License-Identifier: MIT
-- Secrets whose value goes on over blanks and semicolons, to the end of the line: cookies, and what an Authorization header holds. And
-- tokens that are known by how they begin.
local splice = require("lunette.redaction.splice")

local M = {}

local MIN_OPAQUE <const> = 16 -- characters of a value of Authorization without a scheme
local SCHEMES <const> = {
  digest = true, negotiate = true, ntlm = true, apikey = true, token = true, hawk = true, sharedkey = true, sharedaccesssignature = true,
  ["aws4-hmac-sha256"] = true, hoba = true, mutual = true, vapid = true, dpop = true, gnap = true, privatetoken = true,
}
local COOKIES <const> = { cookie = true, cookies = true, setcookie = true, cookie2 = true }

-- Where the value of a header begins whose name ends before `from`, and its last byte: of one in quotes before the quote, else of the line.
local function value_of(text, from)
  local start = text:match("^\\*[\"']?%s*[:=]%s*%[?%s*()", from)
  if not start then return nil end
  local escapes, quote = text:match("^(\\*)([\"'])", start)
  if quote then
    start = start + #escapes + 1
    return start, (text:find(escapes .. quote, start, true) or #text + 1) - 1
  end
  local ends = text:find("^[Dd]igest ", start) and "[\r\n]" or "[\r\n\"]" -- what Digest says has quotes of its own
  return start, (text:find(ends, start) or #text + 1) - 1
end

--- Cookies: "Cookie: a=b; c=d", "Set-Cookie": ["a=b; path=/"].
local function is_cookie(value) return value:find("^[^%s;=]+=[^%s]") ~= nil end

--- What stands behind an Authorization header's name; Bearer and Basic are left to who knows them by themselves.
local function is_authorization(value)
  local word = value:match("^([%w%-_]+)%s+%S")
  if word then return SCHEMES[word:lower()] ~= nil end
  return #value >= MIN_OPAQUE and value:find("^%S+$") ~= nil and value:find("%d") ~= nil and value:sub(1, 1) ~= "<"
end

local function headers(text, lower, stem, names, is_secret, mark)
  return splice.replace(text, mark, function(from)
    local at = lower:find(stem, from, true)
    if not at then return nil end
    local begin = lower:sub(math.max(1, at - 16), at - 1):match("[%w_%-]*$")
    local on = text:match("^[%w_%-]*()", at)
    local name = (begin .. lower:sub(at, math.min(on - 1, at + 32))):gsub("[_%-]", "")
    local start, last = nil, nil
    if names(name) then start, last = value_of(text, on) end
    if not start or last < start then return on end
    on = math.max(on, last + 1)
    if is_secret(text:sub(start, last)) then return on, start, last end
    return on
  end)
end

--- Text without the values of cookies and of Authorization headers.
---@param text string
---@param mark string
function M.redact(text, mark)
  local lower = text:lower()
  if lower:find("cookie", 1, true) then
    text = headers(text, lower, "cookie", function(name) return COOKIES[name] end, is_cookie, mark)
    lower = text:lower()
  end
  if lower:find("authorization", 1, true) then
    text = headers(text, lower, "authorization", function(name) return name:find("authorization$") end, is_authorization, mark)
  end
  return text
end

-- How tokens of well-known services begin, and how many characters follow at least.
local TOKENS <const> = {
  { head = "AIza", min = 30 }, { head = "xoxa-", min = 10 }, { head = "xoxb-", min = 10 }, { head = "xoxp-", min = 10 },
  { head = "xoxr-", min = 10 }, { head = "xoxs-", min = 10 }, { head = "sk_live_", min = 10 }, { head = "rk_live_", min = 10 },
  { head = "sk_test_", min = 10 }, { head = "sk-", min = 24 }, { head = "glpat-", min = 16 }, { head = "npm_", min = 30 },
  { head = "dop_v1_", min = 30 }, { head = "hf_", min = 30 }, { head = "pypi-", min = 30 },
}

--- Text without tokens that are known by their begin.
function M.tokens(text, mark)
  for _, token in ipairs(TOKENS) do
    if text:find(token.head, 1, true) then
      text = text:gsub("%f[%w]" .. token.head:gsub("%-", "%%-") .. "([%w_%-]+)", function(rest)
        return #rest >= token.min and rest:find("%d") and mark or nil
      end)
    end
  end
  return text
end

return M
