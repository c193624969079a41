-- SPDX-License-Identifier: MIT
-- Two captures, or several, side by side.
local diff = require("samplers.views.diff")
local view = require("lunette.view")

return view { kind = "allocation-sample", name = "diff", project = diff.project }
