-- SPDX-License-Identifier: MIT
-- Names that a declaration uses of others: tools and what they are called with, kinds of handles, views and their options; and conditions
-- that exclude each other. What a name may be is what is installed, and what the product itself speaks of.
local declare = require("lunette.declare")
local kinds = require("lunette.kinds")
local text = require("lunette.text")

local M = {}

local QUERY <const> = "query_snapshot"
local TRIAGE <const> = "triage"

local function keys_of(...)
  local set = {}
  for _, list in ipairs({ ... }) do
    for _, name in ipairs(list) do set[name] = true end
  end
  return set
end

local function handles_of(declared)
  local handle = declared.handle
  if type(handle) == "table" and handle[1] then return handle end
  return { type(handle) == "string" and handle or nil }
end

-- What our own hints and signals speak of: kinds of captures that are no handles (resources, a sweep), tools that are still to come.
local function spoken(g)
  local handles, tools = keys_of(kinds.names(), { TRIAGE }), keys_of(text.keys(g.tools))
  for _, room in ipairs({ "hints", "signals", "rules" }) do
    for _, value in ipairs(g:list(room)) do
      local known = declare.of(value)
      if known and known.at.file:sub(1, 1) ~= "/" then
        local declared = known.declared
        for _, name in ipairs(room == "rules" and {} or handles_of(declared)) do handles[name] = true end
        for _, hint in ipairs(declared.hints or {}) do tools[hint.tool] = true end
        for _, h in ipairs(declared.hypotheses or {}) do tools[h.next.tool] = true end
        if room == "rules" and declared.next then tools[declared.next.tool] = true end
      end
    end
  end
  return { handles = handles, tools = tools, generation = g }
end

local function unknown(what, name, words)
  return ("there is no %s %s.%s"):format(what, text.quote(name), text.did_you_mean(tostring(name), words))
end

-- A view of a kind of handle.
local function check_view(kind, name, report)
  local found = kinds.get(kind)
  if found and type(name) == "string" and not found.views[name] then
    report(("%s has no view %s.%s"):format(kind, text.quote(name), text.did_you_mean(name, found.view_names)))
  end
end

-- A call: { tool =, arguments = }, perhaps with a handle of a kind.
local function check_call(step, path, names, report, handle)
  if type(step) ~= "table" or type(step.tool) ~= "string" then return end
  if not names.tools[step.tool] then return report(path .. ".tool", unknown("tool", step.tool, text.keys(names.tools))) end
  local tool, arguments = names.generation.tools[step.tool], step.arguments
  if not tool or type(arguments) ~= "table" then return end
  for _, name in ipairs(text.keys(arguments)) do
    if not tool.params.by_name[name] then
      report(path .. ".arguments." .. name, ("%s has no parameter %s.%s"):format(step.tool, text.quote(name),
        text.did_you_mean(name, tool.params.names)))
    end
  end
  local word = tool.discriminator and arguments[tool.discriminator]
  if type(word) == "string" and tool.branches and not tool.branches[word] and tool.name ~= "collect_sample" then
    report(path .. ".arguments." .. tool.discriminator, ("%s has no %s %s.%s"):format(step.tool, tool.discriminator, text.quote(word),
      text.did_you_mean(word, tool.branch_names)))
  end
  if step.tool == QUERY and handle then
    check_view(handle, arguments.view, function(message) report(path .. ".arguments.view", message) end)
  end
end

-- ---- conditions that exclude each other -----------------------------------------------------------------------------------------------

local function key_of(condition)
  local of = condition.input or condition.field or condition.counter
  if type(of) == "string" then return of .. "\0" .. tostring(condition.stat) end
  if type(of) == "table" then return tostring(of.counter or of.meter or of.field) .. "\0" .. tostring(of.stat) end
  return nil
end

-- The numbers that a condition leaves: from, to (open: the end itself is none).
local function range_of(c)
  local low, high, low_open, high_open = c.at_least, c.at_most, false, false
  if type(c.above) == "number" then low, low_open = c.above, true end
  if type(c.below) == "number" then high, high_open = c.below, true end
  if type(c.equals) == "number" then low, high = c.equals, c.equals end
  return low, high, low_open, high_open
end

