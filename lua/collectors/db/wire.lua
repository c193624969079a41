-- SPDX-License-Identifier: MIT
-- Database commands as answers show them.
local json = require("lunette.json")
local numbers = require("lunette.numbers")
local sys = require("lunette.sys")

local M = {}

M.SUMMARY_ROWS = 5
M.MAX_INLINE = 100      -- at Detail; the handle has all
local MAX_SQL <const> = 1000 -- bytes of a statement in a row

local COMMAND <const> = { __order = {
  "commandTextHash", "commandTextSanitized", "connectionStringSanitized", "providers", "count", "totalMs", "maxMs", "p95Ms", "firstSeenAt",
  "lastSeenAt",
} }
local INCIDENT <const> = { __order = {
  "scopeId", "commandTextHash", "commandTextSanitized", "connectionStringSanitized", "providers", "count", "firstSeenAt", "lastSeenAt",
} }
local POOL <const> = { __order = {
  "provider", "latestOpenConnections", "maxOpenConnections", "latestPooledConnections", "maxPooledConnections", "poolExhaustedCount",
  "notes",
} }
local SNAPSHOT <const> = { __order = {
  "processId", "startedAt", "duration", "totalCommands", "byCommand", "nPlusOne", "connectionPool", "notes", "cost",
} }

local function at(ns) return numbers.iso(ns // 1000000) end
local function shown(sql) return #sql <= MAX_SQL and sql or sys.utf8_cut(sql, MAX_SQL - 3) .. "..." end
local function list_of(texts) return json.array({ table.unpack(texts) }) end

local function rows_of(list, limit, row)
  local rows = json.array({})
  for i = 1, math.min(limit or math.huge, #list) do rows[i] = row(list[i]) end
  return rows
end

--- Commands, most time first.
function M.commands(artifact, limit)
  return rows_of(artifact.commands, limit, function(c)
    return setmetatable({
      commandTextHash = c.hash, commandTextSanitized = shown(c.sql), connectionStringSanitized = c.connection,
      providers = list_of(c.providers), count = c.n, totalMs = numbers.round(c.total_ms, 3), maxMs = numbers.round(c.max_ms, 3),
      p95Ms = numbers.round(c.p95_ms, 3), firstSeenAt = at(c.first_unix_ns), lastSeenAt = at(c.last_unix_ns),
    }, COMMAND)
  end)
end

--- Incidents, most often repeated first.
function M.incidents(artifact, limit)
  return rows_of(artifact.incidents, limit, function(s)
    return setmetatable({
      scopeId = s.scope, commandTextHash = s.command.hash, commandTextSanitized = shown(s.command.sql),
      connectionStringSanitized = s.command.connection, providers = list_of(s.providers), count = s.n, firstSeenAt = at(s.first_unix_ns),
      lastSeenAt = at(s.last_unix_ns),
    }, INCIDENT)
  end)
end

--- Pools by provider.
function M.pools(artifact, limit)
  return rows_of(artifact.pools, limit, function(p)
    return setmetatable({
      provider = p.provider, latestOpenConnections = p.open.last, maxOpenConnections = p.open.max, latestPooledConnections = p.pooled.last,
      maxPooledConnections = p.pooled.max, poolExhaustedCount = p.exhausted, notes = list_of(p.notes),
    }, POOL)
  end)
end

--- DbSnapshot.
---@param artifact DbArtifact
---@param depth string
function M.snapshot(artifact, depth)
  local limit = depth == "Summary" and M.SUMMARY_ROWS or M.MAX_INLINE
  local notes = list_of(artifact.notes)
  local function inline(rows, all, what, view)
    if #all > #rows then
      notes[#notes + 1] = ("Inline: the first %d of %d %s; all are behind the handle: query_snapshot(view=\"%s\").")
        :format(#rows, #all, what, view)
    end
    return rows
  end
  return setmetatable({
    processId = artifact.process_id, startedAt = numbers.iso(artifact.started_unix_ms), duration = numbers.timespan(artifact.duration_ms),
    totalCommands = artifact.total, byCommand = inline(M.commands(artifact, limit), artifact.commands, "statements", "byCommand"),
    nPlusOne = inline(M.incidents(artifact, limit), artifact.incidents, "incidents", "n+1"), connectionPool = M.pools(artifact),
    notes = notes, cost = artifact.cost,
  }, SNAPSHOT)
end

return M
