-- SPDX-License-Identifier: MIT
-- How a heap snapshot looks on the wire: types, objects, chains from roots.
local json = require("lunette.json")
local numbers = require("lunette.numbers")
local sys = require("lunette.sys")

local M = {}

M.MAX_NAME = 400 -- bytes of a type's name: generic ones grow without end

local TYPE_ORDER <const> = { __order = {
  "typeFullName", "moduleName", "instanceCount", "totalBytes", "totalBytesPercent", "retainedBytes", "retainedBytesPercent", "identity",
} }
local IDENTITY_ORDER <const> = { __order = { "typeFullName", "moduleName", "modulePath", "moduleVersionId", "metadataToken" } }
local FRAME_ORDER <const> = { __order = { "typeFullName", "objectAddress", "rootKind", "rootName", "size", "retainedBytes" } }
local PATH_ORDER <const> = { __order = {
  "targetTypeFullName", "targetObjectAddress", "targetRetainedBytes", "length", "chain", "truncated",
} }
local OBJECT_ORDER <const> = { __order = {
  "objectAddress", "typeFullName", "moduleName", "size", "retainedBytes", "retainedBytesPercent", "retainedObjects",
} }

--- A name of the target, as long as an answer has room for.
function M.name(name)
  if not name then return "?" end
  if #name <= M.MAX_NAME then return name end
  return sys.utf8_cut(name, M.MAX_NAME - 3) .. "..."
end

--- n as a share of all, in percent.
function M.percent(n, all) return all > 0 and numbers.round(100 * n / all, 2) or 0 end

-- 16 bytes as they lie in memory -> the text of a GUID.
local function guid(bytes)
  local a, b, c = ("<I4I2I2"):unpack(bytes)
  return ("%08x-%04x-%04x-%s-%s"):format(a, b, c, (bytes:sub(9, 10):gsub(".", function(x) return ("%02x"):format(x:byte()) end)),
    (bytes:sub(11, 16):gsub(".", function(x) return ("%02x"):format(x:byte()) end)))
end

--- TypeIdentity of a row of the graph; nil for what no other tool could find.
---@param artifact HeapArtifact
---@param row table
function M.identity(artifact, row)
  local mvid = row.mvid and guid(row.mvid) or artifact.mvids and row.module_path and artifact.mvids[row.module_path] or nil
  local token = row.token and row.token & 0xffffff ~= 0 and row.token or nil -- an array has none of its own
  if not token and not mvid then return nil end
  return setmetatable({
    typeFullName = M.name(row.name), moduleName = row.module, modulePath = row.module_path, moduleVersionId = mvid, metadataToken = token,
  }, IDENTITY_ORDER)
end

--- TypeStat.
---@param artifact HeapArtifact
---@param row table          of graph:types()
---@param retained boolean?  with the retained size of all its objects
function M.type_stat(artifact, row, retained)
  local info = artifact.info
  return setmetatable({
    typeFullName = M.name(row.name), moduleName = row.module, instanceCount = row.count, totalBytes = row.bytes,
    totalBytesPercent = M.percent(row.bytes, info.bytes), retainedBytes = retained and row.retained or nil,
    retainedBytesPercent = retained and row.retained and M.percent(row.retained, info.bytes) or nil, identity = M.identity(artifact, row),
  }, TYPE_ORDER)
end

function M.type_stats(artifact, rows, retained)
  local list = json.array({})
  for i, row in ipairs(rows) do list[i] = M.type_stat(artifact, row, retained) end
  return list
end

--- An object of graph:top().
function M.object(artifact, row)
  return setmetatable({
    objectAddress = numbers.address(row.address), typeFullName = M.name(row.name), moduleName = row.module, size = row.size,
    retainedBytes = row.retained, retainedBytesPercent = M.percent(row.retained, artifact.info.bytes), retainedObjects = row.objects,
  }, OBJECT_ORDER)
end

--- The RetentionFrames of a way of graph:ways(); empty when no root keeps the object.
function M.chain(way)
  local chain = json.array({})
  for i, at in ipairs(way) do
    chain[i] = setmetatable({
      typeFullName = M.name(at.name), objectAddress = numbers.address(at.address), rootKind = i == 1 and way.kind or nil,
      rootName = i == 1 and way.root and M.name(way.root) or nil, size = at.size, retainedBytes = at.retained,
    }, FRAME_ORDER)
  end
  return chain
end

--- RetentionPath of a way; nil when no root keeps the object.
function M.path(way)
  local last = way[#way]
  if not last then return nil end
  return setmetatable({
    targetTypeFullName = M.name(last.name), targetObjectAddress = numbers.address(last.address), targetRetainedBytes = last.retained,
    length = way.length, chain = M.chain(way), truncated = way.length > #way,
  }, PATH_ORDER)
end

return M
