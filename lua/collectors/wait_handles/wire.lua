-- SPDX-License-Identifier: MIT
-- What a window of waits holds, and how its rows look on the wire.
local frames = require("collectors.waits.frames")
local json = require("lunette.json")
local numbers = require("lunette.numbers")

local M = {}

M.INLINE_SITES = 5  -- at Summary
M.STACK_FRAMES = 8  -- of a site's stack in a row
M.CONTENTION = "LockContention"

-- WaitSource of the event. The runtime calls all but Monitor.Wait "unknown": they are waits on handles, by whatever class.
local SOURCES <const> = { [0] = "WaitHandle", [1] = "MonitorWait" }

local function source_name(number) return SOURCES[number or false] or ("source %s"):format(tostring(number)) end

-- ---- from the engine -------------------------------------------------------------------------------------------------------------

---@class WaitGroup
---@field site WaitSite?
---@field reason string        WaitHandle, MonitorWait or LockContention
---@field n integer            waits that ended in the window
---@field total_ns number
---@field time table           quantiles, ns
---@field threads integer
---@field still integer        waits that had not ended
---@field still_ns integer     so far
---@field idle boolean         they wait because there is nothing to do
---@field api string?          what the site called
---@field stack string[]?      the stack with the most time

---@class WaitArtifact
---@field total integer
---@field total_ns number
---@field time table
---@field threads integer
---@field still integer
---@field before integer       waits that had begun before the window
---@field inside { n: integer, total_ns: number }   waits inside lock contention
---@field sources WaitGroup[]
---@field sites WaitGroup[]
---@field where WaitGroup[]    sites and lock contention in one ranking

local function group_of(row, reason, site)
  return {
    site = site, reason = reason, n = row.time.n, total_ns = row.total or 0, time = row.time, threads = row.threads.n, still = 0,
    still_ns = 0, idle = site ~= nil and frames.idle(site.method), api = site and site.api,
  }
end

local function weight(g) return g.total_ns + g.still_ns end

-- Those who wait for want of work come last, however long they wait.
local function ranked(list)
  table.sort(list, function(a, b)
    if a.idle ~= b.idle then return b.idle end
    if weight(a) ~= weight(b) then return weight(a) > weight(b) end
    if a.site.method ~= b.site.method then return a.site.method < b.site.method end
    return a.reason < b.reason
  end)
  return list
end

