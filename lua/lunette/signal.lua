-- SPDX-License-Identifier: MIT
-- signal { … }: what stands out in a capture (docs/triage.md). Its numbers are fields, so that a site can change them; what it gives is
-- completed here: its id, the handle of its buckets, the view that shows more.
local declare = require("lunette.declare")
local faults = require("lunette.faults")
local guard = require("lunette.guard")
local hints = require("lunette.hints")
local json = require("lunette.json")
local log = require("lunette.log")
local numbers = require("lunette.numbers")
local sys = require("lunette.sys")

local M = {}

local BUCKETS <const> = 5
local MAX_KEY <const> = 300 -- bytes of a name in a bucket: it comes from the target
local ORDER <const> = 1000 -- of a signal that gives none: behind those of the product

---@class Signal
---@field id string
---@field handle string|string[]   kinds of handles that it looks at
---@field emit_at number?
---@field buckets integer
---@field limits table<string, any>
---@field of fun(artifact: table, handle_id: string?, kind: string?): table[]   the signal as a list of none or one

local function first_kind(handle) return type(handle) == "table" and handle[1] or handle end

-- What is wrong with what a signal gave, or nil.
local function fault_of(found)
  if type(found) ~= "table" then return "it must give a table or nil" end
  if type(found.summary) ~= "string" then return "it needs a 'summary', as text" end
  if type(found.salience) ~= "number" or found.salience ~= found.salience then return "it needs a 'salience' between 0 and 1" end
  if type(found.buckets) ~= "table" then return "it needs 'buckets': a list of { key =, magnitude =, unit = }" end
  for _, b in ipairs(found.buckets) do
    if type(b) ~= "table" or type(b.key) ~= "string" or type(b.magnitude) ~= "number" then
      return "each bucket needs 'key' (text) and 'magnitude' (a number)"
    end
  end
  return nil
end

--- What is wrong with a signal as it stands in an answer, which a script made itself; nil when nothing is.
---@param one any
---@return string?
function M.fault(one)
  if type(one) ~= "table" or type(one.signal) ~= "string" or type(one.summary) ~= "string" or type(one.salience) ~= "number" then
    return "is no signal: { signal = name, summary = text, salience = 0..1, buckets = list }"
  end
  if one.salience ~= one.salience then return "has a salience that is no number" end
  if one.buckets ~= nil and type(one.buckets) ~= "table" then return "has no list as its buckets" end
  for _, bucket in ipairs(one.buckets or {}) do
    if type(bucket) ~= "table" or not pcall(json.encode, { bucket.key, bucket.magnitude, bucket.unit, bucket.handle }) then
      return "has a bucket that is none: { key =, magnitude =, unit = }"
    end
  end
  return one.nextAction ~= nil and hints.fault(one.nextAction) and "has a nextAction that is no hint" or nil
end

local function next_of(declared, found, kind, handle_id)
  local step = found.next or declared.next
  if not step then return nil end
  local arguments = { handle = handle_id, view = type(step.view) == "table" and step.view[kind] or step.view }
  for k, v in pairs(step.arguments or {}) do arguments[k] = v end
  return hints.new("query_snapshot", step.reason, arguments)
end

local function named(key) return #key <= MAX_KEY and key or sys.utf8_cut(key, MAX_KEY - 3) .. "..." end

local function complete(value, found, kind, handle_id)
  local buckets = {}
  for i = 1, math.min(value.buckets, #found.buckets) do
    local b = found.buckets[i]
    buckets[i] = { key = named(b.key), magnitude = numbers.shown(b.magnitude), unit = b.unit, handle = b.handle or handle_id }
  end
  return {
    signal = value.id, summary = found.summary, salience = math.max(0, math.min(1, found.salience)), buckets = buckets,
    leads = found.leads, nextAction = next_of(value, found, kind, handle_id),
  }
end

local function tell(value, message)
  log.error("signals", "a signal failed", { signal = value.id, error = message })
  faults.add("the signal " .. value.id, message)
end

--- Declares a signal.
---@param declared table   docs/triage.md
---@return Signal
M.signal = declare.constructor("signal", function(declared)
  local value = setmetatable({
    buckets = declared.buckets or BUCKETS, limits = declared.limits or {}, order = declared.order or ORDER,
  }, { __index = declared })
  local self = {} -- what the function of the declaration sees: a copy that it may not use to reach ours
  for k, v in pairs(declared) do self[k] = k ~= "of" and v or nil end
  self.buckets, self.limits = value.buckets, value.limits
  function value.of(artifact, handle_id, kind)
    kind = kind or first_kind(declared.handle)
    local ok, found, err = guard.call(declared.of, artifact, self, kind)
    if not ok or (found == nil and type(err) == "table") then
      tell(value, faults.text(ok and err or found))
      return {}
    end
    if found == nil then return {} end
    local fault = fault_of(found)
    if fault then
      tell(value, fault)
      return {}
    end
    local told
    ok, told = guard.call(complete, value, found, kind, handle_id)
    if ok then return { told } end
    tell(value, faults.text(told))
    return {}
  end
  return value
end)

-- The signals of a generation by kind of handle, in their order.
local function by_handle(gen)
  return gen:derived("lunette.signals", function(self)
    local map = {}
    for rank, value in ipairs(self:list("signals")) do
      local known = declare.of(value)
      local handle = known and known.declared.handle
      for _, kind in ipairs(type(handle) == "table" and handle or { handle }) do
        map[kind] = map[kind] or {}
        table.insert(map[kind], { value = value, order = value.order, rank = rank })
      end
    end
    for _, list in pairs(map) do
      table.sort(list, function(a, b)
        if a.order ~= b.order then return a.order < b.order end
        return a.rank < b.rank
      end)
    end
    return map
  end)
end

local function generation() return require("lunette.rules.index").generation() end

--- What stands out in a capture: what its collector said itself, and the signals that are declared for its kind of handle.
---@param kind string         of the handle
---@param artifact table
---@param handle_id string?
---@param own table[]?        of the collector
---@param place "answer"|"resource"|nil   where they are told: some only in the resource of a capture; default answer
---@return table[]
function M.of_capture(kind, artifact, handle_id, own, place)
  local list, seen = {}, {}
  for i, signal in ipairs(own or {}) do list[i], seen[signal.signal] = signal, true end
  for _, entry in ipairs(by_handle(generation())[kind] or {}) do
    if not seen[entry.value.id] and (place == "resource" or not entry.value.resource_only) then
      for _, signal in ipairs(entry.value.of(artifact, handle_id, kind)) do list[#list + 1] = signal end
    end
  end
  return list
end

--- The signal of this id in the generation that serves this call, or nil: for who speaks by its numbers.
---@param id string
---@return Signal?
function M.find(id)
  for _, value in ipairs(generation():list("signals")) do
    if value.id == id then return value end
  end
  return nil
end

--- Whether a signal of this id stands out in an artifact.
---@param id string
---@param artifact table
---@param kind string?   of its handle
function M.stands_out(id, artifact, kind)
  local value = M.find(id)
  return value ~= nil and #value.of(artifact, nil, kind) > 0
end

return setmetatable(M, { __call = function(_, declared) return M.signal(declared) end })
