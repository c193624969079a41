-- SPDX-License-Identifier: MIT
-- A declaration of reducers becomes the plain form that the engine reads: lists in a fixed order, texts, numbers. What can be checked
-- without an event is checked here, so that a mistake names the reducer, the key and what was meant; expressions are the engine's.
local keywords = require("lunette.probe.keywords")
local text = require("lunette.text")

local M = {}

local PROGRAM_KEYS <const> = { "name", "providers", "events", "let", "keep", "finish", "stacks", "memory_max", "text_max" }
local PROVIDER_KEYS <const> = { "name", "keywords", "level", "args" }
local FINISH_KEYS <const> = { "on", "where", "count" }
local COMMON <const> = { "op", "on", "where" }
local KEYS <const> = {
  count = {}, sum = { "expr" }, min = { "expr" }, max = { "expr" }, stats = { "expr" }, quantiles = { "expr", "quantiles" },
  value = { "expr" }, distinct = { "expr", "max" }, first = { "n", "row" }, last = { "n", "row" }, top = { "n", "expr", "row" },
  group = { "by", "weight", "top", "max", "keep", "frames" }, pair = { "start", "stop", "by", "nested", "open", "top", "keep" },
  timeline = { "every", "max", "keep" }, filter = { "keep" }, each = { "fn", "row" },
}
local FRAMES_KEYS <const> = { "skip", "depth" }
-- The engine's own limits (native/probe/probe.h, program_lua.c), here so that a mistake names its place.
local DEPTH_MAX <const> = 16
local REDUCERS_MAX <const> = 512
local LIST_MAX <const> = 4096
local ROWS_MAX <const> = 1000000
local COUNT_MAX <const> = 0xFFFFFFFF
local TEXT_MAX <const> = 65536

local Problem = {}
local function fail(fmt, ...) error(setmetatable({ text = fmt:format(...) }, Problem), 0) end

local function table_of(place, value, what)
  if type(value) ~= "table" then fail("%s is %s, not a %s", place, what or "a table", type(value)) end
  return value
end

--- Entries of a list, up to the limit: a table that answers every index would never end.
local function entries(place, list)
  local next_entry, state, first = ipairs(table_of(place, list, "a list"))
  return function(_, i)
    local at, item = next_entry(state, i)
    if at and at > LIST_MAX then fail("%s has more than %d entries", place, LIST_MAX) end
    return at, item
  end, state, first
end

local function plain_text(place, value)
  if value:find("\0", 1, true) then fail("%s has a NUL character in it", place) end
  return value
end

