-- SPDX-License-Identifier: MIT
-- Callers and callees of one method.
local caller_callee = require("samplers.views.caller_callee")
local view = require("lunette.view")

return view { kind = "cpu-sample", name = "caller-callee", project = caller_callee.project }
