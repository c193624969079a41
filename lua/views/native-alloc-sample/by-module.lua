-- SPDX-License-Identifier: MIT
-- Samples by module.
local groups = require("samplers.views.groups")
local view = require("lunette.view")

return view { kind = "native-alloc-sample", name = "by-module", project = groups.of("by_module", "module") }
