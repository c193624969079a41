-- SPDX-License-Identifier: MIT
-- Requests from their events. An event belongs to the activity of its id; a start names the activity that it was begun in, and where it
-- does not, the path in the id does. A redirect begins a new leg of the same request.
local clr = require("lunette.clr")
local heirs = require("collectors.http_phases.heirs")

local M = {}
M.__index = M

M.MAX_OPEN = 20000   -- requests in flight that are followed; more are counted
M.MAX_STEPS = 64     -- of one kind in a leg, which has at most one of each phase and some of the set-up
M.MAX_LEGS = 60      -- HttpClient follows 50 redirects unless told otherwise
M.MAX_FRESH = 10000  -- connections made in the window that no request has used yet

-- SocketError of the usual ends of a connect.
local SOCKET_ERRORS <const> = {
  [995] = "OperationAborted", [10013] = "AccessDenied", [10048] = "AddressAlreadyInUse", [10051] = "NetworkUnreachable",
  [10054] = "ConnectionReset", [10055] = "NoBufferSpaceAvailable", [10060] = "TimedOut", [10061] = "ConnectionRefused",
  [10064] = "HostDown", [10065] = "HostUnreachable",
}

---@class HttpLeg
---@field at integer          ns
---@field url string?         of a leg after the first, where the runtime tells it
---@field status integer?
---@field connection integer?
---@field new_connection boolean?   it is the first one over its connection, which was made in the window
---@field queue_ms number?
---@field left_ns integer?    when it left the queue
---@field sent boolean?       its headers began to go out
---@field steps table[]       phases: { name, at, stop? }
---@field setup table[]       of connections: { name, at, stop?, failed?, error? }

---@class HttpRequest
---@field id string
---@field path string?        of the activity
---@field at integer          ns
---@field scheme string
---@field legs HttpLeg[]
---@field status integer?     nil: none, or not told
---@field failed_ns integer?
---@field error string?
---@field stop integer?

local function new_leg(at, url) return { at = at, url = url, steps = {}, setup = {} } end

---@param on_end fun(request: HttpRequest)
function M.new(on_end)
  return setmetatable({
    on_end = on_end, nodes = {}, by_path = {}, heirs = heirs.new(), inherited = 0, n_open = 0, started = 0, stopped = 0,
    orphans = 0, elsewhere = 0, without_id = 0, not_followed = 0, overlong = 0, fresh = {}, n_fresh = 0,
    checked = 0, unreadable = 0, last_ns = 0, told = {},
  }, M)
end

-- The path of an id. One whose sum does not fit, or fits another process, is no EventSource's of this one; a start's own always is.
local function path_of(self, id, is_start)
  local path, process_id = clr.activity_path(id)
  if path and is_start then self.process_id = self.process_id or process_id end
  if path and self.process_id and process_id ~= self.process_id then path = nil end
  if path then self.checked = self.checked + 1 else self.unreadable = self.unreadable + 1 end
  return path
end

-- The request whose path is the nearest above that of an id; and the path.
local function above(self, id)
  local whole = path_of(self, id)
  local path = whole
  while path do
    path = path:match("^(/.*/)[^/]+/$") or path:match("^(/.*)%$%d+/$")
    if path and path:sub(-1) ~= "/" then path = path .. "/" end
    local request = path and self.by_path[path]
    if request then return request end
  end
  return nil, whole
end

-- Counts an event that belongs to no request that is known. Lookups, connects and handshakes may be those of other clients.
local function lost(self, row)
  if row.set_up then
    self.elsewhere = self.elsewhere + 1
  elseif not row.a then
    self.without_id = self.without_id + 1
  else
    self.orphans = self.orphans + 1
  end
end

-- The request and the step that an event belongs to.
local function owner(self, row)
  local node = row.a and self.nodes[row.a]
  if node then return node.request, node.step end
  local request = row.a and above(self, row.a)
  if not request then lost(self, row) end
  return request or nil
end

