-- SPDX-License-Identifier: MIT
-- The scopes around a message: the runtime gives each begun scope an activity id that follows the program's tasks; a message carries the
-- innermost, a scope the one around it.
local flat_json = require("collectors.logs.flat_json")
local payload = require("collectors.event_source.payload")
local redaction = require("lunette.redaction")
local sys = require("lunette.sys")
local untrusted = require("collectors.untrusted")

local M = {}

M.MAX_DEPTH = 16   -- scopes around a message
M.MAX_VALUES = 32  -- of all of them together
M.MAX_KEY = 128    -- bytes
local TEMPLATE <const> = "{OriginalFormat}"

local Scopes = {}
Scopes.__index = Scopes

--- The scopes that began, by activity id.
---@param rows table[]?    of the program: activity, related, arguments
---@param bytes integer    of a value
function M.new(rows, bytes)
  local by_id, attributed = {}, false
  for _, row in ipairs(rows or {}) do
    if row.activity then by_id[row.activity], attributed = row, true end
  end
  return setmetatable({ by_id = by_id, bytes = bytes, attributed = attributed, n = rows and #rows or 0 }, Scopes)
end

-- The values of one scope; its template only when it has no other.
local function values_of(row, bytes)
  local members, kept, template = flat_json.members(row.arguments), {}, nil
  for _, m in ipairs(members) do
    if m[1] == TEMPLATE then template = m else kept[#kept + 1] = m end
  end
  if #kept == 0 and template then kept[1] = template end
  for i, m in ipairs(kept) do
    local value = m[3] and m[2] or untrusted.clean(m[2] .. "...", #m[2] + 3, 0)
    kept[i] = {
      untrusted.cut(redaction.redact(sys.utf8_sanitize(m[1])), M.MAX_KEY), untrusted.cut(payload.text(value, m[1]), bytes),
    }
  end
  return kept
end

--- The values of all scopes around a message, outermost first; an inner one of the same name counts. nil when there is none.
---@param activity string?
---@return table<string, string>?
function Scopes:around(activity)
  local chain, row = {}, activity and self.by_id[activity]
  while row and #chain < M.MAX_DEPTH do
    chain[#chain + 1] = row
    row = row.related and self.by_id[row.related]
  end
  local values, order = {}, {}
  for i = #chain, 1, -1 do
    chain[i].values = chain[i].values or values_of(chain[i], self.bytes)
    for _, pair in ipairs(chain[i].values) do
      if values[pair[1]] == nil and #order < M.MAX_VALUES then order[#order + 1] = pair[1] end
      if values[pair[1]] or order[#order] == pair[1] then values[pair[1]] = pair[2] end
    end
  end
  return #order > 0 and setmetatable(values, { __order = order }) or nil
end

return M
