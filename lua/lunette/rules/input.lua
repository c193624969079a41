-- SPDX-License-Identifier: MIT
-- Inputs of rules: a declaration of a number (a counter with a statistic, a Meter instrument, a field of an artifact, a named fact,
-- something made of others) compiled into a function over a window. The same input asked for by many rules is read once a window.
local faults = require("lunette.faults")
local guard = require("lunette.guard")
local known_counters = require("lunette.rules.known")
local text = require("lunette.text")

local M = {}

local MB <const> = 1000000.0
M.MAX_DEPTH = 16 -- facts made of facts
M.COUNTERS = "counters" -- the kind of handle whose artifact holds counters and Meter instruments
M.ANY = "*"

--- First to last of one metric, and the same in MB; nil for less than two observations.
local function trend_of(s, unit)
  if s.n < 2 then return nil end
  local first, last = s.first, s.last
  return {
    first = first, last = last, delta = last - first, relativeChange = first ~= 0 and (last - first) / math.abs(first) or nil,
    deltaMb = (last - first) / (unit == "B" and MB or 1), falls = s.falls,
  }
end

-- What a series of observations can be asked for. (series, counter) -> value
local STATS <const> = {
  last = function(s) return s.last end, first = function(s) return s.first end, min = function(s) return s.min end,
  max = function(s) return s.max end, mean = function(s) return s.n > 0 and s.sum / s.n or nil end,
  total = function(s) return s.n > 0 and s.sum or nil end, samples = function(s) return s.n end,
  falls = function(s) return s.n > 0 and s.falls or nil end,
  growth = function(s) return s.n >= 2 and s.last - s.first or nil end,
  growth_percent = function(s) return s.n >= 2 and s.first ~= 0 and (s.last - s.first) / math.abs(s.first) * 100 or nil end,
  per_second = function(s, c) return s.n > 0 and c.interval_s and c.interval_s > 0 and s.sum / s.n / c.interval_s or nil end,
  last_per_second = function(s, c) return s.last and c.interval_s and c.interval_s > 0 and s.last / c.interval_s or nil end,
  trend = function(s, c) return trend_of(s, c.unit) end,
}

-- What a Meter instrument can be asked for beside that.
local METER_STATS <const> = {
  rate = function(m) return m.rate end, count = function(m) return m.histogram and m.histogram.count end,
  sum = function(m) return m.histogram and m.histogram.sum end, p50 = function(m) return m.histogram and m.histogram.p50 end,
  p95 = function(m) return m.histogram and m.histogram.p95 end, p99 = function(m) return m.histogram and m.histogram.p99 end,
}

-- How the values of several series of one instrument become one.
local PICK <const> = {
  max = function(a, b) return a > b and a or b end, min = function(a, b) return a < b and a or b end,
  sum = function(a, b) return a + b end,
}

-- What can be made of two or more inputs without a function.
local MADE <const> = {
  sum = function(a, b) return a + b end, difference = function(a, b) return a - b end, product = function(a, b) return a * b end,
  share = function(a, b) return b ~= 0 and a / b or nil end, percent = function(a, b) return b ~= 0 and a / b * 100 or nil end,
  max = function(a, b) return a > b and a or b end, min = function(a, b) return a < b and a or b end,
}

M.STATS, M.METER_STATS, M.PICKS, M.COMBINATIONS = text.keys(STATS), text.keys(METER_STATS), text.keys(PICK), text.keys(MADE)

local function fail(...) error((...):format(select(2, ...)), 0) end

local function known(word, list, what)
  for _, w in ipairs(list) do
    if w == word then return word end
  end
  fail("there is no %s %s.%s", what, text.quote(word), text.did_you_mean(tostring(word), list))
end

--- "Provider/counter" -> both.
local function split(name, what)
  local owner, member = tostring(name):match("^([^/]+)/(.+)$")
  if not owner then fail("%s %s must be written as OWNER/NAME, such as \"System.Runtime/cpu-usage\"", what, text.quote(name)) end
  return owner, member
end

