-- SPDX-License-Identifier: MIT
-- redaction: takes secrets out of text that comes from a target, before it is kept, cut or shown. Seven groups are built in; the operator
-- adds regular expressions with Diagnostics:RedactionPatterns (POSIX extended syntax, see docs/configuration.md).
local log = require("lunette.log")

local M = {}

M.SENSITIVE = "<redacted:sensitive>"
M.METADATA_ONLY = "<redacted:metadata-only>"
M.SQL_LITERAL = "<redacted:literal>"

local MAX_CUSTOM <const> = 64
local MIN_GITHUB <const> = 20
local JWT_START <const> = "eyJ" -- base64url of {"

-- PEM blocks: to their end, or to the end of the text when that is missing.
local function pem(text)
  local out, from = {}, 1
  while true do
    local s = text:find("-----BEGIN ", from, true)
    if not s then break end
    local _, close = text:find("%-%-%-%-%-END [%w ]*%-%-%-%-%-", s)
    out[#out + 1] = text:sub(from, s - 1) .. M.SENSITIVE
    from = (close or #text) + 1
  end
  out[#out + 1] = text:sub(from)
  return table.concat(out)
end

-- Words that follow "Bearer" or "Basic" in prose.
local PROSE <const> = {
  token = true, tokens = true, auth = true, authentication = true, authorization = true, scheme = true, header = true, realm = true,
  error = true, challenge = true, is = true, was = true, ["and"] = true, ["or"] = true, ["in"] = true, ["for"] = true, to = true,
}

local function scheme_values(text)
  return (text:gsub("(%f[%w][BbA-Za-z]+)(%s+)([%w%-%._~%+/=]+)", function(word, space, value)
    local scheme = word:lower()
    if scheme == "bearer" and #value >= 3 and not PROSE[value:lower()] then return word .. space .. M.SENSITIVE end
    -- base64 of user:password has capitals, digits or padding; a word of prose has none behind its first letter
    if scheme == "basic" and #value >= 6 and value:sub(2):find("[%u%d=]") then return word .. space .. M.SENSITIVE end
    return nil
  end))
end

local function jwt(text)
  if not text:find(JWT_START, 1, true) then return text end
  return (text:gsub("%f[%w]eyJ[%w_%-]+%.[%w_%-]+%.[%w_%-]*", M.SENSITIVE))
end

-- Normalised names (lower case, no separators) that hold a secret, wherever they stand in a longer name.
local SECRET_NAMES <const> = {
  "password", "passwd", "passphrase", "apikey", "secret", "accesskey", "authtoken", "accesstoken", "refreshtoken", "privatekey",
}
-- Two words before a separator: "api key: …".
local FIRST_WORDS <const> = { api = true, access = true, client = true, auth = true, secret = true, private = true, refresh = true }

local function names_secret(name)
  name = name:lower():gsub("[_%-%.]", "")
  if name == "pwd" or name:find("pwd$") then return true end
  for _, secret in ipairs(SECRET_NAMES) do
    if name:find(secret, 1, true) then return true end
  end
  return false
end

-- A quoted value: first and last byte inside the quotes. In text that is escaped as a whole the quotes come with backslashes.
local function quoted(text, from)
  local escaped, quote = text:match("^(\\?)([\"'])", from)
  if not quote then return nil end
  local open = from + #escaped + 1
  if escaped ~= "" then return open, (text:find(escaped .. quote, open, true) or #text + 1) - 1 end
  local i = open
  while i <= #text do
    local c = text:sub(i, i)
    if c == quote then break end
    i = i + (c == "\\" and 2 or 1)
  end
  return open, math.min(i - 1, #text)
end

-- The end of an assigned value that starts at `from`, and where it starts when that is later.
local function value_end(text, from)
  local open, close = quoted(text, from)
  if open then return close, open end
  local semicolon = text:match("^[^;&\"'<>=\n]+();%s*[%w ]+=", from) or text:match("^[^;&\"'<>=\n]+();?%s*$", from)
  if semicolon and text:sub(from - 1, from - 1) == "=" then return semicolon - 1, from end -- in a connection string blanks belong to it
  local scheme = text:match("^[Bb]earer%s+", from) or text:match("^[Bb]asic%s+", from)
  local start = from + (scheme and #scheme or 0)
  local last = text:match("^[^%s;&\"'<>]+()", start)
  return last and last - 1 or nil, start
end

local function assignments(text)
  local out, kept, from = {}, 1, 1
  while true do
    local s, e, name = text:find("([%w_%-%.]+)\\?[\"']?%s*[=:]", from)
    if not s then break end
    local first = text:sub(math.max(1, s - 12), s - 1):match("(%a+) $")
    local whole = first and FIRST_WORDS[first:lower()] and first .. name or name
    from = e + 1
    if names_secret(whole) then
      local start = text:match("^[=>]*%s*()", e + 1)
      local last, open = value_end(text, start)
      if last and last >= open then
        out[#out + 1] = text:sub(kept, open - 1) .. M.SENSITIVE
        kept, from = last + 1, last + 1
      end
    end
  end
  out[#out + 1] = text:sub(kept)
  return table.concat(out)
end

local function user_info(text)
  if not text:find("://", 1, true) then return text end
  return (text:gsub("(%a[%w+.-]*://[^%s/:@]*):([^%s/@]+)@", "%1:" .. M.SENSITIVE .. "@"))
end

local AWS <const> = { AKIA = true, ASIA = true, AGPA = true, AIDA = true, AROA = true, AIPA = true, ANPA = true, ANVA = true }
local function aws_keys(text)
  return (text:gsub("%f[%w](A%u%u%u)([%u%d]+)%f[^%w]", function(head, rest)
    return AWS[head] and #rest == 16 and M.SENSITIVE or nil
  end))
end

local function github(text)
  if not text:find("gh", 1, true) and not text:find("github_pat_", 1, true) then return text end
  text = text:gsub("%f[%w]github_pat_[%w_]+", function(token) return #token >= MIN_GITHUB and M.SENSITIVE or nil end)
  return (text:gsub("%f[%w]gh[pousr]_[%w]+", function(token) return #token >= MIN_GITHUB and M.SENSITIVE or nil end))
end

-- In this order: what spans most goes first.
local GROUPS <const> = { pem, jwt, github, aws_keys, assignments, scheme_values, user_info }

local custom = {}

--- Adds the operator's regular expressions. One that cannot be used is skipped and told in the log.
---@param patterns string[]?
---@return integer n   how many are in use
function M.configure(patterns)
  custom = {}
  local has_regex, regex = pcall(require, "lunette.regex")
  for i, pattern in ipairs(patterns or {}) do
    if i > MAX_CUSTOM then
      log.warning("redaction", "too many patterns; the rest is not used", { used = MAX_CUSTOM, given = #patterns })
      break
    end
    local compiled, err = nil, "this build has no regular expressions"
    if has_regex then compiled, err = regex.compile(pattern) end
    if compiled then
      custom[#custom + 1] = compiled
    else
      log.warning("redaction", "a pattern cannot be used and is skipped", { index = i - 1, error = tostring(err) })
    end
  end
  return #custom
end

--- Text without its secrets. Anything but text is given back as it is.
---@param text any
function M.redact(text)
  if type(text) ~= "string" or text == "" then return text end
  for _, group in ipairs(GROUPS) do text = group(text) end
  for _, pattern in ipairs(custom) do text = pattern:gsub(text, M.SENSITIVE) end
  return text
end

return M