local function known_keys(place, t, ...)
  table_of(place, t)
  local allowed, names = {}, {}
  for _, list in ipairs { ... } do
    for _, key in ipairs(list) do
      allowed[key] = true
      names[#names + 1] = key
    end
  end
  for key in pairs(t) do
    if not allowed[key] then
      fail("%s has no key '%s'; it has %s.%s", place, tostring(key), table.concat(names, ", "), text.did_you_mean(tostring(key), names))
    end
  end
end

local function as_list(place, value)
  if value == nil then return nil end
  local list = {}
  for i, item in entries(place, type(value) == "table" and value or { value }) do
    if type(item) ~= "string" then fail("%s holds texts, not %s", place, type(item)) end
    list[i] = plain_text(place, item)
  end
  if #list == 0 then fail("%s is empty", place) end
  return list
end

local function expression(place, value)
  if type(value) == "number" or type(value) == "boolean" then return tostring(value) end
  if value == nil then return nil end
  if type(value) ~= "string" then fail("%s is an expression: a text, not a %s", place, type(value)) end
  return plain_text(place, value)
end

local function whole(place, value, least, most)
  if value == nil then return nil end
  local n = math.tointeger(value)
  if not n or n < least then fail("%s is a whole number from %d, not %s", place, least, tostring(value)) end
  if most and n > most then fail("%s is at most %d, not %d", place, most, n) end
  return n
end

local function percentiles(place, value)
  if value == nil then return nil end
  local list = {}
  for i, p in entries(place, value) do
    if type(p) ~= "number" or not (p >= 0 and p <= 100) then fail("%s holds numbers from 0 to 100, not %s", place, tostring(p)) end
    list[i] = p
  end
  return list
end

--- { name = expression, … } as a list in order of the names; a list of { name, expression } keeps its own.
local function row(place, given)
  if type(given) ~= "table" then fail("%s is a table of expressions by name", place) end
  local list = {}
  if given[1] then
    for i, pair in entries(place, given) do
      if type(pair) ~= "table" or type(pair[1]) ~= "string" then fail("%s: entry %d is not { name, expression }", place, i) end
      list[i] = { pair[1], expression(place .. "." .. pair[1], pair[2]) or fail("%s.%s has no expression", place, pair[1]) }
    end
    return list
  end
  for name, value in pairs(given) do
    if type(name) ~= "string" then fail("%s: its entries have names, not a %s", place, type(name)) end
    list[#list + 1] = { plain_text(place, name), expression(place .. "." .. name, value) }
  end
  if #list == 0 then fail("%s is empty", place) end
  table.sort(list, function(a, b) return a[1] < b[1] end)
  return list
end

local NS <const> = { ns = 1, us = 1000, ms = 1000000, s = 1000000000, min = 60000000000 }

--- "500ms" in nanoseconds; a number is nanoseconds.
local function duration(place, value)
  if math.tointeger(value) and value > 0 then return math.tointeger(value) end
  local number, unit = tostring(value):match("^([%d.]+)%s*(%a+)$")
  local ns = tonumber(number) and NS[unit] and math.tointeger(math.floor(tonumber(number) * NS[unit]))
  if not ns or ns < 1 then fail("%s is a length of time like \"1s\" or \"100ms\", not %s", place, tostring(value)) end
  return ns
end

-- Keys of a group or a pair: one expression, a list of them, or a table by name.
local function keys(place, by)
  if type(by) == "table" and not by[1] then return row(place, by) end
  local list = {}
  for i, one in entries(place, type(by) == "table" and by or { by }) do
    list[i] = { i == 1 and "key" or "key" .. i, expression(place, one) }
  end
  return list
end

local nodes

local function pair_keys(place, given, plain)
  local by = given.by
  if type(by) == "table" and (by.start or by.stop) then
    known_keys(place .. ".by", by, { "start", "stop" })
    if not (by.start and by.stop) then fail("%s.by has one side only", place) end
    plain.by, plain.by_stop = keys(place .. ".by.start", by.start), keys(place .. ".by.stop", by.stop)
  elseif by ~= nil then
    plain.by = keys(place .. ".by", by)
  end
end

local function node(program, place, name, given, depth)
  program.reducers = program.reducers + 1
  if program.reducers > REDUCERS_MAX then fail("%s: the program has more than %d reducers", place, REDUCERS_MAX) end
  if depth > DEPTH_MAX then fail("%s: reducers are nested more than %d deep", place, DEPTH_MAX) end
  if type(given) ~= "table" or not given.op then fail("%s is no reducer; make it with probe.count() and the like", place) end
  local allowed = KEYS[given.op]
  if not allowed then fail("%s: there is no reducer '%s'", place, tostring(given.op)) end
  known_keys(place, given, COMMON, allowed)
  local plain = {
    name = name, op = given.op, on = as_list(place .. ".on", given.on), where = expression(place .. ".where", given.where),
    expr = expression(place .. "'s expression", given.expr), weight = expression(place .. ".weight", given.weight),
    n = whole(place .. "'s number of rows", given.n, 1, ROWS_MAX), max = whole(place .. ".max", given.max, 1, COUNT_MAX),
    top = whole(place .. ".top", given.top, 1, COUNT_MAX), nested = given.nested,
    quantiles = percentiles(place .. "'s percentiles", given.quantiles),
  }
  if given.row then plain.row = row(place .. "'s row", given.row) end
  if given.op == "group" and given.by ~= nil then plain.by = keys(place .. ".by", given.by) end
  if given.op == "pair" then
    plain.start, plain.stop = as_list(place .. ".start", given.start), as_list(place .. ".stop", given.stop)
    pair_keys(place, given, plain)
    if given.open then plain.open, plain.row = true, row(place .. ".open", given.open) end
  end
  if given.op == "timeline" then plain.every_ns = duration(place .. ".every", given.every) end
  if given.frames then
    known_keys(place .. ".frames", given.frames, FRAMES_KEYS)
    local skip = given.frames.skip
    if skip ~= nil and (type(skip) ~= "table" or next(skip)) then plain.skip = as_list(place .. ".frames.skip", skip) end
    plain.depth = whole(place .. ".frames.depth", given.frames.depth, 1, COUNT_MAX)
  end
  if given.op == "each" then
    if type(given.fn) ~= "function" then fail("%s: each() takes a function", place) end
    program.each[#program.each + 1] = given.fn
    plain.each = #program.each
  end
  if given.keep ~= nil then
    table_of(place .. ".keep", given.keep, "a table of reducers by name")
    local taken = {}
    for _, key in ipairs(plain.by or {}) do taken[key[1]] = given.op == "group" end
    for key in pairs(given.keep) do
      if taken[key] then fail("%s: '%s' is both a key and a reducer", place, tostring(key)) end
    end
    plain.keep = nodes(program, place, given.keep, depth + 1)
  end
  return plain
end

function nodes(program, place, keep, depth)
  local names, list = {}, {}
  for name in pairs(keep) do
    if type(name) ~= "string" or name == "" then fail("%s.keep: reducers have names, not numbers", place) end
    names[#names + 1] = plain_text("a reducer's name", name)
  end
  table.sort(names)
  for i, name in ipairs(names) do list[i] = node(program, place == "" and name or place .. "." .. name, name, keep[name], depth) end
  return list
end

local function providers(given)
  local list = {}
  for i, p in entries("providers", given or {}) do
    local place = ("providers[%d]"):format(i)
    known_keys(place, p, PROVIDER_KEYS)
    if type(p.name) ~= "string" or p.name == "" then fail("%s has no name", place) end
    if p.args ~= nil and type(p.args) ~= "string" then fail("%s.args is a text, not a %s", place, type(p.args)) end
    local mask, unknown = keywords.mask(p.keywords)
    if p.keywords == nil then -- an event without a keyword may need the session's own bits, which only the full mask has
      if p.name:find("^Microsoft%-Windows%-DotNETRuntime") then
        fail("%s: the runtime's events are chosen by keywords; name them", place)
      end
      mask = -1
    end
    if not mask then
      local names = {}
      for name in pairs(keywords.RUNTIME) do names[#names + 1] = name end
      table.sort(names)
      if type(unknown) ~= "string" then fail("%s.keywords is a whole number, a name, or a list of them", place) end
      fail("%s: the runtime has no keyword '%s'.%s", place, tostring(unknown), text.did_you_mean(tostring(unknown), names))
    end
    local level = p.level or 4
    if not math.tointeger(level) or level < 0 or level > 5 then fail("%s.level is 0 to 5", place) end
    list[i] = { name = p.name, keywords = mask, level = math.tointeger(level), args = p.args }
  end
  return list
end

local function events(given)
  if type(given) ~= "table" or not next(given) then fail("events names at least one kind of event") end
  local names, list = {}, {}
  for name in pairs(given) do
    if type(name) ~= "string" then fail("events have short names, not numbers") end
    names[#names + 1] = plain_text("the short name of an event", name)
  end
  table.sort(names)
  for _, name in ipairs(names) do
    for _, pattern in ipairs(as_list("events." .. name, given[name])) do
      if not pattern:find("^[^/]+/.") then fail("events.%s: \"%s\" is not PROVIDER/EVENT", name, pattern) end
      list[#list + 1] = { name, pattern }
    end
  end
  return list, names
end

local function check_names(program, list, names)
  local known = {}
  for _, name in ipairs(names) do known[name] = true end
  local function each_name(place, given)
    for _, name in ipairs(given or {}) do
      if not known[name] then fail("%s: there is no event '%s' in the program.%s", place, name, text.did_you_mean(name, names)) end
    end
  end
  local function walk(place, kept)
    for _, n in ipairs(kept or {}) do
      local here = place == "" and n.name or place .. "." .. n.name
      each_name(here, n.on)
      each_name(here, n.start)
      each_name(here, n.stop)
      walk(here, n.keep)
    end
  end
  walk("", list)
  each_name("finish", program.finish_on)
end

local function compile(declared)
  if type(declared) ~= "table" then fail("a program is a table") end
  known_keys("the program", declared, PROGRAM_KEYS)
  if declared.name ~= nil and type(declared.name) ~= "string" then fail("name is a text, not a %s", type(declared.name)) end
  local program = { name = declared.name or "program", providers = providers(declared.providers), each = {}, reducers = 0 }
  local names
  program.events, names = events(declared.events)
  program.let = declared.let and row("let", declared.let) or nil
  if type(declared.keep) ~= "table" or not next(declared.keep) then fail("keep says what to keep; it is empty") end
  program.keep = nodes(program, "", declared.keep, 0)
  if declared.finish then
    known_keys("finish", declared.finish, FINISH_KEYS)
    program.finish_on = as_list("finish.on", declared.finish.on) or fail("finish.on names the event that ends the window")
    program.finish_where = expression("finish.where", declared.finish.where)
    program.finish_count = whole("finish.count", declared.finish.count, 1)
  end
  if declared.stacks ~= nil and declared.stacks ~= true and declared.stacks ~= "addresses" then
    fail("stacks is true or \"addresses\"")
  end
  program.addresses = declared.stacks == "addresses"
  program.memory_max = whole("memory_max", declared.memory_max, 65536)
  program.text_max = whole("text_max", declared.text_max, 16, TEXT_MAX)
  check_names(program, program.keep, names)
  return program
end

--- The plain form, or nil, why.
function M.compile(declared)
  local ok, result = pcall(compile, declared)
  if ok then return result end
  if getmetatable(result) == Problem then return nil, result.text end
  error(result, 0)
end

return M
