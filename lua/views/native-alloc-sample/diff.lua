-- SPDX-License-Identifier: MIT
-- Two captures, or several, side by side.
local diff = require("samplers.views.diff")
local view = require("lunette.view")

return view { kind = "native-alloc-sample", name = "diff", project = diff.project }
