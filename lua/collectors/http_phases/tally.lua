-- SPDX-License-Identifier: MIT
-- What is kept of finished requests: statistics by part and by host over all of them, and single ones: the slowest, those that failed,
-- redirects by their cost. Everything is bounded; what did not fit is counted.
local address = require("collectors.networking.address")
local parts = require("collectors.http_phases.parts")

local M = {}
M.__index = M

M.SAMPLES = 1000      -- of one part, for its percentiles; beyond, a random choice of all stands for them
M.MAX_HOSTS = 500
M.MAX_SLOWEST, M.MAX_FAILURES, M.MAX_REDIRECTS = 200, 200, 200
local SLACK <const> = 2 -- a list grows to so many times its length before it is sorted and cut

-- ---- samples ---------------------------------------------------------------------------------------------------------------------

local function new_samples() return { n = 0, total = 0, max = 0, kept = {}, seed = 12345 } end

-- A reservoir (algorithm R) with numbers of its own, so that a recording gives the same answer every time.
local function sample(s, ns)
  s.n, s.total = s.n + 1, s.total + ns
  if ns > s.max then s.max = ns end
  if #s.kept < M.SAMPLES then
    s.kept[#s.kept + 1] = ns
    return
  end
  s.seed = (s.seed * 1103515245 + 12345) & 0x7FFFFFFF
  local at = s.seed % s.n + 1
  if at <= M.SAMPLES then s.kept[at] = ns end
end

--- Percentiles of what was kept, in ns: the value that so many of a hundred do not pass.
---@return { n: integer, total: integer, max: integer, p50: integer?, p95: integer?, samples: integer }
function M.figures(s)
  local sorted = table.move(s.kept, 1, #s.kept, 1, {})
  table.sort(sorted)
  local function at(p) return sorted[math.max(1, math.ceil(#sorted * p / 100))] end
  return { n = s.n, total = s.total, max = s.max, p50 = at(50), p95 = at(95), samples = #sorted }
end

-- ---- lists -----------------------------------------------------------------------------------------------------------------------

local function insert(list, item, most, weight)
  list[#list + 1] = item
  if #list > most * SLACK then M.cut(list, most, weight) end
end

--- Sorts a list by weight, largest first, and cuts it.
function M.cut(list, most, weight)
  table.sort(list, function(a, b)
    if weight(a) ~= weight(b) then return weight(a) > weight(b) end
    return a.at < b.at
  end)
  for i = #list, most + 1, -1 do list[i] = nil end
end

local function by_duration(r) return r.ns end
M.by_duration = by_duration

-- ---- requests --------------------------------------------------------------------------------------------------------------------

function M.new()
  return setmetatable({
    n = 0, failed = 0, status_errors = 0, redirected = 0, total = new_samples(), parts = {}, hosts = {}, n_hosts = 0, other_hosts = 0,
    slowest = {}, failures = {}, failures_seen = 0, failed_in = {}, redirects = {}, redirects_seen = 0, by_status = {},
  }, M)
end

local function ending_of(request, i)
  if i < #request.legs then return parts.BEFORE_REDIRECT end
  if not request.failed_ns then return parts.BEFORE_END end
  return parts.standing(request.legs[i]) == parts.WAIT_FOR_RESPONSE and parts.WAIT_FOR_RESPONSE or parts.BEFORE_FAILURE
end

-- The first leg's URL is the request's; a leg whose URL the runtime does not tell has none.
local function leg_url(request, i)
  if i == 1 then return address.authority(request.scheme, request.host, request.port) .. address.target(request.target) end
  local url = request.legs[i].url
  return url and address.url(url) or nil
end

--- A request as it is kept and shown: nothing of the target's text in it but what `address` let through.
---@param request HttpRequest
---@param end_ns integer
function M.row(request, end_ns)
  local row = {
    at = request.at, ns = end_ns - request.at, path = request.path, status = request.status, failed = request.failed_ns ~= nil,
    error = address.message(request.error), legs = {}, redirects = #request.legs - 1,
    authority = address.authority(request.scheme, request.host, request.port),
  }
  local slowest
  for i, leg in ipairs(request.legs) do
    local stop = i < #request.legs and request.legs[i + 1].at or end_ns
    local list = parts.of(leg, stop, ending_of(request, i))
    for _, part in ipairs(list) do
      if part.kind ~= "setup" and (not slowest or part.ns > slowest.ns) then slowest = part end
    end
    row.legs[i] = {
      at = leg.at, ns = stop - leg.at, url = leg_url(request, i), status = leg.status ~= 0 and leg.status or nil,
      connection = leg.connection, made = leg.connection and leg.new_connection, parts = list,
    }
  end
  row.slowest = slowest and slowest.name
  if row.failed then
    local last = request.legs[#request.legs]
    local setup = last.setup[#last.setup]
    row.failed_in = parts.standing(last)
    row.cause = setup and setup.name == row.failed_in and address.message(setup.error) or nil
  end
  return row
end

local function host_of(self, authority)
  local host = self.hosts[authority]
  if host then return host end
  if self.n_hosts >= M.MAX_HOSTS then
    self.other_hosts = self.other_hosts + 1
    return nil
  end
  host = { authority = authority, n = 0, failed = 0, status_errors = 0, redirects = 0, total = new_samples(), parts = {} }
  self.hosts[authority], self.n_hosts = host, self.n_hosts + 1
  return host
end

local function add_parts(self, row, host)
  for _, leg in ipairs(row.legs) do
    for _, part in ipairs(leg.parts) do
      local key = part.name
      self.parts[key] = self.parts[key] or { name = key, kind = part.kind, samples = new_samples(), failed = 0 }
      sample(self.parts[key].samples, part.ns)
      if part.failed then self.parts[key].failed = self.parts[key].failed + 1 end
      if host then host.parts[key] = (host.parts[key] or 0) + part.ns end
    end
  end
end

local function add_redirects(self, row)
  for i = 1, #row.legs - 1 do
    local leg, after = row.legs[i], row.legs[i + 1]
    local status = leg.status or 0
    local by = self.by_status[status] or { status = leg.status, n = 0, leg_ns = 0, next_ns = 0 }
    self.by_status[status] = by
    by.n, by.leg_ns, by.next_ns = by.n + 1, by.leg_ns + leg.ns, by.next_ns + after.ns
    self.redirects_seen = self.redirects_seen + 1
    insert(self.redirects, {
      at = leg.at, ns = leg.ns + after.ns, status = leg.status, from = leg.url, to = after.url, leg_ns = leg.ns, next_ns = after.ns,
      request_ns = row.ns, final_status = row.status,
    }, M.MAX_REDIRECTS, by_duration)
  end
end

local function add_failure(self, row)
  self.failed = self.failed + 1
  self.failed_in[row.failed_in] = (self.failed_in[row.failed_in] or 0) + 1
  self.failures_seen = self.failures_seen + 1
  if #self.failures < M.MAX_FAILURES then self.failures[#self.failures + 1] = row end
end

--- Takes a request that has ended.
---@param request HttpRequest
function M:add(request)
  local row = M.row(request, request.stop)
  local host = host_of(self, row.authority)
  local status_error = not row.failed and row.status and row.status >= 400
  self.n = self.n + 1
  sample(self.total, row.ns)
  if status_error then self.status_errors = self.status_errors + 1 end
  if host then
    host.n, host.failed = host.n + 1, host.failed + (row.failed and 1 or 0)
    host.status_errors, host.redirects = host.status_errors + (status_error and 1 or 0), host.redirects + row.redirects
    sample(host.total, row.ns)
  end
  add_parts(self, row, host)
  if row.redirects > 0 then
    self.redirected = self.redirected + 1
    add_redirects(self, row)
  end
  if row.failed then add_failure(self, row) end
  insert(self.slowest, row, M.MAX_SLOWEST, by_duration)
end

return M
