-- SPDX-License-Identifier: MIT
-- doctor: is this host, and this process, ready to be diagnosed; what is in the way, and the fix to paste.
local config = require("lunette.config")
local hits = require("lunette.hits")
local json = require("lunette.json")
local memory = require("lunette.memory")
local options = require("lunette.options")
local preflight = require("views.process.preflight")
local process = require("lunette.process")
local readiness = require("lunette.readiness")
local site = require("lunette.site")
local sys = require("lunette.sys")
local terminal = require("lunette.terminal")

local M = {}

M.summary = "tell what is in the way of diagnosing, with the fix"
M.help = [[
usage: lunette doctor [PID] [--json] [--site DIR]

Checks what this host lets lunette do and, with a PID, whether that process can be reached. Each check that is not ok comes with a fix to
paste. Site scripts that are broken are named with file and line (lunette check finds more).
Exit code: 0, or 1 when something is blocked (degraded are optional collectors and broken site scripts), 2 for a wrong command line.

  --json         the PreflightReport of inspect_process(view="preflight"); with site scripts, their state in its field scripts
  --site DIR     a folder of site scripts, above /etc/lunette and ~/.config/lunette; may be given several times
  --config FILE  a Lua configuration file
]]

local EXIT_BLOCKED <const> = 1
local STALE_TOLD <const> = 32 -- of probes in one command
local MARK <const> = { Ok = "ok       ", Degraded = "DEGRADED ", Blocked = "BLOCKED  ", NotApplicable = "-        " }

--- The report as people read it.
---@param report table        PreflightReport
---@param unreachable table[]  endpoints that cannot be reached, when no process was given
function M.render(report, unreachable)
  local lines = {}
  for _, check in ipairs(report.checks) do
    lines[#lines + 1] = MARK[check.status] .. check.title .. " [" .. check.id .. "]"
    lines[#lines + 1] = "         " .. check.reason
    if check.remediation then
      lines[#lines + 1] = "         fix: " .. check.remediation
      lines[#lines + 1] = "         for: " .. table.concat(check.affectedTools, ", ")
    end
  end
  if #unreachable > 0 then
    lines[#lines + 1] = ".NET processes that are seen but out of reach:"
    for _, endpoint in ipairs(unreachable) do lines[#lines + 1] = "         " .. process.why_not(endpoint) end
  end
  for i, line in ipairs(lines) do lines[i] = terminal.printable(line) end
  lines[#lines + 1] = "overall: " .. report.overall
  return table.concat(lines, "\n") .. "\n"
end

--- Probes that a process of ours left behind which was killed: they cost whoever calls the function some time, until a server starts.
---@return table? check   of a PreflightReport
local function stale_probes()
  local stale = hits.stale()
  if #stale == 0 then return nil end
  local words = {}
  for i = 1, math.min(#stale, STALE_TOLD) do words[i] = stale[i] end
  return {
    id = "stale-probes", title = "Probes left behind", status = "Degraded",
    reason = ("%d probes in tracefs are of a lunette that was killed; the next lunette serve, and the next native-alloc or "
      .. "native-lock-contention, remove them"):format(#stale),
    remediation = ("sudo sh -c 'for p in %s; do echo $p >> /sys/kernel/tracing/uprobe_events; done'"):format(table.concat(words, " ")),
    affectedTools = json.array({ 'collect_sample(kind="native-alloc")', 'collect_sample(kind="native-lock-contention")' }),
  }
end

--- That what reads hostile bytes is not confined: nothing fails for it.
---@return table? check   of a PreflightReport
local function unconfined()
  local confined = readiness.confined { confines = memory.confines() }
  if confined.ok then return nil end
  return {
    id = "worker-confinement", title = "Confinement of workers (seccomp)", status = "Degraded", reason = confined.reason,
    remediation = confined.fix,
    affectedTools = json.array({ "collect_thread_snapshot", "inspect_heap", "capture_method_bytes" }),
  }
end

--- What is to be told of the site's scripts; nil when there are none.
---@param layers Layer[]
---@return table? status
local function scripts_of(layers)
  local any = false
  for _, layer in ipairs(layers) do any = any or layer.named or next(site.files(layer)) ~= nil end
  if not any then return nil end
  local g = require("lunette.generation.build").build({ site.PRODUCT, table.unpack(layers) })
  return require("lunette.generation.status").of(g)
end

--- The scripts as people read them.
---@param status table
function M.render_scripts(status)
  local where, lines = {}, {}
  for i, layer in ipairs(status.layers) do where[i] = layer.folder .. (layer.exists and "" or " (not there)") end
  lines[1] = (status.broken == 0 and MARK.Ok or MARK.Degraded) .. ("Site scripts: %d in use, %d broken, %d taken out; of %s [scripts]")
    :format(status.loaded, status.broken, status.disabled, table.concat(where, ", "))
  for _, script in ipairs(status.scripts) do
    for _, p in ipairs(script.problems or {}) do
      local own = p.field and '"' .. p.field:match("[^.]*$") .. '"' -- a message about the name of a field has it
      local is_told = p.field and (p.message:find(p.field, 1, true) or p.message:find(own, 1, true))
      local field = p.field and not is_told and p.field .. ": " or ""
      local effect = script.effect and " (" .. script.effect .. ")" or ""
      lines[#lines + 1] = ("         %s:%d: %s%s%s"):format(p.file, p.line, field, p.message, effect)
    end
  end
  for _, found in ipairs(status.ignored or {}) do lines[#lines + 1] = ("         %s: %s"):format(found.path, found.message) end
  if status.broken > 0 or status.ignored then lines[#lines + 1] = "         fix: lunette check DIR tells all that is wrong with it" end
  for i, line in ipairs(lines) do lines[i] = terminal.printable(line) end
  return table.concat(lines, "\n") .. "\n"
end

--- lunette doctor.
---@param args string[]
function M.main(args)
  local given, err = options.parse(args, { ["--json"] = "flag", ["--site"] = "list", ["--scripts"] = "list", ["--config"] = "value" })
  if not given then return terminal.usage("doctor", err) end
  local pid = given[1] and math.tointeger(tonumber(given[1]))
  if #given > 1 or (given[1] and not (pid and pid > 0 and pid < 2147483648)) then
    return terminal.usage("doctor", "give one process id, or none: " .. table.concat(given, " "))
  end
  local report = preflight.report(pid)
  for _, look in ipairs { stale_probes, unconfined } do
    local more = look()
    if more then
      report.checks[#report.checks + 1] = more
      if report.overall == "Ok" then report.overall = "Degraded" end
    end
  end
  local scripts = scripts_of(site.layers(config.load({ file = given.config }), site.given(given)))
  if scripts and scripts.broken > 0 and report.overall == "Ok" then report.overall = "Degraded" end
  if given.json then
    report.scripts = scripts
    sys.write(json.encode(report) .. "\n")
  else
    if scripts then sys.write(M.render_scripts(scripts)) end
    local found = not pid and process.discover()
    sys.write(M.render(report, found and found.unreachable or {}))
  end
  return report.overall == "Blocked" and EXIT_BLOCKED or terminal.EXIT_OK
end

return M
