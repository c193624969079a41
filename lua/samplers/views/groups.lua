-- SPDX-License-Identifier: MIT
-- by-module and by-namespace: samples summed by where methods come from. A sample counts once for a group that is on its stack twice.
local json = require("lunette.json")
local wire = require("samplers.wire")

local M = {}

M.MAX_ROWS = 500
M.NONE = "<none>" -- frames without a namespace: the global one, native code, addresses without a name
local ORDER <const> = { __order = { "totalSamples", "returned", "evidence", "groups" } }

--- The view of a grouping.
---@param method "by_module"|"by_namespace"
---@param noun string
function M.of(method, noun)
  return function(artifact, opts)
    local found, rows = artifact.profile[method](artifact.profile, { top = math.min(opts.topN or 20, M.MAX_ROWS) }), json.array({})
    for i, row in ipairs(found) do rows[i] = wire.group(artifact, row, row.key ~= "" and row.key or M.NONE) end
    local first = rows[1]
    return setmetatable({
      totalSamples = artifact.info.samples, returned = #rows, evidence = wire.evidence(artifact), groups = rows,
    }, ORDER), {
      summary = first and ("%s leads the %ss with %.1f %% of all samples as leaf, %.1f %% inclusive."):format(first.key, noun,
        first.exclusivePercent, first.inclusivePercent) or "No samples.",
    }
  end
end

return M
