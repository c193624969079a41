-- SPDX-License-Identifier: MIT
-- signals://cpu-sample/{handle}: what stands out in a capture, worked out anew over its whole tree.
local envelope = require("lunette.envelope")
local json = require("lunette.json")
local signal = require("lunette.signal")

local M = {}

--- CpuSignalsResource of an entry.
---@param artifact SampleArtifact
---@param entry Handle
function M.signals(artifact, entry)
  local list = signal.of_capture(entry.kind, artifact, entry.id, nil, "resource")
  return setmetatable({ handle = entry.id, signals = envelope.signals(list, entry) or json.array({}) },
    { __order = { "handle", "signals" } })
end

return M
