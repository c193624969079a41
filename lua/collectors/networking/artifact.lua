-- SPDX-License-Identifier: MIT
-- What a window of networking events holds: counts, latencies with what is known of their population, operations, counters.
local address = require("collectors.networking.address")
local numbers = require("lunette.numbers")
local untrusted = require("collectors.untrusted")

local M = {}

local MAX_NAME <const> = 128 -- bytes of what a counter is called
M.POPULATION = 2 -- failed completions are among the latencies
M.NO_METHOD = "(unknown)"

-- SslProtocols; 0 is a handshake that failed.
local PROTOCOLS <const> = { [12] = "Ssl2", [48] = "Ssl3", [192] = "Tls", [768] = "Tls11", [3072] = "Tls12", [12288] = "Tls13" }

---@class NetworkingFamily
---@field started integer
---@field stopped integer
---@field failed integer
---@field time table?         quantiles, ns
---@field paired integer
---@field failed_pairs integer
---@field uncorrelatable integer
---@field availability string

---@class NetworkingOperation
---@field authority string
---@field method string
---@field count integer     requests that started
---@field failed integer
---@field time table?
---@field availability string

--- measured, or why there is no latency.
---@param paired integer
---@param seen integer            starts and stops
---@param uncorrelatable integer  of these, those without a partner that could be found
---@param whole boolean           the window ended as it should, and lost nothing
function M.availability(paired, seen, uncorrelatable, whole)
  if paired > 0 then return "measured" end
  if seen == 0 then return whole and "not-observed" or "incomplete" end
  return uncorrelatable > 0 and "uncorrelatable" or "incomplete"
end

local function family(pair, failed_pairs, started, stopped, failed, whole)
  local lost = pair.unmatched + pair.keyless + pair.replaced + pair.dropped
  return {
    started = started, stopped = stopped, failed = failed, time = pair.pairs > 0 and pair.time or nil, paired = pair.pairs,
    failed_pairs = math.min(failed_pairs, pair.pairs), uncorrelatable = lost,
    availability = M.availability(pair.pairs, started + stopped, lost, whole),
  }
end

local function key_of(row) return ("%s\0%s\0%s"):format(row.scheme, row.host, row.port) end

local function operations(result, http, whole)
  local list, by_key = {}, {}
  local function one(row)
    local key = key_of(row)
    if not by_key[key] then
      by_key[key] = {
        authority = address.authority(row.scheme, row.host, row.port), method = M.NO_METHOD, count = 0, failed = 0, paired = 0,
      }
      list[#list + 1] = by_key[key]
    end
    return by_key[key]
  end
  for _, row in ipairs(result.started_by.rows) do one(row).count = row.n end
  for _, row in ipairs(result.http.by.rows) do
    local o = one(row)
    o.time, o.paired = row.time, row.time.n
  end
  for _, row in ipairs(result.http_failed.by.rows) do one(row).failed = row.n end
  for _, o in ipairs(list) do o.availability = M.availability(o.paired, o.count, http.uncorrelatable, whole) end
  table.sort(list, function(a, b)
    if a.count ~= b.count then return a.count > b.count end
    return a.authority < b.authority
  end)
  return list
end

local function queue(result, whole)
  local left, samples = result.n_left_queue, result.queue.n
  local available = samples > 0 and "measured" or (left > 0 and "unavailable" or M.availability(0, 0, 0, whole))
  return { left = left, samples = samples, rejected = left - samples, time = samples > 0 and result.queue or nil, availability = available }
end

local function protocols(rows)
  local names = {}
  for _, row in ipairs(rows) do
    if row.protocol and row.protocol ~= 0 then names[#names + 1] = PROTOCOLS[row.protocol] or ("protocol %d"):format(row.protocol) end
  end
  table.sort(names)
  return names
end

local function counters(rows)
  local list = {}
  for _, row in ipairs(rows) do
    local value = numbers.finite(row.rate or row.mean)
    if row.name and value then
      list[#list + 1] = {
        provider = row.provider, name = untrusted.clean(row.name, MAX_NAME), value = value,
        display = row.display and untrusted.clean(row.display, MAX_NAME), unit = row.unit and untrusted.clean(row.unit, MAX_NAME),
      }
    end
  end
  table.sort(list, function(a, b)
    if a.provider ~= b.provider then return a.provider < b.provider end
    return a.name < b.name
  end)
  return list
end

--- The artifact of a run; `window` is measured.window of it.
---@param result table
---@param window MeasuredWindow
function M.new(result, window)
  local whole = not window.ended_early and (window.lost or 0) == 0
  local made = {
    http = family(result.http, result.http_failed.pairs, result.n_request, result.n_request_stop, result.n_request_failed, whole),
    dns = family(result.dns, result.dns_failed.pairs, result.n_lookup, result.n_lookup_stop, result.n_lookup_failed, whole),
    tls = family(result.tls, result.tls_failed.pairs, result.client_handshakes,
      math.max(0, result.n_handshake_stop - result.tls_served.pairs), result.failed_client_handshakes, whole),
    sockets = { started = result.n_connect, stopped = result.n_connect_stop, failed = result.n_connect_failed },
    queue = queue(result, whole), protocols = protocols(result.tls.protocols.rows), served_handshakes = result.tls_served.pairs,
    connected = result.n_connected, closed = result.n_closed, open = result.http.open,
    other_operations = result.started_by.other and result.started_by.other.keys or 0,
    counters = counters(result.counters.rows), status_errors = result.statuses > 0 and result.status_errors or nil,
    parsing_errors = result.meta.errors or 0,
  }
  made.operations = operations(result, made.http, whole)
  for name, value in pairs(window) do made[name] = value end
  made.read_ms = result.window.elapsed_ms
  return made
end

return M
