-- SPDX-License-Identifier: MIT
-- Methods by samples of their own, inclusive or running.
local top_methods = require("samplers.views.top_methods")
local view = require("lunette.view")

return view { kind = "allocation-sample", name = "top-methods", project = top_methods.project }
