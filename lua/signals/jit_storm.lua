-- SPDX-License-Identifier: MIT
-- jit.storm: the JIT compiler took a good part of a second, over more methods than being looked at accounts for. Where the compilations
-- concentrate, by namespace; a grouping, never a diagnosis.
local artifacts = require("collectors.jit.artifact")
local hints = require("lunette.hints")

local M = {}

M.ID = "jit.storm"
M.BUCKETS = 5

--- The signal of a window as a list of none or one.
---@param artifact JitArtifact
---@param handle_id string?
---@return table[]
function M.of(artifact, handle_id)
  if not artifacts.is_storm(artifact) then return {} end
  local list, buckets = artifact.namespaces, {}
  for i = 1, math.min(M.BUCKETS, #list) do
    buckets[i] = { key = list[i].name == "" and "(none)" or list[i].name, magnitude = list[i].n, unit = "compilations", handle = handle_id }
  end
  local peak = artifact.peak
  return { {
    signal = M.ID,
    summary = ("%d compilations took %.0f ms; in the busiest second %d of them and %.0f %% of a core. Most are of %s%s."):format(
      artifact.completed, artifact.jit_ms, peak.per_s, 100 * peak.share, buckets[1] and buckets[1].key or "unknown methods",
      artifact.dynamic > 0 and (" (%d dynamic methods in all)"):format(artifact.dynamic) or ""),
    salience = math.min(1, peak.share), buckets = buckets,
    nextAction = hints.new("query_snapshot", "See which methods took the time.", { handle = handle_id, view = "topMethods", topN = 25 }),
  } }
end

return M
