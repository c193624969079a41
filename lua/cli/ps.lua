-- SPDX-License-Identifier: MIT
-- ps: lists the .NET processes of this machine as a table, and why the others cannot be reached.
local json = require("lunette.json")
local options = require("lunette.options")
local proc = require("lunette.proc")
local process = require("lunette.process")
local sys = require("lunette.sys")
local terminal = require("lunette.terminal")

local M = {}

M.summary = "list the .NET processes of this machine"
M.help = [[
usage: lunette ps [--filter TEXT] [--json | --pids]

Lists the .NET processes that can be reached, and names each one that is seen but cannot be, with the cause and the cure.

  --filter TEXT  only processes whose command line contains TEXT, in any letter case
  --json         one JSON object: {"processes":[...],"unreachable":[...]}
  --pids         just the ids of those that can be reached, one a line, for scripts

Columns: PID, VERSION of the runtime, PROGRAM (entry assembly), RSS, CPU% (of one core, mean since its start, as ps(1) has it),
THR (its threads), CONT (yes: in a container of cgroup v2), COMMAND LINE.
]]

local ROW_ORDER <const> = { __order = {
  "processId", "commandLine", "operatingSystem", "processArchitecture", "runtimeVersion", "managedEntrypointAssemblyName", "rssBytes",
  "cpuPercent", "threads", "inContainer", "cgroupPath", "uid" } }
local MIN_COMMAND <const> = 20 -- columns that a command line keeps on a narrow terminal

--- CPU time over life time, in percent of one core; nil when the process is too young to tell.
---@param stat table
---@param clock table
function M.cpu_percent(stat, clock)
  local life_ms = clock.uptime_ms - stat.start_time * 1000 // clock.ticks_per_s
  if life_ms < 100 then return nil end
  return (stat.user_ticks + stat.system_ticks) * 1000 / clock.ticks_per_s / life_ms * 100
end

--- A row: the record of a process, and what the kernel says of it. nil when it ended meanwhile.
local function row_of(endpoint, clock)
  local stat, status, group = proc.stat(endpoint.pid), proc.status(endpoint.pid), proc.cgroup(endpoint.pid)
  if not stat or not status then return nil end
  local row = {}
  for name, value in pairs(process.record(endpoint.pid, endpoint.info)) do row[name] = value end
  local cpu = M.cpu_percent(stat, clock)
  row.rssBytes, row.threads, row.uid = status.rss_bytes, stat.threads, status.euid
  row.cpuPercent = cpu and math.floor(cpu * 10 + 0.5) / 10
  row.inContainer, row.cgroupPath = group and group.in_container, group and group.path
  return setmetatable(row, ROW_ORDER)
end

local COLUMNS <const> = {
  { "PID", true, function(r) return tostring(r.processId) end },
  { "VERSION", false, function(r) return r.runtimeVersion end },
  { "PROGRAM", false, function(r) return r.managedEntrypointAssemblyName or "-" end },
  { "RSS", true, function(r) return r.rssBytes and ("%.1f MB"):format(r.rssBytes / 1048576) or "-" end },
  { "CPU%", true, function(r) return r.cpuPercent and ("%.1f"):format(r.cpuPercent) or "-" end },
  { "THR", true, function(r) return tostring(r.threads) end },
  { "CONT", false, function(r) return r.inContainer == nil and "-" or r.inContainer and "yes" or "no" end },
  { "COMMAND LINE", false, function(r) return r.commandLine end },
}

local function pad(s, width, right)
  local fill = (" "):rep(width - (utf8.len(s) or #s))
  return right and fill .. s or s .. fill
end

--- The table as text. width: columns of the terminal, or nil for no limit.
---@param rows table[]
---@param width? integer
function M.render(rows, width)
  local cells, widths = { {} }, {}
  for i, column in ipairs(COLUMNS) do cells[1][i], widths[i] = column[1], #column[1] end
  for _, row in ipairs(rows) do
    local line = {}
    for i, column in ipairs(COLUMNS) do
      line[i] = terminal.printable(column[3](row))
      widths[i] = math.max(widths[i], utf8.len(line[i]) or #line[i])
    end
    cells[#cells + 1] = line
  end
  local before = 0
  for i = 1, #COLUMNS - 1 do before = before + widths[i] + 2 end
  local lines = {}
  for n, line in ipairs(cells) do
    local parts = {}
    for i = 1, #COLUMNS - 1 do parts[i] = pad(line[i], widths[i], COLUMNS[i][2]) end
    parts[#COLUMNS] = width and terminal.cut(line[#COLUMNS], math.max(MIN_COMMAND, width - before)) or line[#COLUMNS]
    lines[n] = table.concat(parts, "  ")
  end
  return table.concat(lines, "\n") .. "\n"
end

--- The processes that cannot be reached, one a paragraph.
function M.render_unreachable(list)
  if #list == 0 then return "" end
  local lines = { ("\nSeen but out of reach (%d):"):format(#list) }
  for _, endpoint in ipairs(list) do
    local why = ("  %d  %s: %s"):format(endpoint.pid, endpoint.cause or "unreachable", endpoint.message or "no reason")
    lines[#lines + 1] = terminal.printable(why)
    if endpoint.hint then lines[#lines + 1] = terminal.printable("      do: " .. endpoint.hint) end
  end
  return table.concat(lines, "\n") .. "\n"
end

local function as_json(rows, found)
  local unreachable = {}
  for i, endpoint in ipairs(found.unreachable) do
    unreachable[i] = {
      processId = endpoint.pid, uid = endpoint.uid, cause = endpoint.cause, message = endpoint.message, hint = endpoint.hint,
    }
  end
  return json.encode(setmetatable({ processes = json.array(rows), unreachable = json.array(unreachable), dropped = found.dropped },
    { __order = { "processes", "unreachable", "dropped" } })) .. "\n"
end

local function as_text(rows, found, filter)
  local text
  if #rows > 0 then
    text = M.render(rows, sys.isatty(1) and tonumber(sys.getenv("COLUMNS") or "") or nil)
  elseif filter then
    text = ("No .NET process whose command line contains \"%s\" (%d without the filter).\n")
      :format(terminal.printable(filter), #found.reachable)
  else
    text = "No .NET process can be reached.\n"
  end
  if found.dropped > 0 then text = text .. ("%d more .NET processes were not looked at.\n"):format(found.dropped) end
  return text .. M.render_unreachable(found.unreachable)
end

--- lunette ps. 0 also when there is none: that is an answer.
---@param args string[]
function M.main(args)
  local given, err = options.parse(args, { ["--filter"] = "value", ["--json"] = "flag", ["--pids"] = "flag" })
  if not given then return terminal.usage("ps", err) end
  if #given > 0 then return terminal.usage("ps", "ps takes no operand: " .. given[1]) end
  local found
  found, err = process.discover()
  if not found then return terminal.fail("ps", err) end
  if given.pids then
    for _, endpoint in ipairs(process.filter(found, given.filter)) do sys.write(endpoint.pid .. "\n") end
    return 0
  end
  local rows, clock = {}, proc.clock()
  for _, endpoint in ipairs(process.filter(found, given.filter)) do rows[#rows + 1] = row_of(endpoint, clock) end
  sys.write(given.json and as_json(rows, found) or as_text(rows, found, given.filter))
  return 0
end

return M
