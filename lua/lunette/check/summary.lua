-- SPDX-License-Identifier: MIT
-- The summary of a collector that is a text: what its {fields} name must be in what the program keeps, or nothing ever fills them.
local text = require("lunette.text")

local M = {}

-- What is in each artifact of a program, beside what it keeps (docs/writing-collectors.md).
local OWN <const> = { duration_s = "value", duration_ms = "value", started_unix_ms = "value", process_id = "value", origin = "value" }
local OPEN <const> = { cost = true, notes = true, stacks = true } -- what is below them is not looked at

-- What a reducer gives, by its name (docs/design/probe.md); one that is not here gives a value.
local GIVES <const> = {
  stats = { "n", "sum", "min", "max", "mean" }, quantiles = { "n", "min", "max", "mean", "error" }, distinct = { "n", "exact", "error" },
  first = { "seen", "dropped" }, last = { "seen", "dropped" }, top = { "seen", "dropped" }, each = { "seen", "dropped" },
  group = { "keys", "evicted" }, pair = { "pairs", "unmatched", "replaced", "dropped", "open" }, timeline = { "every_ns", "dropped" },
  filter = {},
}
local PERCENTILES <const> = { 50, 95, 99 }
-- Where the rows of one are.
local ROWS <const> = {
  first = { "rows" }, last = { "rows" }, top = { "rows" }, group = { "rows", "other" }, timeline = { "buckets" }, pair = { "open_rows" },
}

local described

local function keep_of(nodes, into)
  for _, node in ipairs(nodes or {}) do into[node.name] = described(node) end
  return into
end

-- A row of a reducer, by name: its keys or fields, and what is kept in it.
local function row_of(node)
  local fields = {}
  for _, one in ipairs(node.row or {}) do fields[one[1]] = "value" end
  if node.op == "pair" then return fields end
  for _, one in ipairs(node.by or {}) do fields[one[1]] = "value" end
  if node.op == "group" then fields.partial = "value" end
  if node.op == "timeline" then fields.at_ns = "value" end
  return keep_of(node.keep, fields)
end

-- The fields of what a reducer gives: name -> "value", or a table of fields; a list has its rows below `list`.
function described(node)
  if not GIVES[node.op] then return "value" end
  local fields = {}
  for _, name in ipairs(GIVES[node.op]) do fields[name] = "value" end
  if node.op == "quantiles" then
    for _, p in ipairs(node.quantiles or PERCENTILES) do fields[("p%g"):format(p)] = "value" end
  end
  for _, name in ipairs(node.op == "pair" and not node.row and {} or ROWS[node.op] or {}) do
    local row = row_of(node)
    if name == "other" then row.keys = "value" else row = { list = row } end
    fields[name] = row
  end
  if node.op == "pair" or node.op == "filter" then keep_of(node.keep, fields) end
  return fields
end

-- Why nothing fills a field, or nil.
local function gap(fields, path)
  local at, so_far = fields, nil
  for name in path:gmatch("[^.]+") do
    if at == "value" then return ("{%s}: %s is a value, it has no fields"):format(path, so_far) end
    local index = at.list and math.tointeger(tonumber(name))
    local inside = at.list and (index and at.list) or not at.list and at[name]
    if not inside then
      local known = at.list and { "1" } or text.keys(at)
      local quoted = text.quote(name)
      local where = so_far and ("%s has no field %s"):format(so_far, quoted) or ("the program keeps no %s"):format(quoted)
      return ("{%s} is never filled: %s.%s"):format(path, where, text.did_you_mean(name, known))
    end
    if inside == true then return nil end
    at, so_far = inside, so_far and so_far .. "." .. name or name
  end
  if at ~= "value" then return ("{%s} is %s, no value that a sentence can hold"):format(path, at.list and "a list" or "a table") end
  return nil
end

--- Reports each gap of the summary of a collector whose artifact is what its program keeps.
---@param declared Collector
---@param program table   compiled
---@param report fun(path: string, message: string)
function M.check(declared, program, report)
  if type(declared.summary) ~= "string" or declared.rows or declared.collect then return end
  local fields = keep_of(program.keep, {})
  for name, kind in pairs(OWN) do fields[name] = fields[name] or kind end
  for name in pairs(OPEN) do fields[name] = fields[name] or true end
  for path in declared.summary:gmatch("{([%w_.]+)}") do
    local why = gap(fields, path)
    if why then report("summary", why) end
  end
end

return M
