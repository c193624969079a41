-- SPDX-License-Identifier: MIT
-- call-tree: the merged tree from its root, or from a method, cut by depth and nodes; room goes to the heaviest nodes.
local errors = require("lunette.errors")
local event_names = require("collectors.event_names")
local json = require("lunette.json")
local text = require("lunette.text")
local wire = require("samplers.wire")

local M = {}

M.MAX_DEPTH, M.MAX_NODES = 100, 2000      -- whatever is asked
M.COMPACT_DEPTH, M.COMPACT_NODES = 3, 16
M.WITH_IDENTITY = 60                      -- nodes up to which each names its method for other tools
local BYTES <const> = 72 * 1024           -- of the tree as JSON: an answer has 80 KB
local TRIES <const> = 6

local NODE_ORDER <const> = { __order = {
  "frame", "inclusiveSamples", "exclusiveSamples", "inclusiveBytes", "exclusiveBytes", "selfSamples", "childrenLeftOut", "identity",
  "children",
} }
local VIEW_ORDER <const> = { __order = { "processId", "totalSamples", "nodeCount", "truncated", "evidence", "selfSamples", "root" } }

local function node(artifact, n, with_identity)
  local children = json.array({})
  for i, child in ipairs(n.children or {}) do children[i] = node(artifact, child, with_identity) end
  return setmetatable({
    frame = wire.frame(n), inclusiveSamples = n.inclusive, exclusiveSamples = n.exclusive, inclusiveBytes = n.inclusive_bytes,
    exclusiveBytes = n.exclusive_bytes, selfSamples = artifact.evidence and n.exclusive > 0 and wire.split(n) or nil,
    childrenLeftOut = (n.left_out or 0) > 0 and n.left_out or nil, identity = with_identity and wire.identity(artifact, n.frame) or nil,
    children = children,
  }, NODE_ORDER)
end

-- The frame from which the tree begins; nil for all of it; or false, err.
local function root_of(artifact, filter)
  if not filter or filter == "" then return nil end
  local found = artifact.profile:match(filter, 1)
  if found[1] then return found[1] end
  return false, errors.new("NotFound", ("No method of this capture contains %s."):format(text.quote(filter)),
    { detail = filter, hints = {} })
end

--- What the view answers.
---@param artifact SampleArtifact
---@param opts table
---@param entry Handle
function M.project(artifact, opts, entry)
  local from, err = root_of(artifact, opts.rootMethodFilter)
  if from == false then return nil, err end
  local depth, room = math.min(opts.maxDepth or 8, M.MAX_DEPTH), math.min(opts.maxNodes or 200, M.MAX_NODES)
  if opts.depth == "compact" then depth, room = M.COMPACT_DEPTH, M.COMPACT_NODES end
  local tree, root
  for _ = 1, TRIES do -- names may be long: fewer nodes then
    tree = artifact.profile:call_tree { root_frame = from and from.frame, max_depth = depth, max_nodes = room }
    root = node(artifact, tree.root, tree.nodes <= M.WITH_IDENTITY)
    local size = #json.encode(root)
    if size <= BYTES then break end
    room = math.max(1, math.floor(math.min(room, tree.nodes) * BYTES / size * 0.9))
  end
  local share = wire.percent(artifact, root.inclusiveSamples)
  return setmetatable({
    processId = entry.process_id or artifact.process_id, totalSamples = artifact.info.samples, nodeCount = tree.nodes,
    truncated = tree.truncated, evidence = wire.evidence(artifact), selfSamples = artifact.evidence and wire.split(artifact.info) or nil,
    root = root,
  }, VIEW_ORDER), {
    summary = ("%d nodes%s%s%s."):format(tree.nodes, from and " from " .. event_names.spoken(from.method) or "",
      from and (", %.1f %% of all samples"):format(share) or "", tree.truncated and "; cut by depth or nodes (maxDepth, maxNodes)" or ""),
  }
end

return M
