-- SPDX-License-Identifier: MIT
-- The call tree with asynchronous operations put together across their awaits.
local async = require("samplers.views.async")
local view = require("lunette.view")

return view { kind = "cpu-sample", name = "async", project = async.project }
