-- SPDX-License-Identifier: MIT
-- Two heaps side by side, by type: rows for diff, growth and journeys.
local numbers = require("lunette.numbers")
local wire = require("heap.wire")

local M = {}

local METRIC_ORDER <const> = { __order = { "totalBytes", "instanceCount" } }
local KEY_ORDER <const> = { __order = { "typeFullName", "moduleName", "modulePath", "moduleVersionId", "metadataToken" } }
local KEYS <const> = 200 -- types of one capture that a journey has as keys, most first

local function metric(count, bytes)
  return count and setmetatable({ totalBytes = bytes, instanceCount = count }, METRIC_ORDER) or nil
end

--- TypeIdentity of a row, whatever is known of it.
function M.key(artifact, row)
  return wire.identity(artifact, row)
    or setmetatable({ typeFullName = wire.name(row.name), moduleName = row.module, modulePath = row.module_path }, KEY_ORDER)
end

---@class HeapPair
---@field name string
---@field module string?
---@field count integer?         in the later heap; absent: no object
---@field bytes integer?
---@field count_before integer?
---@field bytes_before integer?
---@field type integer           of the heap that has it

--- All types that one of two heaps has objects of. A type whose file changed but whose name and module did not is the same.
---@param before HeapArtifact
---@param after HeapArtifact
---@return HeapPair[]
function M.pairs(before, after)
  local list = {}
  for _, pair in pairs(after.graph:diff(before.graph)) do list[#list + 1] = pair end
  return list
end

--- Rows for samplers.views.diff: by total bytes.
---@return ComparedRow[]
function M.rows(before, after)
  local rows = M.pairs(before, after)
  for i, p in ipairs(rows) do
    rows[i] = {
      name = p.name .. "\n" .. (p.module or ""), before = p.bytes_before, after = p.bytes,
      render = function()
        return M.key(p.count and after or before, p), metric(p.count_before, p.bytes_before), metric(p.count, p.bytes)
      end,
    }
  end
  return rows
end

--- What a journey compares of one heap.
---@return Comparable
function M.comparable(artifact)
  local keys = {}
  for _, row in ipairs((artifact.graph:types { by = "bytes", top = KEYS })) do
    local name = wire.name(row.name)
    keys[name] = (keys[name] or 0) + row.bytes
  end
  return {
    metrics = {
      { name = "totalBytes", unit = "B", value = artifact.info.bytes, worse = "up" },
      { name = "objects", value = artifact.info.objects, worse = "up" },
      { name = "types", value = artifact.info.types },
    }, keys = keys,
  }
end

local function of(row, field) return row[field] or 0 end

--- The types that grew, most first, by bytes or instances.
---@param before HeapArtifact
---@param after HeapArtifact
---@param by "bytes"|"instances"
---@param least_pct number
---@return table[] rows   { pair, delta_bytes, delta_count, pct }
function M.growers(before, after, by, least_pct)
  local list = {}
  local now, was = by == "bytes" and "bytes" or "count", by == "bytes" and "bytes_before" or "count_before"
  for _, p in ipairs(M.pairs(before, after)) do
    local delta = of(p, now) - of(p, was)
    local pct = of(p, was) > 0 and 100 * delta / of(p, was) or 100
    if delta > 0 and pct >= least_pct then
      list[#list + 1] = {
        pair = p, delta = delta, pct = numbers.round(pct, 2), delta_bytes = of(p, "bytes") - of(p, "bytes_before"),
        delta_count = of(p, "count") - of(p, "count_before"),
      }
    end
  end
  table.sort(list, function(a, b)
    if a.delta ~= b.delta then return a.delta > b.delta end
    if a.delta_bytes ~= b.delta_bytes then return a.delta_bytes > b.delta_bytes end
    return a.pair.name < b.pair.name
  end)
  return list
end

return M