local function check_conditions(list, path, report, start)
  if type(list) ~= "table" then return end
  local ranges = {}
  for i, c in ipairs(list) do
    local key = type(c) == "table" and key_of(c)
    local low, high, low_open, high_open
    if key then low, high, low_open, high_open = range_of(c) end
    if low or high then
      local r = ranges[key] or start and start[key] or {}
      if low and (not r.low or low > r.low or low == r.low and low_open) then r.low, r.low_open = low, low_open end
      if high and (not r.high or high < r.high or high == r.high and high_open) then r.high, r.high_open = high, high_open end
      ranges[key] = r
      if r.low and r.high and (r.low > r.high or r.low == r.high and (r.low_open or r.high_open)) then
        report(("%s[%d]"):format(path, i), "can never hold together with the conditions before it: no number is both")
        return
      end
    end
  end
end

-- What the levels of a rule leave of its input.
local function range_of_levels(declared)
  local comparison, least, most = declared.comparison or ">=", nil, nil
  for _, at in pairs(type(declared.levels) == "table" and declared.levels or {}) do
    if type(at) == "number" then least, most = math.min(least or at, at), math.max(most or at, at) end
  end
  local key = type(declared.input) == "string" and declared.input .. "\0nil" or type(declared.input) == "table" and key_of(declared.input)
  if not key or not least then return {} end
  if comparison:sub(1, 1) == ">" then return { [key] = { low = least, low_open = comparison == ">" } } end
  return { [key] = { high = most, high_open = comparison == "<" } }
end

-- Counters that are shares: no value of them is above 100.
local PERCENT <const> = {
  ["System.Runtime/cpu-usage"] = true, ["System.Runtime/time-in-gc"] = true, ["System.Runtime/gc-fragmentation"] = true, cpu = true,
  gc_time = true, gc_time_raw = true,
}
local SHARES <const> = { mean = true, last = true, max = true, min = true, first = true }

local function check_share(declared, report)
  local input, comparison = declared.input, declared.comparison or ">="
  local name = type(input) == "table" and input.counter or input
  local stat = type(input) == "table" and input.stat or "last"
  if type(name) ~= "string" or not PERCENT[name] or not SHARES[stat] or comparison:sub(1, 1) ~= ">" then return end
  for _, level in ipairs(text.keys(declared.levels or {})) do
    local at = declared.levels[level]
    if type(at) == "number" and at > 100 then
      report("levels." .. level, ("can never be reached: %s is a share of 100"):format(name))
    end
  end
end

-- ---- by room ----------------------------------------------------------------------------------------------------------------------------

local check = {}

function check.rules(declared, names, report)
  check_call(declared.next, "next", names, report)
  check_conditions(declared.when, "when", report, range_of_levels(declared))
  check_share(declared, report)
  for i, h in ipairs(declared.hypotheses or {}) do
    local path = ("hypotheses[%d]"):format(i)
    check_call(h.next, path .. ".next", names, report)
    check_conditions(h.requires, path .. ".requires", report)
    check_conditions(h.stronger and h.stronger.when, path .. ".stronger.when", report)
  end
end

function check.hints(declared, names, report)
  if not names.handles[declared.handle] then
    report("handle", unknown("kind of handle", declared.handle, text.keys(names.handles)))
  end
  for i, hint in ipairs(declared.hints) do
    local path = ("hints[%d]"):format(i)
    check_call(hint, path, names, report, declared.handle)
    check_conditions(hint.when, path .. ".when", report)
  end
end

function check.signals(declared, names, report)
  for _, name in ipairs(handles_of(declared)) do
    if not names.handles[name] then
      report("handle", unknown("kind of handle", name, text.keys(names.handles)))
    else
      local view = declared.next and declared.next.view
      check_view(name, type(view) == "table" and view[name] or view, function(message) report("next.view", message) end)
    end
  end
end

function check.views(declared, names, report)
  local tool = names.generation.tools[QUERY]
  for i, option in ipairs(declared.options or {}) do
    local name = option:match("^[%w_]+")
    if tool and not (name and tool.params.by_name[name]) then
      report(("options[%d]"):format(i), ("%s has no parameter %s.%s"):format(QUERY, text.quote(option),
        text.did_you_mean(name or option, tool.params.names)))
    end
  end
end

--- Checks the names of all that layers declare.
---@param g Generation
---@param add fun(file: string, line: integer, message: string, path: string)
function M.check(g, add)
  local names = spoken(g)
  for _, id in ipairs(g.order) do
    local unit = g.units[id]
    local one = unit.site and unit.value and check[unit.room]
    for _, value in ipairs(one and (unit.value.is_several and unit.value or { unit.value }) or {}) do
      local known = declare.of(value)
      if known then
        one(known.declared, names, function(path, message) add(known.at.file, declare.line_of(known.at, path), message, path) end)
      end
    end
  end
end

return M
