-- SPDX-License-Identifier: MIT
-- generation: all that is declared by all layers at one time. A generation is built aside and put in place by one assignment; what is in it
-- is never changed. A call keeps the one that was newest when it began, whatever is reloaded meanwhile (docs/design/site.md).
local loop = require("lunette.loop")

local M = {}

---@class GenerationUnit
---@field id string           its path without the ending: "rules/queue", "views/counters/summary"
---@field room string
---@field value any           what its file declared; nil: taken out, or never good
---@field files table[]       the files of all layers at this path, the lowest first
---@field site boolean        whether a layer above the product has a file here
---@field state "ok"|"broken"|"disabled"
---@field problems Problem[]
---@field serving? "last good"|"beneath"|"nothing"   of a broken one: what is used instead

---@class Generation
---@field number integer
---@field units table<string, GenerationUnit>
---@field order string[]      ids, sorted
---@field by_room table<string, string[]>
---@field tools table<string, table>
---@field prompts table<string, table>   definitions for the registry
---@field kinds table<string, Kind>      kinds of handles that a layer adds or changes
---@field kind_names string[]            those that are not the product's
---@field problems Problem[]  of all broken units
local Generation = {}
Generation.__index = Generation
M.Generation = Generation

-- The value of a unit; files of the product are run when they are first asked for.
local function value_of(unit)
  local value = unit.value
  if value == nil and unit.load then
    value = unit.load()
    unit.value = value
  end
  return value
end

--- The value that is declared at a path ("views/counters/summary"), or nil.
---@param id string
function Generation:find(id)
  local unit = self.units[id]
  return unit and value_of(unit)
end

--- All values of a room, in the order of their paths. A file that returned several counts as many. Not to be changed.
---@param room string   "rules", "hints", "signals", …
---@return table[]
function Generation:list(room)
  return self:derived("list:" .. room, function()
    local list = {}
    for _, id in ipairs(self.by_room[room] or {}) do
      local unit = self.units[id]
      local value = unit and value_of(unit) or nil -- while it is being built, rooms to come are not there
      if type(value) == "table" and value.is_several then
        for _, one in ipairs(value) do list[#list + 1] = one end
      elseif value ~= nil then
        list[#list + 1] = value
      end
    end
    return list
  end)
end

--- The values of a room by one of their fields: { [value.field] = list }.
---@param room string
---@param field string
---@return table<any, table[]>
function Generation:by(room, field)
  return self:derived(("by:%s:%s"):format(room, field), function()
    local map = {}
    for _, value in ipairs(self:list(room)) do
      local key = value[field]
      if key ~= nil then
        map[key] = map[key] or {}
        table.insert(map[key], value)
      end
    end
    return map
  end)
end

--- What is made of a generation once, when it is first asked for: an index, compiled rules. Two tasks may make it at the same time: the
--- first stays.
---@generic T
---@param key string
---@param make fun(generation: Generation): T
---@return T
function Generation:derived(key, make)
  local kept = self.kept[key]
  if kept ~= nil then return kept end
  local made = make(self)
  if self.kept[key] == nil then self.kept[key] = made end
  return self.kept[key]
end

--- The view of a kind of handle, or nil.
function Generation:view(kind, name)
  return self:find(("views/%s/%s"):format(kind, name))
end

function M.new(number)
  return setmetatable({
    number = number, units = {}, order = {}, by_room = {}, tools = {}, prompts = {}, kinds = {}, kind_names = {}, problems = {}, kept = {},
    event_sources = {},
  }, Generation)
end

local EMPTY <const> = M.new(0)
local newest = EMPTY

--- The generation of this call, else the newest.
---@return Generation
function M.current()
  local task = loop.current()
  return task and task.data.generation or newest
end

---@return Generation
function M.newest() return newest end

--- Puts a generation in place.
function M.use(generation) newest = generation or EMPTY end

--- fn(…) as a call of that generation.
---@param generation Generation
function M.with(generation, fn, ...)
  local task = loop.current()
  local before = task and rawget(task.data, "generation")
  if task then task.data.generation = generation end
  local results = table.pack(pcall(fn, ...))
  if task then task.data.generation = before end
  if not results[1] then error(results[2], 0) end
  return table.unpack(results, 2, results.n)
end

--- fn(…) with the newest generation as that of the call, unless the call has one. What fn spawns inherits it.
function M.pinned(fn, ...)
  local task = loop.current()
  if not task or task.data.generation then return fn(...) end
  task.data.generation = newest
  local results = table.pack(pcall(fn, ...))
  task.data.generation = nil
  if not results[1] then error(results[2], 0) end
  return table.unpack(results, 2, results.n)
end

return M
