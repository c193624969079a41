-- SPDX-License-Identifier: MIT
-- Pieces of Markdown that the reference pages share.
local declare = require("lunette.declare")
local sys = require("lunette.sys")

local M = {}

--- Text in a cell of a table.
function M.cell(text) return (tostring(text):gsub("[\r\n]+", " "):gsub("|", "\\|")) end

function M.code(text) return "`" .. tostring(text):gsub("`", "'") .. "`" end

--- Words as code, separated by commas.
function M.codes(list)
  local out = {}
  for i, word in ipairs(list or {}) do out[i] = M.code(word) end
  return table.concat(out, ", ")
end

--- A table. Columns that are empty in every row are left out.
---@param heads string[]
---@param rows string[][]
---@return string[] lines
function M.table(heads, rows)
  local used = {}
  for c = 1, #heads do
    for _, row in ipairs(rows) do
      if row[c] and row[c] ~= "" then used[c] = true end
    end
  end
  local function line(row)
    local cells = {}
    for c = 1, #heads do
      if used[c] then cells[#cells + 1] = M.cell(row[c] or "") end
    end
    return "| " .. table.concat(cells, " | ") .. " |"
  end
  if #rows == 0 then return {} end
  local rule = {}
  for c = 1, #heads do rule[c] = "---" end
  local lines = { line(heads), line(rule) }
  for _, row in ipairs(rows) do lines[#lines + 1] = line(row) end
  return lines
end

--- Facts by name, those without a value left out.
---@param rows string[][]   name, value
---@return string[] lines
function M.facts(rows)
  local kept = {}
  for _, row in ipairs(rows) do
    if row[2] and row[2] ~= "" then kept[#kept + 1] = ("- %s: %s"):format(row[1], M.cell(row[2])) end
  end
  return kept
end

--- Where a value was declared, as file:line below the product's or the layer's folder; nil when that is not known.
function M.place(value)
  local known = declare.of(value)
  if not known or not known.at or known.at.file == "?" then return nil end
  local file = known.at.file
  if file:sub(1, #sys.home + 1) == sys.home .. "/" then file = file:sub(#sys.home + 2) end
  return ("%s:%d"):format(file, known.at.line or 0)
end

--- What was written in the declaration of a value.
function M.declared(value)
  local known = declare.of(value)
  return known and known.declared or value
end

--- Appends the items of lists to a list.
function M.add(out, ...)
  for _, list in ipairs({ ... }) do
    if type(list) == "string" then
      out[#out + 1] = list
    else
      for _, item in ipairs(list) do out[#out + 1] = item end
    end
  end
  return out
end

--- Any value in one line, short: scalars as they are, tables as { a = 1, … }.
function M.short(value, depth)
  depth = depth or 2
  if type(value) == "string" then return ("%q"):format(value):gsub("\\\n", "\\n") end
  if type(value) == "function" then return "function" end
  if type(value) ~= "table" then return tostring(value) end
  if depth == 0 then return "{…}" end
  local parts, names = {}, {}
  for _, item in ipairs(value) do parts[#parts + 1] = M.short(item, depth - 1) end
  for key in pairs(value) do
    if type(key) == "string" then names[#names + 1] = key end
  end
  table.sort(names)
  for _, key in ipairs(names) do parts[#parts + 1] = key .. " = " .. M.short(value[key], depth - 1) end
  return "{ " .. table.concat(parts, ", ") .. " }"
end

return M
