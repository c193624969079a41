-- SPDX-License-Identifier: MIT
-- What a window of contention holds, and how its rows look on the wire.
local frames = require("collectors.waits.frames")
local json = require("lunette.json")
local numbers = require("lunette.numbers")

local M = {}

M.STACK_FRAMES = 8 -- of an owner's stack in a row

-- ---- from the engine -------------------------------------------------------------------------------------------------------------

---@class ContentionSite
---@field site WaitSite
---@field n integer
---@field total_ns number
---@field max_ns number
---@field monitors integer
---@field owners integer

---@class ContentionArtifact
---@field total integer           contentions that ended in the window
---@field monitors integer
---@field total_ns number
---@field time table              quantiles, ns: p50, p95, max
---@field events table[]          the longest, longest first
---@field sites ContentionSite[]
---@field owners table[]
---@field locks table[]           those who made others wait longest first
---@field followed integer        contentions whose owners were followed
---@field still { n: integer, longest_ns: integer }   that had not ended
---@field before integer          that had begun before the window
---@field start_unix_ns integer

local function sites_of(group, stacks, monitors)
  local list, by_key = {}, {}
  for _, row in ipairs(group.rows) do
    local site = frames.site(row.stack and stacks[row.stack])
    local key = frames.key(site)
    local one = by_key[key]
    if one then -- frames without names are one site; what they have in common of locks and owners is not known
      one.n, one.total_ns, one.max_ns = one.n + row.n, one.total_ns + (row.total or 0), math.max(one.max_ns, row.max or 0)
      one.monitors, one.owners = math.min(monitors, one.monitors + row.monitors.n), one.owners + row.owners.n
    else
      one = {
        site = site, n = row.n, total_ns = row.total or 0, max_ns = row.max or 0, monitors = row.monitors.n, owners = row.owners.n,
      }
      by_key[key], list[#list + 1] = one, one
    end
  end
  table.sort(list, function(a, b)
    if a.total_ns ~= b.total_ns then return a.total_ns > b.total_ns end
    if a.n ~= b.n then return a.n > b.n end
    return a.site.method < b.site.method
  end)
  return list
end

-- The runtime writes 0 for an owner that it does not know.
local function owner_id(id) return id ~= 0 and id or nil end

local function owners_of(group)
  local list = {}
  for i, row in ipairs(group.rows) do
    list[i] = {
      owner = owner_id(row.owner), n = row.n, total_ns = row.total or 0, max_ns = row.max or 0, monitors = row.monitors.n,
    }
  end
  table.sort(list, function(a, b)
    if a.total_ns ~= b.total_ns then return a.total_ns > b.total_ns end
    return (a.owner or -1) < (b.owner or -1)
  end)
  return list
end

local function events_of(rows, stacks)
  local list = {}
  for i, row in ipairs(rows) do
    list[i] = {
      start_ns = row.at, stop_ns = row.stop, ns = row.ns, thread = row.thread, owner = owner_id(row.owner), lock = row.lock or 0,
      object = row.object or 0, site = frames.site(row.stack and stacks[row.stack]),
    }
  end
  return list
end

local function still_of(open_rows, end_ns)
  local still, by_lock = { n = 0, longest_ns = 0 }, {}
  for _, row in ipairs(open_rows) do
    if row.flags == 0 then
      local ns, lock = math.max(0, end_ns - row.at), row.lock or 0
      still.n, still.longest_ns = still.n + 1, math.max(still.longest_ns, ns)
      by_lock[lock] = by_lock[lock] or { n = 0, ns = 0 }
      by_lock[lock].n, by_lock[lock].ns = by_lock[lock].n + 1, by_lock[lock].ns + ns
    end
  end
  return still, by_lock
end

local function wait_sites(group, stacks)
  local list = {}
  for i, row in ipairs(group.rows) do
    list[i] = { site = frames.site(row.stack and stacks[row.stack]), n = row.n, total_ns = row.total or 0 }
  end
  return list
end

-- Locks that others waited for, with those that they still wait for.
local function locks_of(group, stacks, blamed, open)
  local list, there = {}, {}
  local function add(lock, row)
    there[lock] = true
    local waiting, who = open[lock] or { n = 0, ns = 0 }, blamed[lock] or { owners = {}, blocked_ns = 0 }
    list[#list + 1] = {
      lock = lock, object = row and row.object, n = row and row.n or 0, total_ns = row and row.total or 0, max_ns = row and row.max or 0,
      threads = row and row.threads.n or 0, sites = row and wait_sites(row.sites, stacks) or {}, still = waiting.n, still_ns = waiting.ns,
      owners = who.owners, followed_ns = who.blocked_ns,
    }
  end
  for _, row in ipairs(group.rows) do add(row.lock or 0, row) end
  for lock in pairs(open) do
    if not there[lock] then add(lock) end
  end
  table.sort(list, function(a, b)
    local x, y = a.total_ns + a.still_ns, b.total_ns + b.still_ns
    if x ~= y then return x > y end
    return a.lock < b.lock
  end)
  return list
end

--- The artifact, but for what every window has.
---@param result table     of the program
---@param blamed table     of collectors.contention.blame
---@param end_ns integer
---@return ContentionArtifact
function M.artifact(result, blamed, end_ns)
  local locks, stacks = result.locks, result.stacks
  local still, open = still_of(locks.open_rows, end_ns)
  return {
    total = locks.pairs, monitors = locks.monitors.n, total_ns = locks.total or 0, time = locks.time,
    events = events_of(locks.longest.rows, stacks), sites = sites_of(locks.by_site, stacks, locks.monitors.n),
    owners = owners_of(locks.by_owner), locks = locks_of(locks.by_lock, stacks, blamed, open), followed = #locks.followed.rows,
    still = still, before = locks.unmatched,
  }
end

-- ---- to the wire -----------------------------------------------------------------------------------------------------------------

local function span(ns) return numbers.timespan((ns or 0) / 1e6) end

local function listed(list, limit, row)
  local rows = json.array({})
  for i = 1, math.min(#list, limit or #list) do rows[i] = row(list[i]) end
  return rows
end

local EVENT_ORDER <const> = { __order = {
  "startedAt", "stoppedAt", "duration", "contendingThreadId", "ownerManagedThreadId", "lockId", "associatedObjectId", "callSiteMethod",
  "callSiteModule",
} }

local function event_row(artifact)
  return function(e)
    return setmetatable({
      startedAt = numbers.iso((artifact.start_unix_ns + e.start_ns) / 1e6),
      stoppedAt = numbers.iso((artifact.start_unix_ns + e.stop_ns) / 1e6),
      duration = span(e.ns), contendingThreadId = e.thread, ownerManagedThreadId = e.owner, lockId = numbers.address(e.lock),
      associatedObjectId = numbers.address(e.object), callSiteMethod = e.site.method, callSiteModule = e.site.module,
    }, EVENT_ORDER)
  end
end

--- ContentionEventSample rows, the longest first.
function M.events(artifact, limit) return listed(artifact.events, limit, event_row(artifact)) end

local SNAPSHOT_ORDER <const> = { __order = {
  "processId", "startedAt", "duration", "totalEvents", "distinctMonitors", "totalContentionDuration", "p50ContentionDuration",
  "p95ContentionDuration", "maxContentionDuration", "events", "notes", "cost",
} }

--- ContentionSnapshot.
---@param artifact ContentionArtifact
---@param with_events boolean
function M.snapshot(artifact, with_events)
  return setmetatable({
    processId = artifact.process_id, startedAt = numbers.iso(artifact.started_unix_ms), duration = numbers.timespan(artifact.duration_ms),
    totalEvents = artifact.total, distinctMonitors = artifact.monitors, totalContentionDuration = span(artifact.total_ns),
    p50ContentionDuration = span(artifact.time.p50), p95ContentionDuration = span(artifact.time.p95),
    maxContentionDuration = span(artifact.time.max),
    events = with_events and M.events(artifact) or json.array({}),
    notes = json.array({ table.unpack(artifact.notes) }), cost = artifact.cost,
  }, SNAPSHOT_ORDER)
end

--- ContentionSummaryView.
function M.summary(artifact)
  return {
    totalEvents = artifact.total, contendedMonitorCount = artifact.monitors, totalContentionDuration = span(artifact.total_ns),
    p50ContentionDuration = span(artifact.time.p50), p95ContentionDuration = span(artifact.time.p95),
    maxContentionDuration = span(artifact.time.max), notes = json.array({ table.unpack(artifact.notes) }),
  }
end

local SITE_ORDER <const> = { __order = {
  "callSiteMethod", "callSiteModule", "eventCount", "distinctMonitors", "distinctOwnerThreads", "totalContentionDuration",
  "maxContentionDuration",
} }

--- ContentionCallSiteGroup rows.
function M.call_sites(artifact, limit)
  return listed(artifact.sites, limit, function(s)
    return setmetatable({
      callSiteMethod = s.site.method, callSiteModule = s.site.module, eventCount = s.n, distinctMonitors = s.monitors,
      distinctOwnerThreads = s.owners, totalContentionDuration = span(s.total_ns), maxContentionDuration = span(s.max_ns),
    }, SITE_ORDER)
  end)
end

local OWNER_ORDER <const> = { __order = {
  "ownerManagedThreadId", "eventCount", "distinctMonitors", "totalContentionDuration", "maxContentionDuration",
} }

--- ContentionOwnerGroup rows.
function M.owners(artifact, limit)
  return listed(artifact.owners, limit, function(o)
    return setmetatable({
      ownerManagedThreadId = o.owner, eventCount = o.n, distinctMonitors = o.monitors, totalContentionDuration = span(o.total_ns),
      maxContentionDuration = span(o.max_ns),
    }, OWNER_ORDER)
  end)
end

local BLAMED_ORDER <const> = { __order = {
  "evidence", "ownerThreadIds", "tenures", "blockedDuration", "share", "lateBy", "maxLateBy", "callSiteMethod", "callSiteModule", "stack",
} }

local function blamed_row(lock)
  return function(b)
    return setmetatable({
      evidence = b.evidence, ownerThreadIds = json.array({ table.unpack(b.owners) }), tenures = b.tenures,
      blockedDuration = span(b.blocked_ns), share = lock.followed_ns > 0 and numbers.round(b.blocked_ns / lock.followed_ns, 3) or 0,
      lateBy = b.late_ns and span(b.late_ns), maxLateBy = b.max_late_ns and span(b.max_late_ns),
      callSiteMethod = b.site.method, callSiteModule = b.site.module,
      stack = b.stack and json.array({ table.unpack(b.stack, 1, math.min(#b.stack, M.STACK_FRAMES)) }),
    }, BLAMED_ORDER)
  end
end

local LOCK_ORDER <const> = { __order = {
  "lockId", "associatedObjectId", "eventCount", "stillWaiting", "waitingThreads", "totalContentionDuration", "maxContentionDuration",
  "waitingAt", "owners",
} }
local WAITING_ORDER <const> = { __order = { "callSiteMethod", "callSiteModule", "eventCount", "totalContentionDuration" } }

--- ContentionBlame rows.
function M.blame(artifact, limit)
  return listed(artifact.locks, limit, function(lock)
    return setmetatable({
      lockId = numbers.address(lock.lock), associatedObjectId = lock.object and numbers.address(lock.object), eventCount = lock.n,
      stillWaiting = lock.still, waitingThreads = lock.threads, totalContentionDuration = span(lock.total_ns),
      maxContentionDuration = span(lock.max_ns),
      waitingAt = listed(lock.sites, nil, function(s)
        return setmetatable({
          callSiteMethod = s.site.method, callSiteModule = s.site.module, eventCount = s.n, totalContentionDuration = span(s.total_ns),
        }, WAITING_ORDER)
      end),
      owners = listed(lock.owners, nil, blamed_row(lock)),
    }, LOCK_ORDER)
  end)
end

--- One sentence.
function M.sentence(artifact, source)
  local what = source.path and "the recording" or ("process %d"):format(artifact.process_id)
  local top = artifact.sites[1]
  if not top then return ("No lock contention ended in %s over %s."):format(what, numbers.span(artifact.duration_ms)) end
  local part = artifact.total_ns > 0 and top.site.method ~= frames.UNKNOWN
    and ("; %.0f %% of it at %s"):format(100 * top.total_ns / artifact.total_ns, top.site.method) or ""
  return ("%d lock contention%s on %d lock%s in %s over %s: %.1f ms in all, p95 %.1f ms, longest %.1f ms%s.")
    :format(artifact.total, artifact.total == 1 and "" or "s", artifact.monitors, artifact.monitors == 1 and "" or "s", what,
      numbers.span(artifact.duration_ms), artifact.total_ns / 1e6, (artifact.time.p95 or 0) / 1e6, (artifact.time.max or 0) / 1e6, part)
end

return M
