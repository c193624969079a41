-- SPDX-License-Identifier: MIT
-- The part of the reducer engine that a made-up session needs: the rows of `each`, of plain fields, for events that a test gives as tables.
local M = {}

local PROPERTIES <const> = { ["@provider"] = "provider", ["@event"] = "name", ["@version"] = "version", ["@time"] = "time_ns" }

local function field(event, path)
  local value = event.fields
  for name in path:gmatch("[^.]+") do
    if type(value) ~= "table" then return nil end
    value = value[name]
  end
  return value
end

-- A property, a field, or the first of two fields that is there; what else an expression may be, no test here needs.
local function value_of(event, expression)
  if PROPERTIES[expression] then return event[PROPERTIES[expression]] end
  local first, second = expression:match("^coalesce%(([%w.]+), ([%w.]+)%)$")
  if not first then
    if not expression:find("^[%w.]+$") then error("fake_engine: cannot evaluate " .. expression) end
    first = expression
  end
  local value = field(event, first)
  if value == nil and second then value = field(event, second) end
  return value
end

local function fits(event, pattern)
  local provider, name = pattern:match("^([^/]+)/(.+)$")
  return (provider == "*" or provider == event.provider) and (name == "*" or name == event.name)
end

local function is_on(program, node, event)
  for _, on in ipairs(node.on) do
    for _, named in ipairs(program.events) do
      if named[1] == on and fits(event, named[2]) then return true end
    end
  end
  return false
end

--- The records that a program's `each` reducers get of a batch of events.
---@param program table    of probe.program
---@param batch table[]
function M.records(program, batch)
  local records = {}
  for _, event in ipairs(batch) do
    for _, node in ipairs(program.keep) do
      if node.op == "each" and is_on(program, node, event) then
        local row = {}
        for _, column in ipairs(node.row) do row[column[1]] = value_of(event, column[2]) end
        records[#records + 1] = { each = node.each, row = row }
      end
    end
  end
  return records
end

--- What the engine holds at the end when nothing went wrong.
function M.result() return { stacks = {}, meta = { missing = {}, stacks_dropped = 0, texts_dropped = 0, refused = 0, memory = 0 } } end

return M
