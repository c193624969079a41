-- SPDX-License-Identifier: MIT
-- async: the call tree with the parts of one asynchronous operation put together across its awaits, as far as stacks tell who awaits whom.
local call_tree = require("samplers.views.call_tree")

local M = {}

local ORDER <const> = { __order = {
  "processId", "totalSamples", "joinedSamples", "unseenSamples", "ambiguousSamples", "nodeCount", "truncated", "evidence", "selfSamples",
  "root",
} }

-- The capture with another tree over the same samples. Ids of modules hold for it when it has the same modules.
local function with_tree(artifact, joined)
  local modules = joined:modules()
  for i, module in ipairs(modules) do
    local known = artifact.modules[i]
    if known and known.name == module.name and known.path == module.path then modules[i] = known end
  end
  return setmetatable({ profile = joined, info = joined:info(), modules = modules, sources = {} }, { __index = artifact })
end

local function sentence(info, told)
  return ("%s Of what went on after an await, %d samples stand below the code that began the operation; of %d its beginning was not seen, "
    .. "of %d more than one: these are below frames of their own, each method below the one that awaits it, as far as that was seen.")
    :format(told, info.joined, info.unseen, info.several)
end

--- What the view answers.
function M.project(artifact, opts, entry)
  local joined, err = artifact.profile:causality()
  if not joined then return nil, err end
  local view, extras = call_tree.project(with_tree(artifact, joined), opts, entry)
  if not view then return nil, extras end
  local info = joined:info()
  joined:close()
  view.joinedSamples, view.unseenSamples, view.ambiguousSamples = info.joined, info.unseen, info.several
  extras.summary = sentence(info, extras.summary)
  return setmetatable(view, ORDER), extras
end

return M
