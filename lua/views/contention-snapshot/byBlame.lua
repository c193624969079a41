-- SPDX-License-Identifier: MIT
-- contention-snapshot/byBlame: locks by the time that their owners made others wait, with what is known of where those owners were.
local json = require("lunette.json")
local notes = require("collectors.contention.notes")
local view = require("lunette.view")
local wire = require("collectors.contention.wire")

local function sentence(artifact, n)
  local lock = artifact.locks[1]
  local owner = lock and lock.owners[1]
  if not owner or owner.evidence == "none" then
    return ("%d of %d locks; where the owners were is not known."):format(n, #artifact.locks)
  end
  return ("%d of %d locks; behind the first one: %s (%s, late by %.1f ms)."):format(n, #artifact.locks, owner.site.method, owner.evidence,
    owner.late_ns / 1e6)
end

return view {
  kind = "contention-snapshot", name = "byBlame",
  project = function(artifact, opts)
    local rows = wire.blame(artifact, opts.topN)
    return {
      totalEvents = artifact.total, followedEvents = artifact.followed, returned = #rows, locks = rows,
      notes = json.array(notes.of_blame(artifact)),
    }, { summary = sentence(artifact, #rows) }
  end,
}