-- The counters of a window by provider and name; made once a window.
local function counters_of(window)
  local index = window.index
  if index then return index end
  index = {}
  local artifact = window.sources[M.COUNTERS]
  for _, c in ipairs(artifact and artifact.counters or {}) do index[c.provider .. "/" .. c.name] = c end
  window.index = index
  return index
end

-- A name that a provider of Microsoft's is not known to have: told, and used all the same, since a later version may have it.
local function doubt(set, provider, name)
  local list = known_counters[provider]
  for _, one in ipairs(list or {}) do
    if one == name then return end
  end
  if list then
    set.doubt(("%s is not known to have a counter %s.%s"):format(provider, text.quote(name), text.did_you_mean(name, list)))
  end
end

local function counter_input(spec, set)
  local provider, name = split(spec.counter, "counter")
  local stat = STATS[known(spec.stat or "last", M.STATS, "statistic of a counter")]
  set.asks.providers[provider] = true
  doubt(set, provider, name)
  local key = spec.counter
  return function(window)
    local c = (window.index or counters_of(window))[key]
    if c then return stat(c.series, c) end
  end
end

local function tags_fit(tags, wanted)
  for name, value in pairs(wanted or {}) do
    if tags[name] ~= value then return false end
  end
  return true
end

local function meter_input(spec, asks)
  local meter, instrument = split(spec.meter, "instrument")
  local name = spec.stat or "last"
  local of_meter, of_series = METER_STATS[name], STATS[name]
  if not of_meter and not of_series then
    local all = table.move(M.METER_STATS, 1, #M.METER_STATS, #M.STATS + 1, { table.unpack(M.STATS) })
    known(name, all, "statistic of an instrument")
  end
  local pick = PICK[known(spec.pick or "max", M.PICKS, "way to pick among series")]
  if meter ~= M.ANY then asks.meters[meter] = true end
  if spec.ask then asks.meters[spec.ask] = true end
  if name == "trend" and (spec.pick or spec.above_zero) then
    fail("a trend has no size to pick or judge by: leave pick and above_zero of %s out", text.quote(spec.meter))
  end
  return function(window)
    local artifact, found = window.sources[M.COUNTERS], nil
    for _, m in ipairs(artifact and artifact.meters or {}) do
      if m.instrument == instrument and (meter == M.ANY or m.meter == meter) and tags_fit(m.tags, spec.tags) then
        local value
        if of_meter then value = of_meter(m) else value = of_series(m.values, m) end
        if value ~= nil and not (spec.above_zero and value <= 0) then
          if found == nil or type(value) == "table" then found = value else found = pick(found, value) end
        end
      end
    end
    return found
  end
end

--- A path such as "suspensions.pause.max_ns" into a table; numbers are indices.
local function path_of(field)
  local path = {}
  for part in tostring(field):gmatch("[^%.]+") do path[#path + 1] = math.tointeger(tonumber(part)) or part end
  if #path == 0 then fail("a field needs a name, such as \"pause.max_ns\"") end
  return path
end

local function walk(value, path)
  for i = 1, #path do
    if type(value) ~= "table" then return nil end
    value = value[path[i]]
  end
  return value
end

-- Whether a field of a capture holds observations, as lunette's own counters do.
local function is_series(value)
  if type(value) ~= "table" then return false end
  for _, member in ipairs { "n", "sum", "first", "last", "min", "max" } do
    if type(value[member]) ~= "number" then return false end
  end
  return true
end

local function field_input(spec, handle)
  local path = path_of(spec.field)
  local stat = spec.stat and STATS[known(spec.stat, M.STATS, "statistic of a series")]
  return function(window)
    local artifact = window.sources[handle]
    local value = artifact and walk(artifact, path)
    if spec.count then return type(value) == "table" and #value or nil end
    if stat then return is_series(value) and stat(value, artifact) or nil end
    return value
  end
end

local NO_VALUE <const> = { ["function"] = true, userdata = true, thread = true }

local function finite(value)
  if type(value) ~= "number" or value - value == 0 then return value end
  return nil -- a division by zero and its like: it is not known
end

-- A script's function: what it throws costs its own value only.
local function guarded(fn, what)
  return function(window, ...)
    local ok, value, err = guard.call(fn, ...)
    if ok and NO_VALUE[type(value)] then ok, value = false, "it must give a number, a text, true or false; got a " .. type(value) end
    if ok and (value ~= nil or type(err) ~= "table") then return finite(value) end
    window.faults[#window.faults + 1] = { what = what, message = faults.text(ok and err or value) }
    return nil
  end
end

local function artifact_input(spec, handle, what)
  local of = guarded(spec.of, what)
  return function(window)
    local artifact = window.sources[handle]
    if artifact ~= nil then return of(window, artifact) end
  end
end

local compile -- (spec, context) -> slot

local function made_input(spec, context)
  local slots = {}
  for i, part in ipairs(spec.from) do slots[i] = compile(part, context) end
  if #slots == 0 then fail("'from' must name at least one input") end
  if (spec.of == nil) == (spec.as == nil) then fail("an input with 'from' needs either 'of' (a function) or 'as' (one of %s)",
    table.concat(M.COMBINATIONS, ", ")) end
  local of = spec.of and guarded(spec.of, context.what)
  local fold = spec.as and MADE[known(spec.as, M.COMBINATIONS, "combination")]
  local n, partial = #slots, spec.partial
  return function(window)
    local values = {}
    for i = 1, n do
      local value = window:value(slots[i])
      if value == nil and not partial then return nil end
      values[i] = value
    end
    if of then return of(window, table.unpack(values, 1, n)) end
    local total
    for i = 1, n do
      local value = values[i]
      if value ~= nil then
        if type(value) ~= "number" then return nil end -- a text or a trend cannot be counted with
        if total == nil then total = value else total = fold(total, value) end
        if total == nil then return nil end
      end
    end
    return total
  end
end

local function fired_input(spec, context)
  if context.observing then
    fail("'fired' cannot be what a rule looks at: signals are there when all rules have looked. Use a hypothesis")
  end
  return function(window)
    local seen = window.fired[spec.fired]
    if not spec.among then return seen and 1 or 0 end
    local n = 0
    for _, name in ipairs(spec.among) do n = n + (seen and seen[name] and 1 or 0) end
    return n
  end
end

--- What kind of input a table declares.
local function reader(spec, context)
  local handle = spec.handle or context.handle or M.COUNTERS
  if spec.counter then return counter_input(spec, context.set) end
  if spec.meter then return meter_input(spec, context.set.asks) end
  if spec.from then return made_input(spec, context) end
  if spec.fired then return fired_input(spec, context) end
  context.set.handles[handle] = true
  if spec.field then return field_input(spec, handle) end
  if spec.of then return artifact_input(spec, handle, context.what) end
  fail("an input is a name of a fact, or a table with 'counter', 'meter', 'field', 'from', 'fired' or 'of'")
end

--- An input in words: what a person looks for when it was not measured.
---@param spec string|table
---@param context { handle: string?, set: table? }   whose capture it reads when it does not say, and what facts are made of
---@return string
function M.describe(spec, context)
  if type(spec) == "string" then
    local of = context.set and context.set.facts[spec]
    return of and M.describe(of, { set = context.set }) or spec
  end
  local stat = spec.stat and (" (%s)"):format(spec.stat) or ""
  if spec.counter or spec.meter then return (spec.counter or spec.meter) .. stat end
  if spec.fired then return "inputs of " .. spec.fired .. " that fired" end
  if spec.from then
    local parts = {}
    for i, part in ipairs(spec.from) do parts[i] = M.describe(part, context) end
    return table.concat(parts, " and ")
  end
  return ("%s of %s%s"):format(spec.field or "a function", spec.handle or context.handle or M.COUNTERS, stat)
end

local function scaled(read, spec)
  local scale, round = spec.scale, spec.round
  if not scale and not round then return read end
  return function(window)
    local value = read(window)
    if type(value) ~= "number" then return value end
    if scale then value = value * scale end
    if round then value = math.floor(value + 0.5) end
    return value
  end
end

-- A text that is the same for two inputs that read the same; nil when a function is in it.
local function key_of(value)
  if type(value) ~= "table" then return type(value):sub(1, 1) .. tostring(value) end
  local parts = {}
  for _, k in ipairs(text.keys(value)) do
    local part = type(value[k]) ~= "function" and key_of(value[k])
    if not part then return nil end
    parts[#parts + 1] = k .. "=" .. part
  end
  return "{" .. table.concat(parts, ",") .. "}"
end

local BOUND_FIELDS <const> = {
  at_least = true, above = true, below = true, at_most = true, equals = true, is_not = true, measured = true, unit = true, name = true,
  rationale = true, unknown = true, confidence = true, input = true,
}

-- The part of a condition that is its input: without what it is compared with.
local function bare(spec)
  local copy = {}
  for k, v in pairs(spec) do
    if not BOUND_FIELDS[k] then copy[k] = v end
  end
  return copy
end

local function fact(name, context)
  local set = context.set
  local spec = set.facts[name]
  if spec == nil then fail("there is no fact %s.%s", text.quote(name), text.did_you_mean(name, text.keys(set.facts))) end
  local slot = set.fact_slots[name]
  if slot then return slot end
  context.depth = (context.depth or 0) + 1
  if context.depth > M.MAX_DEPTH then fail("the fact %s is made of itself", text.quote(name)) end
  slot = compile(spec, { set = set, depth = context.depth, what = "the fact " .. name })
  context.depth = context.depth - 1
  set.fact_slots[name] = slot
  return slot
end

--- The slot of an input in a set of rules: window:value(slot) reads it. Throws a text that says what is wrong.
---@param spec string|table
---@param context { set: table, handle: string?, what: string }
---@return integer
function compile(spec, context)
  if type(spec) == "string" then return fact(spec, context) end
  if type(spec) ~= "table" then fail("an input is a name of a fact or a table, not %s", text.quote(spec)) end
  local set = context.set
  spec = bare(spec)
  local key = key_of(spec)
  if key and not (spec.counter or spec.meter or spec.from or spec.fired) then key = (context.handle or "") .. key end
  local slot = key and set.by_key[key]
  if slot then return slot end
  local read = scaled(reader(spec, context), spec)
  slot = #set.readers + 1
  set.readers[slot] = read
  set.described[slot] = M.describe(spec, context)
  if key then set.by_key[key] = slot end
  return slot
end

M.compile = compile

--- What an input is called in evidence when nobody named it.
---@param spec string|table
---@return string
function M.name_of(spec)
  if type(spec) == "string" then return spec end
  local full = spec.counter or spec.meter
  return full and full:match("/(.+)$") or spec.field or spec.fired or "value"
end

--- Which captures beside the counters an input needs, as kinds of handles.
---@class RuleWindow
local Window = {}
Window.__index = Window

local NONE <const> = {}

--- The value of an input in this window; nil when it was not measured.
function Window:value(slot)
  local value = self.values[slot]
  if value == nil then
    value = self.set.readers[slot](self)
    self.values[slot] = value == nil and NONE or value
    return value
  end
  if value == NONE then return nil end
  return value
end

--- The value of a named fact.
function Window:fact(name)
  local given = self.given and self.given[name]
  if given ~= nil then return given end
  local slot = self.set.fact_slots[name]
  return slot and self:value(slot)
end

--- A window of captures, as rules look at it.
---@param set table                     a compiled set, see lunette.rules
---@param sources table<string, table>  artifact by kind of handle
---@param given table<string, any>?     facts that are told rather than measured
---@return RuleWindow
function M.window(set, sources, given)
  local window = setmetatable({ set = set, sources = sources, values = {}, fired = {}, faults = {}, given = given }, Window)
  for name, value in pairs(given or {}) do
    local slot = set.fact_slots[name]
    if slot then window.values[slot] = value end
  end
  return window
end

return M
