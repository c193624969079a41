-- SPDX-License-Identifier: MIT
-- activities/gc-overlay: how much of each kept span the process stood still for its garbage collector, by a gc capture of the same time.
local overlay_view = require("collectors.activities.overlay_view")
local view = require("lunette.view")

return view {
  kind = "activities", name = "gc-overlay",
  project = function(artifact, opts, entry) return overlay_view.of(artifact, entry, opts.gcHandle, opts.topN) end,
}
