-- SPDX-License-Identifier: MIT
-- What the db collector asks of the target and of the engine: commands that EF Core and SqlClient tell of, by statement without its values,
-- and the counters of SqlClient's pools. A statement loses its values before anything is kept of it.
local bridge = require("collectors.diagnostic_source")
local probe = require("lunette.probe")

local M = {}

M.EF, M.SQL_CLIENT = "EntityFrameworkCore", "SqlClient"
M.SOURCES = { "Microsoft.Data.SqlClient.EventSource", "System.Data.SqlClient.EventSource" }
M.MAX_COMMANDS = 2000 -- statements on a connection, that are told apart
M.MAX_SCOPES = 8192   -- statements under a parent, that are told apart
M.TOP_SCOPES = 2000   -- of them, those most often repeated are kept
M.PERCENTILE = 95
local MEMORY_MAX <const> = 64 << 20
local EXECUTION <const> = 0x1
local LEVEL <const> = 4
local MAX_COUNTERS <const> = 64
local COMMAND <const> = "Sql=Command.CommandText;Db=Command.Connection.Database;Server=Command.Connection.DataSource;"
  .. "ActivityId=*Activity.Id"
local EF_EVENT <const> = "Microsoft.EntityFrameworkCore.Database.Command."

local function lines_of_ef(lines)
  for _, name in ipairs { "CommandExecuted", "CommandError", "CommandCanceled" } do
    lines[#lines + 1] = ("Microsoft.EntityFrameworkCore/%s%s:-DurationTicks=Duration.Ticks;%s"):format(EF_EVENT, name, COMMAND)
  end
end

local function lines_of_sql_client(lines, prefix)
  local function line(name, what) lines[#lines + 1] = ("SqlClientDiagnosticListener/%s%s:-%s"):format(prefix, name, what) end
  line("WriteCommandBefore", "OperationId;" .. COMMAND)
  line("WriteCommandAfter", "OperationId")
  line("WriteCommandError", "OperationId")
  line("WriteConnectionOpenError", "Error=Exception.Message")
end

local function lines()
  -- the first line sends nothing: with it a web server makes an activity of each request, under which its commands are seen
  local list = { "Microsoft.AspNetCore/Microsoft.AspNetCore.Hosting.HttpRequestIn:-" }
  lines_of_ef(list)
  lines_of_sql_client(list, "Microsoft.Data.SqlClient.")
  lines_of_sql_client(list, "System.Data.SqlClient.")
  return list
end

M.LINES = lines()

local SQL <const> = "sql(Arguments.Sql)"

local function scope(prefix)
  return ("coalesce(%sArguments.ActivityId, '')"):format(prefix)
end

-- Reducers over commands, each with its time in ns; alike for all three who tell of them.
local function commands(ns, keys, scope_key, failed)
  local with_scope = { scope = scope_key }
  for k, v in pairs(keys) do with_scope[k] = v end
  local seen = { first = probe.min("@unix"), last = probe.max("@unix") }
  return {
    all = probe.count(),
    by_command = probe.group {
      by = keys, weight = ns, max = M.MAX_COMMANDS, top = M.MAX_COMMANDS,
      keep = {
        n = probe.count(), ns = probe.quantiles(ns, { M.PERCENTILE }), total = probe.sum(ns), failed = probe.count { where = failed },
        first = seen.first, last = seen.last,
      },
    },
    by_scope = probe.group {
      by = with_scope, max = M.MAX_SCOPES, top = M.TOP_SCOPES,
      keep = { n = probe.count(), first = seen.first, last = seen.last },
    },
  }
end

local EF_NS <const> = "number(Arguments.DurationTicks) * 100"

local function ef()
  return probe.filter {
    on = "listener", where = ('SourceName == "Microsoft.EntityFrameworkCore" and starts(EventName, "%s") and Arguments.Sql != null')
      :format(EF_EVENT),
    keep = commands(EF_NS, { sql = SQL, server = "Arguments.Server", db = "Arguments.Db" }, scope(""),
      'not ends(EventName, "CommandExecuted")'),
  }
end

-- Both ends of a command are the same kind of event: which it is says the key, which the other has not.
local function sql_client()
  local ours = 'SourceName == "SqlClientDiagnosticListener"'
  local function key(what) return ("if(%s and (%s), Arguments.OperationId, null)"):format(ours, what) end
  return probe.pair {
    start = "listener", stop = "listener",
    by = {
      start = key('ends(EventName, "WriteCommandBefore") and Arguments.Sql != null'),
      stop = key('ends(EventName, "WriteCommandAfter") or ends(EventName, "WriteCommandError")'),
    },
    keep = commands("@duration", { sql = "sql(start.Arguments.Sql)", server = "start.Arguments.Server", db = "start.Arguments.Db" },
      scope("start."), 'ends(EventName, "WriteCommandError")'),
  }
end

local function event_source()
  return probe.pair {
    start = "execute", stop = "executed", by = "objectId",
    keep = commands("@duration", { sql = "sql(start.commandText)", server = "start.dataSource", db = "start.database" },
      "coalesce(start.@activity, '')", "not bit(compositestate, 1)"),
  }
end

local function field(name) return ("coalesce(Payload.%s, %s)"):format(name, name) end

--- The program of a window.
---@param interval_s integer
function M.new(interval_s)
  local providers = { bridge.provider(M.LINES) }
  local events = { listener = bridge.EVENTS, message = bridge.MESSAGE, execute = {}, executed = {}, counter = {} }
  for i, name in ipairs(M.SOURCES) do
    providers[#providers + 1] = {
      name = name, keywords = EXECUTION, level = LEVEL, args = ("EventCounterIntervalSec=%d"):format(interval_s),
    }
    events.execute[i], events.executed[i], events.counter[i] = name .. "/#1", name .. "/#2", name .. "/EventCounters"
  end
  return probe.program {
    name = "db", memory_max = MEMORY_MAX, providers = providers, events = events,
    keep = {
      ef = ef(), sql_client = sql_client(), event_source = event_source(), settings = bridge.settings("message"),
      listened = probe.count { on = "listener" },
      exhausted = probe.group {
        on = "listener", by = { event = "EventName" }, max = 16,
        where = [[ends(EventName, "WriteConnectionOpenError") and contains(Arguments.Error, "obtaining a connection from the pool")]],
        keep = { n = probe.count() },
      },
      counters = probe.group {
        by = { provider = "@provider", name = field("Name") }, on = "counter", max = MAX_COUNTERS, top = MAX_COUNTERS,
        keep = { last = probe.value(field("Mean")), max = probe.max(field("Mean")) },
      },
    },
  }
end

return M
