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

--- How many rows a section would have, had none been left out at capture, and what to say of those.
---@return integer n, string left_out   " (1000 are kept)", or nothing
function M.count(section)
  local n, kept = section.total and section.total.rows or 0, #section.rows
  if n <= kept then return kept, "" end
  return n, (" (%d of them are kept)"):format(kept)
end

--- The project of such a view. A section is { rows = payload, total = { rows, objects, bytes }?, resource = field of the resource? }: what
--- a walk counted is in `total`, of which `rows` has the first.
---@param name string
---@param parameter string?   of inspect_heap, that must have been given
---@param sentence? fun(rows: any, section: table): string   what the answer says in one sentence
function M.view(name, parameter, sentence)
  return function(artifact, options, entry)
    if artifact.origin == "gcdump" then return nil, artifacts.unavailable(artifact, name, entry) end
    local section = artifact.sections[name]
    local counted = not section and artifacts.only_counted(artifact, name)
    if counted then return nil, counted end
    if not section then return nil, artifacts.not_captured(artifact, name, parameter or "what the view " .. name .. " shows") end
    return cut(section.rows, options.topN or TOP), sentence and { summary = sentence(section.rows, section) } or nil
  end
end

return M
