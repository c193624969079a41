-- SPDX-License-Identifier: MIT
-- The spans of one trace as a forest: parents before children, by ids alone. What is left of a span beside its children, and the chain from
-- a root down that has most of that. Times and names never make a link.
local M = {}

local ID <const> = "^%x+$"
local SPAN_DIGITS <const> = 16

---@class TraceNode
---@field span Span
---@field parent TraceNode?
---@field children TraceNode[]
---@field link "root"|"linked"|"orphan"|"malformed-parent"|"malformed-span"|"duplicate"|"cycle"
---@field depth integer
---@field index integer           from 0, in the order of the forest
---@field residual_ns integer?    nil when the span's own interval is not known

local function well_formed(id) return id ~= nil and #id == SPAN_DIGITS and id:find(ID) ~= nil and id:find("[^0]") ~= nil end

local function text_order(a, b) return (a or "") < (b or "") end

-- Start, stop, source, operation, ids, place.
local function before(x, y)
  local a, b = x.span, y.span
  if a.start_unix_ns ~= b.start_unix_ns then return a.start_unix_ns < b.start_unix_ns end
  local a_end, b_end = a.start_unix_ns + (a.took_ns or 0), b.start_unix_ns + (b.took_ns or 0)
  if a_end ~= b_end then return a_end < b_end end
  if a.source ~= b.source then return a.source < b.source end
  if a.operation ~= b.operation then return a.operation < b.operation end
  if a.span_id ~= b.span_id then return text_order(a.span_id, b.span_id) end
  if a.parent_span_id ~= b.parent_span_id then return text_order(a.parent_span_id, b.parent_span_id) end
  return a.ordinal < b.ordinal
end

local function by_span_id(nodes)
  local by_id, twice = {}, {}
  for _, node in ipairs(nodes) do
    local id = node.span.span_id
    if well_formed(id) then
      twice[id] = by_id[id] ~= nil or nil
      by_id[id] = by_id[id] or node
    end
  end
  return by_id, twice
end

-- How a node hangs together with the others, by its own ids: the class, and the parent of a linked one.
local function link_of(node, by_id, twice)
  local span = node.span
  if not well_formed(span.span_id) then return "malformed-span" end
  if twice[span.span_id] then return "duplicate" end
  if span.parent_span_id == nil then return "root" end
  if not well_formed(span.parent_span_id) then return "malformed-parent" end
  local parent = by_id[span.parent_span_id]
  if not parent or twice[span.parent_span_id] then return "orphan" end
  return "linked", parent
end

-- Takes the links of a circle away. Each node is walked once: 1 is on the way, 2 is done.
local function cut_cycles(nodes)
  local state = {}
  for _, first in ipairs(nodes) do
    local way, node = {}, first
    while node and not state[node] do
      state[node], way[#way + 1] = 1, node
      node = node.parent
    end
    if node and state[node] == 1 then
      local at = node
      repeat
        local parent = at.parent
        at.link, at.parent = "cycle", nil
        at = parent
      until at == node
    end
    for _, walked in ipairs(way) do state[walked] = 2 end
  end
end

--- A span's time that none of its direct children has, each clipped to it; children side by side count once. They come by start.
local function residual(node)
  local span = node.span
  if not span.took_ns then return nil end
  local from, to = span.start_unix_ns, span.start_unix_ns + span.took_ns
  local covered, at = 0, from
  for _, child in ipairs(node.children) do
    local c = child.span
    local child_from, child_to = math.max(c.start_unix_ns, at), math.min(c.start_unix_ns + (c.took_ns or 0), to)
    if child_to > child_from then covered, at = covered + child_to - child_from, child_to end
  end
  return span.took_ns - covered
end

--- Parents before children, siblings in order, without recursion: a trace may be one long chain.
local function preorder(roots)
  local order, stack = {}, {}
  for i = #roots, 1, -1 do stack[#stack + 1] = roots[i] end
  while #stack > 0 do
    local node = table.remove(stack)
    node.index, node.depth = #order, node.parent and node.parent.depth + 1 or 0
    order[#order + 1] = node
    for i = #node.children, 1, -1 do stack[#stack + 1] = node.children[i] end
  end
  return order
end

--- The chain from a root down whose residuals sum up to most: the first in order of those that do.
local function critical_path(order, roots)
  local best, follow = {}, {}
  for i = #order, 1, -1 do
    local node, most = order[i], 0
    for _, child in ipairs(node.children) do
      if best[child] > most then most, follow[node] = best[child], child end
    end
    best[node] = (node.residual_ns or 0) + most
  end
  local top
  for _, root in ipairs(roots) do
    if not top or best[root] > best[top] then top = root end
  end
  local path, node = {}, top
  while node do path[#path + 1], node = node, follow[node] end
  return path, top and best[top]
end

---@class TraceForest
---@field nodes TraceNode[]       parents before children
---@field path TraceNode[]        the critical path
---@field path_ns integer?
---@field longest TraceNode?      the one with the largest residual
---@field links table<string, integer>   how many of each class
---@field untimed integer         spans whose duration is not known

--- The forest of some spans of one trace.
---@param spans Span[]
---@return TraceForest
function M.build(spans)
  local nodes, links, untimed = {}, {}, 0
  for i, span in ipairs(spans) do nodes[i] = { span = span, children = {} } end
  table.sort(nodes, before)
  local by_id, twice = by_span_id(nodes)
  for _, node in ipairs(nodes) do node.link, node.parent = link_of(node, by_id, twice) end
  cut_cycles(nodes)
  local roots = {}
  for _, node in ipairs(nodes) do
    local list = node.parent and node.parent.children or roots
    list[#list + 1] = node
    links[node.link] = (links[node.link] or 0) + 1
    if not node.span.took_ns then untimed = untimed + 1 end
  end
  local order, longest = preorder(roots), nil
  for _, node in ipairs(order) do
    node.residual_ns = residual(node)
    if node.residual_ns and (not longest or node.residual_ns > longest.residual_ns) then longest = node end
  end
  local path, path_ns = critical_path(order, roots)
  return { nodes = order, path = path, path_ns = path_ns, longest = longest, links = links, untimed = untimed }
end

return M
