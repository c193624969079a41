-- SPDX-License-Identifier: MIT
-- wait-handles-snapshot/whereThreadsWait: waits on handles, Monitor.Wait and lock contention in one ranking.
local json = require("lunette.json")
local notes = require("collectors.wait_handles.notes")
local numbers = require("lunette.numbers")
local view = require("lunette.view")
local wire = require("collectors.wait_handles.wire")

local function sentence(artifact, n)
  local top = artifact.where[1]
  if not top or top.idle then return "No thread with something to do waited." end
  return ("%d of %d places where threads wait; the longest at %s (%s)."):format(n, #artifact.where, top.site.method, top.reason)
end

return view {
  kind = "wait-handles-snapshot", name = "whereThreadsWait",
  project = function(artifact, opts)
    local rows = wire.where(artifact, opts.topN)
    return {
      returned = #rows, totalWaitDuration = numbers.timespan(wire.busy_ns(artifact) / 1e6), rows = rows,
      notes = json.array({ notes.OF_RANKING, table.unpack(artifact.notes) }),
    }, { summary = sentence(artifact, #rows) }
  end,
}