local function remember(self, request, id, step)
  if #request.ids >= M.MAX_STEPS * M.MAX_LEGS then return end
  request.ids[#request.ids + 1] = id
  self.nodes[id] = { request = request, step = step }
end

local function begin(self, row)
  self.started = self.started + 1
  if not row.a then
    self.without_id = self.without_id + 1
    return
  end
  if self.n_open >= M.MAX_OPEN then
    self.not_followed = self.not_followed + 1
    return
  end
  local request = {
    id = row.a, path = path_of(self, row.a, true), at = row.t, scheme = row.scheme, host = row.host, port = row.port,
    target = row.pathAndQuery, legs = { new_leg(row.t) }, ids = {},
  }
  if type(row.pathAndQuery) == "string" and row.pathAndQuery:find("?", 1, true) then
    self.told.query = self.told.query or row.pathAndQuery:sub(-2) ~= "?*"
  end
  remember(self, request, row.a)
  if request.path then self.by_path[request.path] = request end
  self.n_open = self.n_open + 1
  self.heirs:began(request)
end

local function forget(self, request)
  for _, id in ipairs(request.ids) do self.nodes[id] = nil end
  if request.path and self.by_path[request.path] == request then self.by_path[request.path] = nil end
  self.n_open = self.n_open - 1
  self.heirs:ended(request)
end

-- A start: a phase or a step of the set-up, in the current leg of its request.
local function step_begins(self, row, list, name)
  local node = row.r and self.nodes[row.r]
  local request, path, inherited = node and node.request, nil, nil
  if not request and row.a then request, path = above(self, row.a) end
  if not request and row.set_up then
    request = self.heirs:heir(row.r, path, name == "dns" or name == "connect")
    inherited = request and true or nil
  end
  if not request then
    lost(self, row)
    return nil
  end
  if inherited then self.inherited = self.inherited + 1 end
  local leg = request.legs[#request.legs]
  if #leg[list] >= M.MAX_STEPS then
    self.overlong = self.overlong + 1
    return nil
  end
  local step = { name = name, at = row.t, inherited = inherited }
  leg[list][#leg[list] + 1] = step
  if row.a then remember(self, request, row.a, step) end
  return step, leg
end

local function step_ends(self, row)
  local _, step = owner(self, row)
  if step and not step.stop then step.stop = row.t end
  return step
end

local function step_fails(self, row, why)
  local _, step = owner(self, row)
  if step then step.failed, step.error = true, why end
end

local function current_leg(self, row)
  local request = owner(self, row)
  return request and request.legs[#request.legs], request
end

local on = {}

on.request = begin

function on.request_stop(self, row)
  self.stopped = self.stopped + 1
  self.told.status = row.size >= 4
  local node = row.a and self.nodes[row.a]
  if not node or node.step or node.request.id ~= row.a then
    return lost(self, row)
  end
  local request = node.request
  request.stop = row.t
  local status = row.statusCode or request.legs[#request.legs].status
  if status and status > 0 then request.status = status end
  forget(self, request)
  self.on_end(request)
end

function on.request_failed(self, row)
  local _, request = current_leg(self, row)
  if request then request.failed_ns, request.error = row.t, row.exceptionMessage end
end

function on.left_queue(self, row)
  local leg = current_leg(self, row)
  local ms = row.timeOnQueueMilliseconds
  if not leg or not ms or ms < 0 then return end
  if leg.sent and leg.status then -- of the next leg, which a runtime before .NET 8 does not announce
    leg.next_left_ns, leg.next_queue_ms = row.t, ms
  elseif not leg.left_ns then -- through a proxy there are two: the first is this leg's
    leg.left_ns, leg.queue_ms = row.t, ms
  end
end

-- The first request whose headers go out over a connection made in the window is the one that it is new for.
function on.connected(self, row)
  local connection = row.connectionId
  if not connection or self.n_fresh >= M.MAX_FRESH then return end
  self.fresh[connection], self.n_fresh = true, self.n_fresh + 1
end

function on.redirect(self, row)
  local leg, request = current_leg(self, row)
  if not leg then return end
  leg.redirected_ns = row.t
  self.told.redirects = true
  if #request.legs < M.MAX_LEGS then request.legs[#request.legs + 1] = new_leg(row.t, row.redirectUri or false) end
end

function on.headers(self, row)
  self.told.connections = row.size >= 8
  local node = row.r and self.nodes[row.r]
  local request = node and node.request or (row.a and above(self, row.a))
  local before = request and request.legs[#request.legs]
  -- Before .NET 8 nothing tells of a redirect: headers go out a second time, behind an answer.
  if before and before.sent and before.status and #request.legs < M.MAX_LEGS then
    local at = before.steps[#before.steps].stop or row.t
    before.redirected_ns = at
    request.legs[#request.legs + 1] = new_leg(at, false)
    local leg = request.legs[#request.legs]
    leg.left_ns, leg.queue_ms = before.next_left_ns, before.next_queue_ms
  end
  local _, leg = step_begins(self, row, "steps", "requestHeaders")
  if not leg then return end
  leg.sent, leg.connection = true, row.connectionId
  leg.new_connection = row.connectionId and self.fresh[row.connectionId] or false
  if leg.new_connection then self.fresh[row.connectionId], self.n_fresh = nil, self.n_fresh - 1 end
end

function on.content(self, row) step_begins(self, row, "steps", "requestContent") end
function on.answer(self, row) step_begins(self, row, "steps", "responseHeaders") end
function on.body(self, row) step_begins(self, row, "steps", "responseContent") end

function on.answer_stop(self, row)
  step_ends(self, row)
  local leg = current_leg(self, row)
  if leg and row.statusCode and row.statusCode > 0 then leg.status = row.statusCode end
  if leg then leg.status = leg.status or 0 end -- an answer came, whatever it was
end

function on.lookup(self, row) step_begins(self, row, "setup", "dns") end
function on.connect(self, row) step_begins(self, row, "setup", "connect") end
function on.handshake(self, row)
  if not row.isServer then step_begins(self, row, "setup", "tls") end
end

function on.lookup_failed(self, row) step_fails(self, row) end
function on.connect_failed(self, row) step_fails(self, row, SOCKET_ERRORS[row.error] or (row.error and "socket error " .. row.error)) end
function on.handshake_failed(self, row) step_fails(self, row, row.exceptionMessage) end

for _, name in ipairs { "headers_stop", "content_stop", "body_stop", "lookup_stop", "connect_stop", "handshake_stop" } do
  on[name] = step_ends
end

local SET_UP <const> = {}
for _, what in ipairs { "lookup", "connect", "handshake" } do
  for _, ending in ipairs { "", "_stop", "_failed" } do SET_UP[what .. ending] = true end
end

--- Takes one event.
---@param kind string
---@param row table
function M:add(kind, row)
  if row.t > self.last_ns then self.last_ns = row.t end
  row.set_up = SET_UP[kind]
  on[kind](self, row)
end

--- The requests that have not ended, oldest first.
---@return HttpRequest[]
function M:open()
  local list, seen = {}, {}
  for _, node in pairs(self.nodes) do
    if not seen[node.request] then
      seen[node.request] = true
      list[#list + 1] = node.request
    end
  end
  table.sort(list, function(a, b)
    if a.at ~= b.at then return a.at < b.at end
    return a.id < b.id
  end)
  return list
end

return M
