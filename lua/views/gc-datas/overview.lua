-- SPDX-License-Identifier: MIT
-- gc-datas/overview: the range of heaps, how often it changed, and what the adaptation cost. Empty, with a note, when no event came.
local snapshot = require("collectors.datas.snapshot")
local view = require("lunette.view")

return view {
  kind = "gc-datas", name = "overview",
  project = function(artifact)
    return { overview = snapshot.overview(artifact), notes = snapshot.notes(artifact) }, { summary = snapshot.sentence(artifact) }
  end,
}
