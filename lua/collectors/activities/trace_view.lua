-- SPDX-License-Identifier: MIT
-- The wire form of one trace: its rows, its timing and what it cannot claim.
local forest = require("collectors.activities.forest")
local json = require("lunette.json")
local numbers = require("lunette.numbers")
local untrusted = require("collectors.untrusted")
local wire = require("collectors.activities.wire")

local M = {}

M.MAX_VALUE = 128 -- bytes of a tag's value are at most as many characters
-- Tags with few different values. No address, URL, path or route, no statement, no user or tenant.
M.TAGS = {}
for _, name in ipairs {
  "http.request.method", "http.method", "http.response.status_code", "http.status_code", "network.protocol.name",
  "network.protocol.version", "rpc.system", "rpc.system.name", "rpc.service", "rpc.method", "rpc.grpc.status_code", "db.system",
  "db.system.name", "db.operation", "db.operation.name", "messaging.system", "messaging.operation", "messaging.operation.name",
  "messaging.operation.type", "error.type", "exception.type", "otel.status_code", "otel.library.name", "otel.scope.name", "span.kind",
} do
  M.TAGS[name] = true
end

local NODE_ORDER <const> = { __order = {
  "nodeIndex", "parentNodeIndex", "depth", "sourceName", "operationName", "traceId", "spanId", "parentSpanId", "startedAt",
  "stoppedAt", "durationMs", "residualDurationMs", "linkClassification", "kind", "status", "tags", "httpDestination" } }
local VIEW_ORDER <const> = { __order = {
  "traceId", "canClaimComplete", "retainedActivities", "totalActivities", "returned", "truncated", "maxResidualNodeIndex",
  "criticalPathDurationMs", "criticalPathNodeIndexes", "warnings", "retention", "httpDestinationCorrelation", "nodes" } }
local PROBLEMS <const> = {
  { "orphan", "%d spans name a parent that is not among the kept ones; each is a root here." },
  { "malformed-span", "%d spans have no usable span id; each is a root here." },
  { "malformed-parent", "%d spans have an unusable parent id; each is a root here." },
  { "duplicate", "%d spans share their span id with another; each is a root here, and none is a parent." },
  { "cycle", "%d spans are their own ancestors; their links are not used." },
}

local function low_tags(tags)
  local kept, order = {}, {}
  for _, name in ipairs(getmetatable(tags).__order) do
    if M.TAGS[name] then kept[name], order[#order + 1] = untrusted.cut(tags[name], M.MAX_VALUE), name end
  end
  return setmetatable(kept, { __order = order })
end

local function node_row(node, trace_id)
  local s = node.span
  return setmetatable({
    nodeIndex = node.index, parentNodeIndex = node.parent and node.parent.index, depth = node.depth, sourceName = s.source,
    operationName = s.operation, traceId = trace_id, spanId = s.span_id, parentSpanId = s.parent_span_id,
    startedAt = numbers.iso(s.start_unix_ns / 1e6), stoppedAt = numbers.iso((s.start_unix_ns + (s.took_ns or 0)) / 1e6),
    durationMs = wire.ms(s.took_ns or 0), residualDurationMs = wire.ms(node.residual_ns), linkClassification = node.link, kind = s.kind,
    status = s.status, tags = low_tags(s.tags), httpDestination = wire.destination(s.destination),
  }, NODE_ORDER)
end

local function warnings_of(artifact, tree, returned)
  local warnings = json.array({
    "Completed spans of one window only: spans still running, or ended before it, are not here. Missing children make residuals larger "
      .. "and may change the critical path: neither is a lower bound.",
  })
  local function say(when, fmt, ...)
    if when then warnings[#warnings + 1] = fmt:format(...) end
  end
  local r = artifact.retention
  for _, problem in ipairs(PROBLEMS) do say(tree.links[problem[1]], problem[2], tree.links[problem[1]] or 0) end
  say(tree.untimed > 0, "%d spans do not tell how long they took; they have no residual.", tree.untimed)
  say(#tree.nodes > returned, "Truncated: %d of %d rows; timings are of all of them.", returned, #tree.nodes)
  local last = tree.path[#tree.path]
  say(last and last.index >= returned, "HiddenPath: the critical path goes on in rows that topN cut.")
  say(tree.longest and tree.longest.index >= returned, "HiddenResidual: the span with the largest residual is in a row that topN cut.")
  say(r.matching > r.retained, "RetentionLimited: %d spans were not kept.", r.matching - r.retained)
  say(artifact.lost > 0, "EventsLost: the target dropped %d events.", artifact.lost)
  return warnings
end

local function path_indexes(tree, returned)
  local list = json.array({})
  for _, node in ipairs(tree.path) do
    if node.index >= returned then break end
    list[#list + 1] = node.index
  end
  return list
end

--- ActivityTraceView of a trace.
---@param artifact table
---@param trace_id string   in lower case
---@param top_n integer
function M.of(artifact, trace_id, top_n)
  local spans = {}
  for _, s in ipairs(artifact.spans) do
    if s.trace_id and s.trace_id:lower() == trace_id then spans[#spans + 1] = s end
  end
  local tree = forest.build(spans)
  local rows, returned = json.array({}), math.min(#tree.nodes, top_n)
  for i = 1, returned do rows[i] = node_row(tree.nodes[i], trace_id) end
  return setmetatable({
    traceId = trace_id, canClaimComplete = false, retainedActivities = #spans, totalActivities = artifact.retention.observed,
    returned = returned, truncated = #tree.nodes > returned, maxResidualNodeIndex = tree.longest and tree.longest.index,
    criticalPathDurationMs = #spans > 0 and wire.ms(tree.path_ns) or nil, criticalPathNodeIndexes = path_indexes(tree, returned),
    nodes = rows,
    retention = wire.retention(artifact), httpDestinationCorrelation = wire.correlation(artifact),
    warnings = warnings_of(artifact, tree, returned),
  }, VIEW_ORDER), {
    summary = #spans == 0 and "No kept span is of this trace." or ("%d spans of the trace; its critical path has %.3f ms of its own.")
      :format(#spans, (tree.path_ns or 0) / 1e6),
  }
end

return M
