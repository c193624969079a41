-- SPDX-License-Identifier: MIT
-- Connections that are made for somebody else. The pool goes on with its next connection where the last one ended: the events carry the
-- activity of a request that is over. They are put to the request that has waited longest for a connection to the same host, since that
-- is whom the pool makes it for.
local M = {}
M.__index = M

M.MAX_RETIRED = 1000   -- requests that are over and remembered
local SLACK <const> = 64

function M.new()
  return setmetatable({ waiting = {}, by_path = {}, by_id = {}, ring = {}, at = 0 }, M)
end

local function key_of(request) return ("%s\0%s\0%s"):format(request.scheme, request.host, request.port) end

local function waits(request)
  local leg = request.legs[1]
  return not request.stop and #request.legs == 1 and not leg.sent and not leg.left_ns and #leg.setup == 0
end

-- Takes those from the front that wait no more; and all of them when they are the most.
local function prune(queue)
  while queue.head <= queue.tail and not waits(queue[queue.head]) do
    queue[queue.head], queue.head = nil, queue.head + 1
  end
  queue.since = queue.since + 1
  if queue.since <= queue.tail - queue.head + SLACK then return end
  local kept = { head = 1, tail = 0, since = 0 }
  for i = queue.head, queue.tail do
    if waits(queue[i]) then
      kept.tail = kept.tail + 1
      kept[kept.tail] = queue[i]
    end
    queue[i] = nil
  end
  for i = 1, kept.tail do queue[i] = kept[i] end
  queue.head, queue.tail, queue.since = 1, kept.tail, 0
end

--- A request has begun.
function M:began(request)
  local key = key_of(request)
  local queue = self.waiting[key]
  if not queue then
    queue = { head = 1, tail = 0, since = 0 }
    self.waiting[key] = queue
  end
  queue.tail = queue.tail + 1
  queue[queue.tail] = request
  prune(queue)
end

--- A request is over.
function M:ended(request)
  local key = key_of(request)
  local queue = self.waiting[key]
  if queue then
    prune(queue)
    if queue.head > queue.tail then self.waiting[key] = nil end
  end
  if not request.path then return end
  self.at = self.at % M.MAX_RETIRED + 1
  local old = self.ring[self.at]
  if old then
    if self.by_path[old.path] == old then self.by_path[old.path] = nil end
    if self.by_id[old.id] == old then self.by_id[old.id] = nil end
  end
  local retired = { path = request.path, id = request.id, key = key }
  self.ring[self.at], self.by_path[retired.path], self.by_id[retired.id] = retired, retired, retired
end

--- Whom a connection is made for whose events have the activity of a request that is over: its id, or a path below its path.
---@param id string?
---@param path string?
---@param anew boolean    a lookup or a connect, which may be for the next one that waits; else who was found last
---@return HttpRequest?
function M:heir(id, path, anew)
  local retired = id and self.by_id[id]
  while not retired and path do
    path = path:match("^(/.*/)[^/]+/$")
    retired = path and self.by_path[path]
  end
  if not retired then return nil end
  local last = retired.heir
  if last and not last.stop and not last.legs[1].sent and not (anew and last.legs[1].left_ns) then return last end
  local queue = self.waiting[retired.key]
  if not queue then return nil end
  for i = queue.head, queue.tail do
    if waits(queue[i]) then
      retired.heir = queue[i]
      return queue[i]
    end
  end
  return nil
end

return M
