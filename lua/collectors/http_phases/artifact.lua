-- SPDX-License-Identifier: MIT
-- What a window of outgoing requests holds, when it is over.
local parts = require("collectors.http_phases.parts")
local tally = require("collectors.http_phases.tally")

local M = {}

M.MAX_IN_FLIGHT = 200

-- Parts with most time first; the set-up of connections is inside the queue and comes after.
local function ranked(list)
  table.sort(list, function(a, b)
    local set_up_a, set_up_b = a.kind == "setup", b.kind == "setup"
    if set_up_a ~= set_up_b then return set_up_b end
    if a.total ~= b.total then return a.total > b.total end
    return a.name < b.name
  end)
  return list
end

local function part_rows(sums, all_ns)
  local list = {}
  for name, part in pairs(sums) do
    local f = tally.figures(part.samples)
    f.name, f.kind, f.failed, f.share = name, part.kind, part.failed, all_ns > 0 and f.total / all_ns or 0
    list[#list + 1] = f
  end
  return ranked(list)
end

local function slowest_part(sums, set_up)
  local best
  for name, ns in pairs(sums) do
    if not set_up[name] and (not best or ns > sums[best] or (ns == sums[best] and name < best)) then best = name end
  end
  return best
end

local function host_rows(hosts)
  local list, set_up = {}, {}
  for _, name in ipairs(parts.SETUP) do set_up[name] = true end
  for _, host in pairs(hosts) do
    local f = tally.figures(host.total)
    f.authority, f.failed, f.status_errors, f.redirects = host.authority, host.failed, host.status_errors, host.redirects
    f.slowest = slowest_part(host.parts, set_up)
    f.slowest_ns = f.slowest and host.parts[f.slowest] or 0
    list[#list + 1] = f
  end
  table.sort(list, function(a, b)
    if a.total ~= b.total then return a.total > b.total end
    return a.authority < b.authority
  end)
  return list
end

local function counted(map, name)
  local list = {}
  for key, n in pairs(map) do list[#list + 1] = { [name] = key, n = n } end
  table.sort(list, function(a, b)
    if a.n ~= b.n then return a.n > b.n end
    return tostring(a[name]) < tostring(b[name])
  end)
  return list
end

local function statuses(map)
  local list = {}
  for _, row in pairs(map) do list[#list + 1] = row end
  table.sort(list, function(a, b) return (a.status or 0) < (b.status or 0) end)
  return list
end

local function in_flight(assembly, end_ns)
  local rows = {}
  for i, request in ipairs(assembly:open()) do
    if i > M.MAX_IN_FLIGHT then break end
    local row = tally.row(request, end_ns)
    row.failed, row.failed_in, row.waits_in = false, nil, parts.standing(request.legs[#request.legs])
    rows[i] = row
  end
  return rows
end

--- The artifact; what every window has is added by the caller.
---@param assembly table   of assemble.new
---@param sums table       of tally.new
---@param end_ns integer   of the window
function M.new(assembly, sums, end_ns)
  tally.cut(sums.slowest, tally.MAX_SLOWEST, tally.by_duration)
  tally.cut(sums.redirects, tally.MAX_REDIRECTS, tally.by_duration)
  local total = tally.figures(sums.total)
  local queue = sums.parts.queue
  return {
    started = assembly.started, ended = sums.n, failed = sums.failed, status_errors = sums.status_errors, redirected = sums.redirected,
    total = total, parts = part_rows(sums.parts, total.total), hosts = host_rows(sums.hosts), other_hosts = sums.other_hosts,
    slowest = sums.slowest, failures = sums.failures, failures_seen = sums.failures_seen, failed_in = counted(sums.failed_in, "phase"),
    redirects = sums.redirects, redirects_seen = sums.redirects_seen, by_status = statuses(sums.by_status),
    in_flight = in_flight(assembly, math.max(end_ns, assembly.last_ns)), n_in_flight = assembly.n_open,
    orphans = assembly.orphans, inherited = assembly.inherited,
    elsewhere = assembly.elsewhere, without_id = assembly.without_id, not_followed = assembly.not_followed,
    queue_share = queue and total.total > 0 and queue.samples.total / total.total or 0, overlong = assembly.overlong,
    ids_read = assembly.checked, ids_unreadable = assembly.unreadable, told = assembly.told,
  }
end

return M
