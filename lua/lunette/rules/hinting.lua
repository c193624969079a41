-- SPDX-License-Identifier: MIT
-- Hint rules: what to call next after a capture. Compiled beside the rules, so that they know the same facts and share their inputs.
local condition = require("lunette.rules.condition")
local faults = require("lunette.faults")
local guard = require("lunette.guard")
local hints = require("lunette.hints")
local input = require("lunette.rules.input")
local log = require("lunette.log")
local words = require("lunette.rules.words")

local M = {}

local ORDER <const> = 1000       -- of a file that gives none: behind those of the product
local BY_HANDLE <const> = { query_snapshot = true } -- tools that are called with a handle; the others with a process

local function compile_one(set, file)
  local declared = file.value
  local group = {
    handle = declared.handle, order = declared.order or ORDER, lead = declared.lead, from = file, layer = file.layer, hints = {},
  }
  local context = { set = set, handle = declared.handle, what = "the hints of " .. declared.handle }
  for i, h in ipairs(declared.hints) do
    local when = h.when
    group.hints[i] = {
      declared = h, test = type(when) ~= "table" and when or nil,
      when = type(when) == "table" and condition.compile_all(when, context) or nil,
    }
  end
  return group
end

--- Compiles the hint rules of a generation into a set of rules: set.hints[kind of handle] is the list of files.
---@param set table            a compiled set of rules
---@param files RuleFile[]
function M.compile(set, files)
  set.hints = {}
  local asks, handles = set.asks, set.handles -- hints look at what was captured, and ask for nothing
  set.asks, set.handles = { providers = {}, meters = {} }, {}
  for _, file in ipairs(files) do
    set.at = file
    local ok, group = pcall(compile_one, set, file)
    if ok then
      local list = set.hints[group.handle] or {}
      set.hints[group.handle] = list
      list[#list + 1] = group
    elseif type(group) ~= "string" then
      error(group, 0)
    else
      set.problems[#set.problems + 1] = { name = file.name, file = file.file, layer = file.layer, message = group }
    end
  end
  set.asks, set.handles = asks, handles
  for _, list in pairs(set.hints) do
    for i, group in ipairs(list) do group.rank = i end
    table.sort(list, function(a, b)
      if a.order ~= b.order then return a.order < b.order end
      return a.rank < b.rank
    end)
  end
end

-- What a function of a script gives; nil when it failed, which the log tells.
local function asked(fn, group, ...)
  local ok, value, err = guard.call(fn, ...)
  if ok and (value ~= nil or type(err) ~= "table") then return value end
  local text = faults.text(ok and err or value)
  log.error("hints", "a hint rule failed", { handle = group.handle, file = group.from.file, error = text })
  faults.add("a hint rule for " .. group.handle, text)
  return nil
end

---@class HintCapture
---@field artifact table
---@field signals table[]?     those of the capture
---@field handle_id string?
---@field process_id integer?  nil for a recording: its process is gone

-- Whether a hint holds; and what fills the gaps of its reason.
local function holds(hint, group, window, capture)
  local gaps = {}
  if hint.test then return asked(hint.test, group, capture.artifact, capture) and true or false, gaps end
  for _, c in ipairs(hint.when or {}) do
    local held, value, judged = condition.holds(c, window)
    if not held then return false end
    if gaps.value == nil and words.COMPARE[judged.comparison] then gaps.value, gaps.threshold = value, judged.threshold end
  end
  return true, gaps
end

local function text_of(field, group, capture)
  local mt = type(field) == "table" and getmetatable(field)
  if type(field) == "function" or (type(mt) == "table" and mt.__call) then return asked(field, group, capture.artifact, capture) end
  return field
end

local function make(hint, group, gaps, capture, priority)
  local declared = hint.declared
  local reason, given = text_of(declared.reason, group, capture), text_of(declared.arguments, group, capture)
  if type(reason) ~= "string" then return nil end
  local arguments = {}
  for k, v in pairs(type(given) == "table" and given or {}) do arguments[k] = v end
  if BY_HANDLE[declared.tool] then
    arguments.handle = arguments.handle or capture.handle_id
  else
    arguments.processId = arguments.processId or capture.process_id
  end
  return hints.new(declared.tool, words.fill(reason, gaps), arguments, priority)
end

local function add_file(list, group, window, capture)
  local held, led = 0, false
  for _, hint in ipairs(group.hints) do
    local declared = hint.declared
    local conditional = hint.test or hint.when
    local fits = not (declared.live and not capture.process_id) and not (declared.otherwise and held > 0)
    local ok, gaps = false, nil
    if fits then ok, gaps = holds(hint, group, window, capture) end
    if ok then
      local lead = group.lead and conditional and not led
      local made = make(hint, group, gaps, capture, declared.priority or (lead and "high" or "normal"))
      if made then list[#list + 1], held, led = made, held + 1, led or conditional end
    end
  end
end

--- The hints for a capture, best first.
---@param set table          compiled rules with their hints
---@param kind string        of the handle, or "triage"
---@param capture HintCapture
---@return table[]
function M.of(set, kind, capture)
  local list, groups = {}, set.hints[kind]
  if not groups then return list end
  local window = input.window(set, { [kind] = capture.artifact })
  for _, signal in ipairs(capture.signals or {}) do window.fired[signal.signal] = { signal = signal } end
  for _, group in ipairs(groups) do add_file(list, group, window, capture) end
  faults.of_window(window)
  return list
end

return M
