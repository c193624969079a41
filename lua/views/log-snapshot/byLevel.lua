-- SPDX-License-Identifier: MIT
-- log-snapshot/byLevel: how many messages of each level, always all six, with the newest of each; warnings and errors outlive the others.
local json = require("lunette.json")
local numbers = require("lunette.numbers")
local program = require("collectors.logs.program")
local view = require("lunette.view")
local wire = require("collectors.logs.wire")

local function of_level(artifact, level)
  local list = {}
  for _, entry in ipairs(level >= program.WARNING and artifact.errors or artifact.recent) do
    if entry.level == level then list[#list + 1] = entry end
  end
  return list
end

return view {
  kind = "log-snapshot", name = "byLevel",
  project = function(artifact, opts)
    local levels = json.array({})
    for i, name in ipairs(program.LEVELS) do
      levels[i] = setmetatable({
        level = name, count = numbers.count(artifact.levels[i - 1]), samples = wire.newest(of_level(artifact, i - 1), opts.topN),
      }, { __order = { "level", "count", "samples" } })
    end
    return setmetatable({ untrustedDataBoundary = wire.boundary(), totalEvents = numbers.count(artifact.total), levels = levels },
      { __order = { "untrustedDataBoundary", "totalEvents", "levels" } }), { summary = ("%d messages by level."):format(artifact.total) }
  end,
}
