-- SPDX-License-Identifier: MIT
-- The path down the heaviest children.
local hot_path = require("samplers.views.hot_path")
local view = require("lunette.view")

return view { kind = "allocation-sample", name = "hot-path", project = hot_path.project }
