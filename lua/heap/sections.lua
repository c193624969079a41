-- SPDX-License-Identifier: MIT
-- Views whose answer the walk of a heap made already: what it holds under the view's name.
local artifacts = require("heap.artifact")
local json = require("lunette.json")

local M = {}

local TOP <const> = 50

local function cut(rows, top)
  if not json.is_array(rows) or #rows <= top then return rows end
  local list = json.array({})
  for i = 1, top do list[i] = rows[i] end
  return list
end

--- The project of such a view. A section is { rows = payload, resource = field of the resource? }.
---@param name string
---@param parameter string?   of inspect_heap, that must have been given
---@param sentence? fun(rows: any): string   what the answer says in one sentence
function M.view(name, parameter, sentence)
  return function(artifact, options, entry)
    if artifact.origin == "gcdump" then return nil, artifacts.unavailable(artifact, name, entry) end
    local section = artifact.sections[name]
    if not section then return nil, artifacts.not_captured(artifact, name, parameter or "what the view " .. name .. " shows") end
    return cut(section.rows, options.topN or TOP), sentence and { summary = sentence(section.rows) } or nil
  end
end

return M
