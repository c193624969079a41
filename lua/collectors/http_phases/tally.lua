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

-- True when it was cut.
local function insert(list, item, most, weight)
  list[#list + 1] = item
  if #list <= most * SLACK then return false end
  M.cut(list, most, weight)
  return true
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
    authorities = {}, n_authorities = 0, slowest = {}, failures = {}, failures_seen = 0, failed_in = {}, redirects = {},
    redirects_seen = 0, by_status = {},
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

-- The legs of a request with their parts and ends.
local function legs_of(request, end_ns)
  local list = {}
  for i, leg in ipairs(request.legs) do
    local stop = i < #request.legs and request.legs[i + 1].at or end_ns
    list[i] = { leg = leg, ns = stop - leg.at, parts = parts.of(leg, stop, ending_of(request, i)) }
  end
  return list
end

local function slowest_of(legs)
  local slowest
  for _, leg in ipairs(legs) do
    for _, part in ipairs(leg.parts) do
      if part.kind ~= "setup" and (not slowest or part.ns > slowest.ns) then slowest = part end
    end
  end
  return slowest and slowest.name
end

--- A request as it is kept and shown: nothing of the target's text in it but what `address` let through.
---@param request HttpRequest
---@param end_ns integer
---@param legs table[]?   of legs_of, where they are known
function M.row(request, end_ns, legs)
  legs = legs or legs_of(request, end_ns)
  local row = {
    at = request.at, ns = end_ns - request.at, path = request.path, status = request.status, failed = request.failed_ns ~= nil,
    error = address.message(request.error), legs = {}, redirects = #request.legs - 1, slowest = slowest_of(legs),
  }
  for i, one in ipairs(legs) do
    local leg = one.leg
    row.legs[i] = {
      at = leg.at, ns = one.ns, url = leg_url(request, i), status = leg.status ~= 0 and leg.status or nil,
      connection = leg.connection, made = leg.connection and leg.new_connection, parts = one.parts,
    }
  end
  if row.failed then
    local last = request.legs[#request.legs]
    local setup = last.setup[#last.setup]
    row.failed_in = parts.standing(last)
    row.cause = setup and setup.name == row.failed_in and address.message(setup.error) or nil
  end
  return row
end

-- The authority, cleaned once for each that there is.
local function authority_of(self, request)
  local key = ("%s\0%s\0%s"):format(request.scheme, request.host, request.port)
  local known = self.authorities[key]
  if known then return known end
  known = address.authority(request.scheme, request.host, request.port)
  if self.n_authorities < 2 * M.MAX_HOSTS then self.authorities[key], self.n_authorities = known, self.n_authorities + 1 end
  return known
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

local function add_parts(self, legs, host)
  for _, leg in ipairs(legs) do
    for _, part in ipairs(leg.parts) do
      local key = part.name
      local sum = self.parts[key]
      if not sum then
        sum = { name = key, kind = part.kind, samples = new_samples(), failed = 0 }
        self.parts[key] = sum
      end
      sample(sum.samples, part.ns)
      if part.failed then sum.failed = sum.failed + 1 end
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

-- Whether a request may be among the slowest: those that have been cut off were no slower than the floor.
local function is_slow(self, ns) return not self.floor_ns or ns > self.floor_ns end

local function add_slow(self, row)
  if insert(self.slowest, row, M.MAX_SLOWEST, by_duration) then self.floor_ns = self.slowest[M.MAX_SLOWEST].ns end
end

--- Takes a request that has ended.
---@param request HttpRequest
function M:add(request)
  local ns, failed, redirects = request.stop - request.at, request.failed_ns ~= nil, #request.legs - 1
  local legs, host = legs_of(request, request.stop), host_of(self, authority_of(self, request))
  local status_error = not failed and request.status and request.status >= 400
  self.n = self.n + 1
  sample(self.total, ns)
  if status_error then self.status_errors = self.status_errors + 1 end
  if host then
    host.n, host.failed = host.n + 1, host.failed + (failed and 1 or 0)
    host.status_errors, host.redirects = host.status_errors + (status_error and 1 or 0), host.redirects + redirects
    sample(host.total, ns)
  end
  add_parts(self, legs, host)
  local slow = is_slow(self, ns)
  if not (slow or failed or redirects > 0) then return end
  local row = M.row(request, request.stop, legs)
  if redirects > 0 then
    self.redirected = self.redirected + 1
    add_redirects(self, row)
  end
  if failed then add_failure(self, row) end
  if slow then add_slow(self, row) end
end

return M
