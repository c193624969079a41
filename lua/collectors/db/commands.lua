-- SPDX-License-Identifier: MIT
-- Commands as they are kept: by statement without its values and by connection, whoever told of them. A command that both EF Core and
-- SqlClient tell of counts once.
local crypto = require("lunette.crypto")
local program = require("collectors.db.program")
local redaction = require("lunette.redaction")
local sys = require("lunette.sys")
local thresholds = require("lunette.thresholds")

local M = {}

M.UNKNOWN = "(unknown)"
M.GLOBAL = "global"
local NS_PER_MS <const> = 1e6
local HASH_BYTES <const> = 8

---@class DbCommand
---@field hash string
---@field sql string
---@field connection string
---@field providers string[]
---@field n integer
---@field total_ms number
---@field max_ms number
---@field p95_ms number
---@field first_unix_ns integer
---@field last_unix_ns integer
---@field failed integer

---@class DbScope
---@field scope string
---@field command DbCommand
---@field n integer
---@field first_unix_ns integer
---@field last_unix_ns integer
---@field providers string[]

local function clean(text) return redaction.redact(sys.utf8_sanitize(text)) end

local function sql_of(row)
  local sql = row.sql
  return type(sql) == "string" and sql ~= "" and clean(sql) or M.UNKNOWN
end

-- What identifies a connection. Its own string is never asked for: that is where the password is.
local function connection_of(row)
  local parts = {}
  if type(row.server) == "string" and row.server ~= "" then parts[#parts + 1] = "Data Source=" .. clean(row.server) end
  if type(row.db) == "string" and row.db ~= "" then parts[#parts + 1] = "Database=" .. clean(row.db) end
  return #parts > 0 and table.concat(parts, ";") or M.UNKNOWN
end

--- First 8 bytes of the SHA-256 of a statement without values, in capitals.
function M.hash(sql)
  return (crypto.sha256(sql):sub(1, HASH_BYTES):gsub(".", function(c) return ("%02X"):format(c:byte()) end))
end

--- trace:span of the activity that was current, or whatever else its id is.
function M.scope(id)
  if type(id) ~= "string" or id == "" then return M.GLOBAL end
  local trace, span = id:match("^%x%x%-(%x+)%-(%x+)%-%x%x$")
  if trace and #trace == 32 then return trace .. ":" .. span end
  return clean(id)
end

local function seen(into, row)
  into.first_unix_ns = math.min(into.first_unix_ns or row.first, row.first)
  into.last_unix_ns = math.max(into.last_unix_ns or row.last, row.last)
end

-- Rows of one who tells, by statement and connection.
local function fold(rows, provider)
  local map, order = {}, {}
  for _, row in ipairs(rows) do
    local sql, connection = sql_of(row), connection_of(row)
    local key = sql .. "\0" .. connection
    local c = map[key]
    if not c then
      c = {
        key = key, sql = sql, connection = connection, providers = { provider }, n = 0, total_ms = 0, max_ms = 0, p95_ms = 0, failed = 0,
      }
      map[key], order[#order + 1] = c, c
    end
    c.n, c.failed, c.total_ms = c.n + row.n, c.failed + row.failed, c.total_ms + (row.total or 0) / NS_PER_MS
    if row.ns.n > 0 then
      c.max_ms, c.p95_ms = math.max(c.max_ms, row.ns.max / NS_PER_MS), math.max(c.p95_ms, row.ns.p95 / NS_PER_MS)
    end
    seen(c, row)
  end
  return map, order
end

local function fold_scopes(rows, provider)
  local map, order = {}, {}
  for _, row in ipairs(rows) do
    local scope, key = M.scope(row.scope), sql_of(row) .. "\0" .. connection_of(row)
    local id = scope .. "\0" .. key
    local s = map[id]
    if not s then
      s = { id = id, key = key, scope = scope, n = 0, providers = { provider } }
      map[id], order[#order + 1] = s, s
    end
    s.n = s.n + row.n
    seen(s, row)
  end
  return map, order
end

-- What SqlClient tells of is EF Core's own command as often as EF Core tells of it; what is left over was run without EF Core.
local function join(commands, others)
  local twice = 0
  for _, other in ipairs(others.order) do
    local c = commands.map[other.key]
    if not c then
      commands.map[other.key] = other
      table.insert(commands.order, other)
    else
      local more = math.max(0, other.n - c.n)
      twice = twice + math.min(other.n, c.n)
      if more > 0 then
        c.total_ms = c.total_ms + more * other.total_ms / other.n
        c.max_ms, c.p95_ms = math.max(c.max_ms, other.max_ms), math.max(c.p95_ms, other.p95_ms)
        c.n = c.n + more
      end
      c.failed = math.max(c.failed, other.failed)
      c.providers[#c.providers + 1] = other.providers[1]
      seen(c, { first = other.first_unix_ns, last = other.last_unix_ns })
    end
  end
  return twice
end

local function join_scopes(scopes, others)
  for _, other in ipairs(others.order) do
    local s = scopes.map[other.id]
    if not s then
      scopes.map[other.id] = other
      table.insert(scopes.order, other)
    else
      s.n = math.max(s.n, other.n)
      s.providers[#s.providers + 1] = other.providers[1]
      seen(s, { first = other.first_unix_ns, last = other.last_unix_ns })
    end
  end
end

local function by_time(a, b)
  if a.total_ms ~= b.total_ms then return a.total_ms > b.total_ms end
  if a.n ~= b.n then return a.n > b.n end
  return a.hash < b.hash
end

local function by_count(a, b)
  if a.n ~= b.n then return a.n > b.n end
  if a.scope ~= b.scope then return a.scope < b.scope end
  return a.command.hash < b.command.hash
end

local function repeated(scopes, by_key)
  local list, most = {}, thresholds.of("db.repeats").more_than
  for _, s in ipairs(scopes) do
    if s.n > most then
      s.command = by_key[s.key]
      if s.command then list[#list + 1] = s end -- else: the statement is among those that no row was left for
    end
  end
  table.sort(list, by_count)
  return list
end

local function left_out(told)
  local group = told.by_command
  return group.other and group.other.n or 0, group.evicted > 0 or told.by_scope.evicted > 0
end

--- Commands and incidents of a run.
---@param result table   of probe.run
---@return { total: integer, commands: DbCommand[], incidents: DbScope[], twice: integer, failed: integer, left_out: integer,
---  full: boolean, more_than: number }   more_than: repetitions under one parent that are no incident yet
function M.of(result)
  local client = result.sql_client.all > 0 and result.sql_client or result.event_source
  local commands, scopes, others, other_scopes = {}, {}, {}, {}
  commands.map, commands.order = fold(result.ef.by_command.rows, program.EF)
  scopes.map, scopes.order = fold_scopes(result.ef.by_scope.rows, program.EF)
  others.map, others.order = fold(client.by_command.rows, program.SQL_CLIENT)
  other_scopes.map, other_scopes.order = fold_scopes(client.by_scope.rows, program.SQL_CLIENT)
  local twice = join(commands, others)
  join_scopes(scopes, other_scopes)
  local total, failed = 0, 0
  for _, c in ipairs(commands.order) do
    c.hash, total, failed = M.hash(c.sql), total + c.n, failed + c.failed
  end
  table.sort(commands.order, by_time)
  local rest, full = left_out(result.ef)
  local more, also_full = left_out(client)
  return {
    total = total + rest + more, commands = commands.order, incidents = repeated(scopes.order, commands.map), twice = twice,
    failed = failed, left_out = rest + more, full = full or also_full, more_than = thresholds.of("db.repeats").more_than,
  }
end

return M