-- Groups by reason and site. Sites without names are one: the percentiles of the largest stand for it.
local function sites_of(rows, stacks, reason_of)
  local list, by_key = {}, {}
  for _, row in ipairs(rows) do
    local site, reason = frames.site(row.stack and stacks[row.stack]), reason_of(row)
    local key = reason .. " " .. frames.key(site)
    local one = by_key[key]
    if one then
      one.n, one.total_ns, one.threads = one.n + row.time.n, one.total_ns + (row.total or 0), math.max(one.threads, row.threads.n)
      one.time = { n = one.n, p50 = one.time.p50, p95 = one.time.p95, max = math.max(one.time.max or 0, row.time.max or 0) }
    else
      by_key[key] = group_of(row, reason, site)
      list[#list + 1] = by_key[key]
    end
  end
  return list, by_key
end

-- What is still waited for, put to its site.
local function add_open(list, by_key, open_rows, stacks, end_ns, reason_of, skip)
  local n = 0
  for _, row in ipairs(open_rows) do
    if not (skip and skip(row)) then
      local site, reason = frames.site(row.stack and stacks[row.stack]), reason_of(row)
      local key = reason .. " " .. frames.key(site)
      local one = by_key[key]
      if not one then
        one = group_of({ time = { n = 0 }, threads = { n = 0 } }, reason, site)
        by_key[key], list[#list + 1] = one, one
      end
      n, one.still, one.still_ns = n + 1, one.still + 1, one.still_ns + math.max(0, end_ns - row.at)
    end
  end
  return n
end

-- The site's whole stack with the most time, and through it what the site called.
local function add_stacks(by_key, group, stacks, reasons)
  for _, row in ipairs(group.rows) do
    local stack = row.stack and stacks[row.stack]
    local site = frames.site(stack)
    for _, reason in ipairs(reasons) do
      local one = by_key[reason .. " " .. frames.key(site)]
      if one and not one.stack then one.stack, one.api = frames.names(stack), site.api end
    end
  end
end

local function sources_of(group)
  local list = {}
  for i, row in ipairs(group.rows) do list[i] = group_of(row, source_name(row.source)) end
  table.sort(list, function(a, b) return a.reason < b.reason end)
  return list
end

--- The artifact, but for what every window has.
---@param result table     of the program
---@param end_ns integer
---@return WaitArtifact
function M.artifact(result, end_ns)
  local waits, locks, stacks = result.waits, result.locks, result.stacks
  local function reason_of(row) return source_name(row.source) end
  local function contention() return M.CONTENTION end
  local contending = {} -- thread -> since when
  for _, row in ipairs(locks.open_rows) do contending[row.thread] = row.at end
  local function inside(row) return contending[row.thread] ~= nil and row.at >= contending[row.thread] end

  local sites, by_key = sites_of(waits.by_site.rows, stacks, reason_of)
  local still = add_open(sites, by_key, waits.open_rows, stacks, end_ns, reason_of, inside)
  add_stacks(by_key, waits.by_stack, stacks, { SOURCES[0], SOURCES[1] })
  local contended, contended_by_key = sites_of(locks.by_site.rows, stacks, contention)
  add_open(contended, contended_by_key, locks.open_rows, stacks, end_ns, contention)
  local where = table.move(contended, 1, #contended, #sites + 1, { table.unpack(sites) })
  return {
    total = waits.pairs, total_ns = waits.total or 0, time = waits.time, threads = waits.threads.n, still = still,
    before = waits.unmatched, inside = { n = result.inside.pairs, total_ns = result.inside.total or 0 },
    sources = sources_of(waits.by_source), sites = ranked(sites), where = ranked(where),
  }
end

-- ---- to the wire -----------------------------------------------------------------------------------------------------------------

local function span(ns) return ns and numbers.timespan(ns / 1e6) end

local function listed(list, limit, row)
  local rows = json.array({})
  for i = 1, math.min(#list, limit or #list) do rows[i] = row(list[i]) end
  return rows
end

local SOURCE_ORDER <const> = { __order = {
  "source", "waits", "waitingThreads", "totalWaitDuration", "p50WaitDuration", "p95WaitDuration", "maxWaitDuration",
} }

--- WaitSourceGroup rows.
function M.sources(artifact)
  return listed(artifact.sources, nil, function(g)
    return setmetatable({
      source = g.reason, waits = g.n, waitingThreads = g.threads, totalWaitDuration = span(g.total_ns), p50WaitDuration = span(g.time.p50),
      p95WaitDuration = span(g.time.p95), maxWaitDuration = span(g.time.max),
    }, SOURCE_ORDER)
  end)
end

local function site_row(g, more)
  local row = {
    callSiteMethod = g.site.method, callSiteModule = g.site.module, waitMethod = g.api, waits = g.n, stillWaiting = g.still,
    totalWaitDuration = span(g.total_ns), p50WaitDuration = span(g.time.p50), p95WaitDuration = span(g.time.p95),
    maxWaitDuration = span(g.time.max), idle = g.idle or nil,
  }
  for name, value in pairs(more) do row[name] = value end
  return row
end

local SITE_ORDER <const> = { __order = {
  "callSiteMethod", "callSiteModule", "source", "waitMethod", "waits", "stillWaiting", "waitingThreads", "totalWaitDuration",
  "p50WaitDuration", "p95WaitDuration", "maxWaitDuration", "idle", "stack",
} }

--- WaitCallSiteGroup rows.
function M.call_sites(artifact, limit)
  return listed(artifact.sites, limit, function(g)
    return setmetatable(site_row(g, {
      source = g.reason, waitingThreads = g.threads,
      stack = g.stack and json.array({ table.unpack(g.stack, 1, math.min(#g.stack, M.STACK_FRAMES)) }),
    }), SITE_ORDER)
  end)
end

local WHERE_ORDER <const> = { __order = {
  "reason", "callSiteMethod", "callSiteModule", "waitMethod", "waits", "stillWaiting", "totalWaitDuration", "stillWaitingDuration", "share",
  "p50WaitDuration", "p95WaitDuration", "maxWaitDuration", "idle",
} }

--- All waiting of threads with something to do, ns: that which ended, and that which has not, so far.
function M.busy_ns(artifact)
  local sum = 0
  for _, g in ipairs(artifact.where) do sum = sum + (g.idle and 0 or weight(g)) end
  return sum
end

--- How many waits of threads that had nothing to do ended, and their time, ns.
function M.idle(artifact)
  local n, sum = 0, 0
  for _, g in ipairs(artifact.sites) do
    if g.idle then n, sum = n + g.n, sum + g.total_ns end
  end
  return n, sum
end

--- WhereThreadsWaitRow rows.
function M.where(artifact, limit)
  local all = M.busy_ns(artifact)
  return listed(artifact.where, limit, function(g)
    return setmetatable(site_row(g, {
      reason = g.reason, stillWaitingDuration = g.still > 0 and span(g.still_ns) or nil,
      share = not g.idle and all > 0 and numbers.round(weight(g) / all, 3) or nil,
    }), WHERE_ORDER)
  end)
end

local function totals(artifact, more)
  local payload = {
    totalWaits = artifact.total, totalWaitDuration = span(artifact.total_ns), p50WaitDuration = span(artifact.time.p50),
    p95WaitDuration = span(artifact.time.p95), maxWaitDuration = span(artifact.time.max), waitingThreads = artifact.threads,
    stillWaiting = artifact.still, waitsInsideContention = artifact.inside.n, durationInsideContention = span(artifact.inside.total_ns),
    bySource = M.sources(artifact), notes = json.array({ table.unpack(artifact.notes) }),
  }
  for name, value in pairs(more or {}) do payload[name] = value end
  return payload
end

local SNAPSHOT_ORDER <const> = { __order = {
  "processId", "startedAt", "duration", "totalWaits", "totalWaitDuration", "p50WaitDuration", "p95WaitDuration", "maxWaitDuration",
  "waitingThreads", "stillWaiting", "waitsInsideContention", "durationInsideContention", "bySource", "callSites", "notes", "cost",
} }

--- WaitHandleSnapshot.
---@param artifact WaitArtifact
---@param all boolean   all call sites, not only the first
function M.snapshot(artifact, all)
  return setmetatable(totals(artifact, {
    processId = artifact.process_id, startedAt = numbers.iso(artifact.started_unix_ms), duration = numbers.timespan(artifact.duration_ms),
    callSites = M.call_sites(artifact, not all and M.INLINE_SITES or nil), cost = artifact.cost,
  }), SNAPSHOT_ORDER)
end

--- WaitHandleSummaryView.
function M.summary(artifact) return totals(artifact) end

-- What the sentence says of the time: idle threads, those who still wait, and the place with the largest part of what was not idle.
local function parts(artifact)
  local idle, idle_ns = M.idle(artifact)
  local top, busy, said = artifact.sites[1], 0, {}
  for _, g in ipairs(artifact.sites) do busy = busy + (g.idle and 0 or weight(g)) end
  if idle > 0 then said[1] = ("; %.1f ms of it by idle threads of the runtime"):format(idle_ns / 1e6) end
  if artifact.still > 0 then
    said[#said + 1] = ("; %d more still wait%s"):format(artifact.still, artifact.still == 1 and "s" or "")
  end
  if top and not top.idle and busy > 0 and top.site.method ~= frames.UNKNOWN then
    said[#said + 1] = ("; %.0f %% of %s at %s"):format(100 * weight(top) / busy, #said > 0 and "what was not idle" or "it", top.site.method)
  end
  return table.concat(said)
end

--- One sentence.
function M.sentence(artifact, source)
  local what = source.path and "the recording" or ("process %d"):format(artifact.process_id)
  if artifact.total == 0 then
    return ("No wait on a handle ended in %s over %s%s."):format(what, numbers.span(artifact.duration_ms), parts(artifact))
  end
  return ("%d wait%s on handles by %d thread%s in %s over %s: %.1f ms in all, p95 %.1f ms, longest %.1f ms%s.")
    :format(artifact.total, artifact.total == 1 and "" or "s", artifact.threads, artifact.threads == 1 and "" or "s", what,
      numbers.span(artifact.duration_ms),
      artifact.total_ns / 1e6, (artifact.time.p95 or 0) / 1e6, (artifact.time.max or 0) / 1e6, parts(artifact))
end

return M
