-- SPDX-License-Identifier: MIT
-- redaction: takes secrets out of text that comes from a target, before it is kept, cut or shown. The groups at the end of this
-- file are built in; the operator adds regular expressions with Diagnostics:RedactionPatterns (see docs/configuration.md).
local database = require("lunette.redaction.database")
local generation = require("lunette.generation")
local headers = require("lunette.redaction.headers")
local log = require("lunette.log")
local splice = require("lunette.redaction.splice")

local M = {}

M.SENSITIVE = "<redacted:sensitive>"
M.METADATA_ONLY = "<redacted:metadata-only>"
M.SQL_LITERAL = "<redacted:literal>"

local MIN_ALONE <const> = 16 -- characters of a user info without a password that is taken for a token
local MAX_CUSTOM <const> = 64
local MAX_LAYERED <const> = 256 -- patterns of redaction/ in all layers
local MIN_GITHUB <const> = 20
local MAX_NAME <const> = 96  -- how far before a separator the name of a value may begin
local MAX_ESCAPES <const> = 32 -- backslashes before a quote
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

local function bearer(word, space, value)
  return #value >= 3 and not PROSE[value:lower()] and word .. space .. M.SENSITIVE or nil
end

-- base64 of user:password has capitals, digits or padding; a word of prose has none behind its first letter
local function basic(word, space, value)
  return #value >= 6 and value:sub(2):find("[%u%d=]") and word .. space .. M.SENSITIVE or nil
end

local function scheme_values(text)
  text = text:gsub("(%f[%w][Bb][Ee][Aa][Rr][Ee][Rr])(%s+)([%w%-%._~%+/=]+)", bearer)
  text = text:gsub("(%f[%w][Bb][Ee][Aa][Rr][Ee][Rr])(%%20)([%w%-%._~%+/=]+)", bearer)
  return (text:gsub("(%f[%w][Bb][Aa][Ss][Ii][Cc])(%s+)([%w%+/=]+)", basic))
end

local function jwt(text)
  if not text:find(JWT_START, 1, true) then return text end
  -- three parts; encrypted ones have five, of which the second may be empty
  return (text:gsub("%f[%w_%-]eyJ[%w_%-]+%.[%w_%-]*%.[%w_%-%.]*", M.SENSITIVE))
end

-- Normalised names (lower case, no separators) that hold a secret, wherever they stand in a longer name.
local SECRET_NAMES <const> = {
  "password", "passwd", "passphrase", "apikey", "secret", "accesskey", "authtoken", "accesstoken", "refreshtoken", "privatekey",
  "accountkey",
}
-- Two words before a separator: "api key: …".
local FIRST_WORDS <const> = { api = true, access = true, client = true, auth = true, secret = true, private = true, refresh = true }

-- Names that end in "token" and hold none: of assemblies, metadata and tasks.
local NO_TOKENS <const> = {
  "publickeytoken", "cancellationtoken", "metadatatoken", "methodtoken", "typetoken", "stoppingtoken", "synctoken",
}
-- Names that hold a secret when the value looks like one.
local SIGNATURES <const> = { sig = true, signature = true, xamzsignature = true, xgoogsignature = true }
local PASSES <const> = { pass = true, dbpass = true, userpass = true, smtppass = true, mysqlpass = true, ftppass = true }
local MIN_TOKEN <const>, MIN_SIGNATURE <const> = 8, 16

