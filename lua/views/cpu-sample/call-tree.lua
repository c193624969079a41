-- SPDX-License-Identifier: MIT
-- The merged call tree, cut by depth and nodes.
local call_tree = require("samplers.views.call_tree")
local view = require("lunette.view")

return view { kind = "cpu-sample", name = "call-tree", project = call_tree.project }
