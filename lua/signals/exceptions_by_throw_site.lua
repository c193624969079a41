-- SPDX-License-Identifier: MIT
-- exceptions.by-throw-site: whether one place throws most of the exceptions whose stack has names. A grouping, never a diagnosis.
local hints = require("lunette.hints")

local M = {}

M.ID = "exceptions.by-throw-site"
M.MIN_RESOLVED = 3 -- fewer are no crowd that a place could stand out of
M.EMIT_AT = 0.5    -- share of the leading site among throws with a resolved stack
M.BUCKETS = 5

--- The signal of a window as a list of none or one.
---@param artifact { total: integer, resolved: integer, sites: { type: string, frame: string, n: integer }[] }
---@param handle_id string?
---@return table[]
function M.of(artifact, handle_id)
  local top = artifact.sites[1]
  if not top or artifact.resolved < M.MIN_RESOLVED or top.n / artifact.resolved < M.EMIT_AT then return {} end
  local buckets = {}
  for i = 1, math.min(M.BUCKETS, #artifact.sites) do
    local s = artifact.sites[i]
    buckets[i] = { key = s.type .. " @ " .. s.frame, magnitude = s.n, unit = "exceptions", handle = handle_id }
  end
  return { {
    signal = M.ID,
    summary = ("%.0f %% of the %d exceptions with a resolved stack (of %d) come from one place: %s."):format(
      100 * top.n / artifact.resolved, artifact.resolved, artifact.total, buckets[1].key),
    salience = top.n / artifact.resolved, buckets = buckets,
    nextAction = hints.new("query_snapshot", "See the exceptions with their stacks.", { handle = handle_id, view = "exceptions" }),
  } }
end

return M