local function ends_in_one_of(name, list)
  for _, one in ipairs(list) do
    if name:sub(-#one) == one then return true end
  end
  return false
end

local function opaque(value, min) return #value >= min and not value:find("^0[xX]%x+$") and not value:find("^System%.") end

-- Of names that are not always a secret's: whether the value is one. The sign between them says how it was written.
local DOUBTFUL <const> = {
  token = function(value, sign) return opaque(value, MIN_TOKEN) and (sign == "=" or value:find("%d") ~= nil) end,
  signature = function(value, sign)
    return sign == "=" and opaque(value, MIN_SIGNATURE) and value:find("^[%w%+/%%=_%-%.~]+$") ~= nil and value:find("%d") ~= nil
  end,
  pass = function(value, sign) return sign == "=" and #value >= 4 and not value:find("^[%d%.]+$") end,
}

local MAX_LOOK <const> = 256 -- bytes of such a value that are looked at, since it may hold such names again

--- Whether the value at `start` of a name that ends before `from` is a secret. A name in quotes is one of JSON, and as good as "name=".
local function is_secret_value(kind, text, from, start)
  if kind == true then return true end
  local between = text:sub(from, start - 1)
  local sign = (between:find("=", 1, true) or between:find("[\"']") or between:find("%%3[Dd]")) and "=" or ":"
  return DOUBTFUL[kind](text:sub(start, start + MAX_LOOK):match("^\\*[\"']?([^%s\"'&;,<>%]}\\]*)"), sign)
end

--- Whether a name is a secret's: true, false, or the kind of names whose value tells.
local function names_secret(name)
  name = name:lower():gsub("[_%-%.]", "")
  if name == "pwd" or name:find("pwd$") then return true end
  for _, secret in ipairs(SECRET_NAMES) do
    if name:find(secret, 1, true) then return true end
  end
  if name:find("token$") and not ends_in_one_of(name, NO_TOKENS) then return "token" end
  return SIGNATURES[name] and "signature" or PASSES[name] and "pass" or false
end

-- A quoted value: first and last byte inside the quotes. In text that is escaped as a whole, the quotes come with backslashes.
local function quoted(text, from)
  local escaped, quote = text:match("^(\\*)([\"'])", from)
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

-- The end of a list or an object in JSON, or of a text in braces as connection strings have it: the whole of it is the value. One without
-- an end was cut: all that is left.
local function bracketed(text, from)
  if not text:find("^[%[{]", from) then return nil end
  local depth, at = 0, from
  while true do
    local mark = text:find('["%[%]{}]', at)
    if not mark then return #text end
    local c = text:sub(mark, mark)
    at = mark + 1
    if c == '"' then
      local escapes = #text:sub(math.max(from, mark - MAX_ESCAPES), mark - 1):match("\\*$")
      local _, close = quoted(text, mark - escapes)
      at = close + escapes + 2
    else
      depth = depth + ((c == "[" or c == "{") and 1 or -1)
      if depth == 0 then return mark end
    end
  end
end

-- The end of a value without quotes. A quote or an angle bracket ends it, unless it goes on right behind: then it is one of its characters.
local function bare(text, from)
  local at = from
  while true do
    at = text:match("^[^%s;&\"'<>]*()", at)
    if not text:find("^[\"'<>]%w", at) then break end
    at = at + 1
  end
  return at > from and at - 1 or nil
end

-- The end of an assigned value that starts at `from`, and where it starts when that is later.
local function value_end(text, from)
  if text:find("^<redacted:", from) then return nil end
  local open, close = quoted(text, from)
  if open then return close, open end
  local last_of_all = bracketed(text, from)
  if last_of_all then return last_of_all, from end
  if text:sub(from - 1, from - 1) == "=" then -- in a connection string blanks belong to the value
    local semicolon = text:match("^[^;&\"'<>=\n]+();%s*[%w ]+=", from)
    if not semicolon and text:find(";", 1, true) and text:find(";", 1, true) < from then
      semicolon = text:match("^[^;&\"'<>=\n]+();?%s*$", from)
    end
    if semicolon then return semicolon - 1, from end
  end
  local scheme = text:match("^[Bb]earer%s+", from) or text:match("^[Bb]asic%s+", from)
  local start = from + (scheme and #scheme or 0)
  return bare(text, start), start
end

-- What every name of a secret contains: only there is a closer look worth its time.
local STEMS <const> = { "pass", "pwd", "secret", "key", "token", "sig" }

-- The nearest stem at or behind `from`; places remembers where each was seen last.
local function next_stem(lower, from, places)
  local nearest
  for _, stem in ipairs(STEMS) do
    local at = places[stem]
    if at and at < from then
      at = lower:find(stem, from, true)
      places[stem] = at
    end
    if at and (not nearest or at < nearest) then nearest = at end
  end
  return nearest
end

-- Other ways to write a name and its value: with the escapes of URLs; as a pair, {"Key":"name","Value":"value"}, key="name" value="value".
local ELSEWHERE <const> = {
  "^%%3[DdAa]()", "^%%22%%3[Aa]%%22()", "^\\*[\"'],?%s*\\*[\"']?[Vv]alue\\*[\"']?%s*[=:]%s*()",
}

-- The name around a stem, with the word before it when the two are one name ("api key").
local function whole_name(text, at, rest)
  local head = text:sub(math.max(1, at - MAX_NAME), at - 1):reverse() -- backwards, so that the pattern has one place to begin
  local begin, first = head:match("^([%w_%-%.]*) ?(%a*)")
  local name = begin:reverse() .. rest
  first = first:reverse()
  return FIRST_WORDS[first:lower()] and first .. name or name, at - #begin
end

-- Where the value of a name begins that ends before `from`; nil when it has none. `begin` is where the name does.
local function value_start(text, begin, from)
  local start = text:match("^\\*[\"']?%s*[=:][=>]*%s*()", from) or text:match("^\\*[\"']?%s*%-+>%s*()", from)
  -- name=value, "name": "value", name => value, name -> value
  if start then return start end
  for _, pattern in ipairs(ELSEWHERE) do
    start = text:match(pattern, from)
    if start then return start end
  end
  local before = text:sub(begin - 1, begin - 1)
  if before == "<" then return text:match("^>%s*()", from) end -- <name>value</name>
  return text:find("^%-%-", begin) and text:match("^%s+()[^%s%-]", from) or nil -- --name value
end

local function assignments(text)
  local lower, places = text:lower(), {}
  for _, stem in ipairs(STEMS) do places[stem] = 0 end
  return splice.replace(text, M.SENSITIVE, function(from)
    local at = next_stem(lower, from, places)
    if not at then return nil end
    local on = text:match("^[%w_%-%.]*()", at) -- one look at each name
    local rest = text:sub(at, on - 1)
    local name, begin = whole_name(text, at, rest:sub(1, MAX_NAME + 1))
    local start = #rest <= MAX_NAME and value_start(text, begin, on)
    local kind = start and names_secret(name)
    if not kind or not is_secret_value(kind, text, on, start) then return on end
    local last, open = value_end(text, start)
    if last and last >= open then return last + 1, open, last end
    return on
  end)
end

-- scheme://user:password@host
local function user_info(text)
  return splice.replace(text, M.SENSITIVE, function(from)
    local at = text:find("://", from, true)
    if not at then return nil end
    local on = at + 3
    local open, close = text:match("^[^%s/:@]*:()[^%s/]+()@", on) -- to the last @: a password may have some
    if not open then -- a token alone
      local alone, behind = text:match("^([^%s/:@<]+)()@", on)
      if alone and #alone >= MIN_ALONE and alone:find("%d") then open, close = on, behind end
    end
    if open then return close, open, close - 1 end
    return on
  end)
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
local GROUPS <const> = {
  pem, jwt, github, function(text) return headers.tokens(text, M.SENSITIVE) end, aws_keys,
  function(text) return headers.redact(text, M.SENSITIVE) end,
  function(text) return database.redact(text, M.SQL_LITERAL) end, assignments, scheme_values, user_info,
}

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

-- The patterns of layers, compiled once a generation. Each was checked when its file was read.
local function layered(g)
  local list = {}
  for _, declared in ipairs(g:list("redaction")) do
    for _, pattern in ipairs(declared.patterns) do
      if #list < MAX_LAYERED then list[#list + 1] = require("lunette.regex").compile(pattern) end
    end
  end
  return list
end

local function groups(text)
  for _, group in ipairs(GROUPS) do text = group(text) end
  return text
end

-- JSON as .NET writes it has \u0022 for a quote, \u0026 for an ampersand, and so on: what is found only behind those counts, too.
local function without_escapes(text)
  if not text:find("\\u00[2-7]%x") then return groups(text) end
  local plain = text:gsub("\\+u00([2-7]%x)", function(hex) return string.char(tonumber(hex, 16)) end)
  local redacted = groups(plain)
  return redacted ~= plain and redacted or groups(text)
end

--- Text without its secrets. Anything but text is given back as it is.
---@param text any
function M.redact(text)
  if type(text) ~= "string" or text == "" then return text end
  text = without_escapes(text)
  for _, pattern in ipairs(custom) do text = pattern:gsub(text, M.SENSITIVE) end
  for _, pattern in ipairs(generation.current():derived("redaction", layered)) do text = pattern:gsub(text, M.SENSITIVE) end
  return text
end

return M
