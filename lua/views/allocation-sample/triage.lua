-- SPDX-License-Identifier: MIT
-- A first look: leaders, waits, the end of the hot path.
local triage = require("samplers.views.triage")
local view = require("lunette.view")

return view { kind = "allocation-sample", name = "triage", project = triage.project }
