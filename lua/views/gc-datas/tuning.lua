-- SPDX-License-Identifier: MIT
-- gc-datas/tuning: the decisions on the number of heaps in order of time; changesOnly keeps transitions and the first row, the baseline.
local snapshot = require("collectors.datas.snapshot")
local view = require("lunette.view")

local ORDER <const> = { __order = { "returned", "changesOnly", "tuning" } }

return view {
  kind = "gc-datas", name = "tuning",
  project = function(artifact, opts)
    local changes_only = opts.changesOnly == true
    local rows, more = snapshot.tuning(artifact, opts.topN, changes_only)
    return setmetatable({ returned = #rows, changesOnly = changes_only, tuning = rows }, ORDER),
      { summary = ("%d of %d %s."):format(#rows, #rows + more, changes_only and "changes, the baseline among them" or "decisions") }
  end,
}
