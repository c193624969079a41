-- SPDX-License-Identifier: MIT
-- hot-path: from the root into the heaviest child, while that holds at least the threshold share of its parent.
local event_names = require("collectors.event_names")
local wire = require("samplers.wire")

local M = {}

M.DEFAULT = 50
local ORDER <const> = { __order = { "thresholdPercent", "depth", "evidence", "leaf", "path" } }

--- What the view answers.
function M.project(artifact, opts)
  local threshold = opts.hotPathThresholdPercent or M.DEFAULT
  local rows = wire.methods(artifact, artifact.profile:hot_path { threshold = threshold })
  local leaf = rows[#rows]
  return setmetatable({
    thresholdPercent = threshold, depth = #rows, evidence = wire.evidence(artifact), leaf = leaf, path = rows,
  }, ORDER), {
    summary = leaf and ("%d frames deep to %s, with %.1f %% of all samples."):format(#rows, event_names.spoken(leaf.method),
      leaf.inclusivePercent) or ("No child of the root has %.6g %% of the samples."):format(threshold),
  }
end

return M
