-- SPDX-License-Identifier: MIT
-- Samples by namespace.
local groups = require("samplers.views.groups")
local view = require("lunette.view")

return view { kind = "cpu-sample", name = "by-namespace", project = groups.of("by_namespace", "namespace") }
