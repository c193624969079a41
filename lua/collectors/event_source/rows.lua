-- SPDX-License-Identifier: MIT
-- The stored events of one capture: many, and each looked at once or twice. So a row is one string (time, level, name, payload as JSON), a
-- third of the memory of its tables, and becomes a table when it is read.
local json = require("lunette.json")

local M = {}

local payloads = require("collectors.event_source.payload")

local HEAD <const> = "<i8I4I4" -- unix_ns, level, number of the name

---@class EventSourceRow
---@field unix_ns integer
---@field provider string
---@field name string
---@field level integer
---@field payload table<string, string>

local Rows = {}
Rows.__index = Rows

--- Nothing is stored yet.
function M.new() return setmetatable({ packed = {}, names = {}, numbers = {}, stored = {}, n = 0 }, Rows) end

-- The number of a name of a provider; names are few.
local function number_of(rows, provider, name)
  local key = provider .. "\0" .. name
  local number = rows.numbers[key]
  if not number then
    number = #rows.names + 1
    rows.names[number], rows.numbers[key] = { provider = provider, name = payloads.name(name) }, number
  end
  return number
end

--- Stores an event with its payload of text values.
---@param event table   unix_ns, provider, name, level
---@param payload table<string, string>
function Rows:add(event, payload)
  self.n = self.n + 1
  self.packed[self.n] = string.pack(HEAD, event.unix_ns, event.level, number_of(self, event.provider, event.name)) .. json.encode(payload)
  self.stored[event.name] = (self.stored[event.name] or 0) + 1
end

--- How many of each name are stored.
---@return table<string, integer>
function Rows:by_name() return self.stored end

--- The list of rows: `#list`, `list[i]` and ipairs, as of any other list.
---@return EventSourceRow[]
function Rows:list()
  local packed, names, n = self.packed, self.names, self.n
  return setmetatable({}, {
    __len = function() return n end,
    __index = function(_, i)
      local row = packed[i]
      if not row then return nil end
      local unix_ns, level, number, at = string.unpack(HEAD, row)
      local name = names[number]
      return { unix_ns = unix_ns, provider = name.provider, name = name.name, level = level, payload = json.decode(row:sub(at)) }
    end,
  })
end

return M
