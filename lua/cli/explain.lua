-- SPDX-License-Identifier: MIT
-- lunette explain: judges a process or a recording by the rules, and says on what evidence.
local app = require("lunette.app")
local captures = require("lunette.rules.captures")
local config = require("lunette.config")
local explain = require("lunette.rules.explain")
local handles = require("lunette.handles")
local index = require("lunette.rules.index")
local json = require("lunette.json")
local loop = require("lunette.loop")
local options = require("lunette.options")
local process = require("lunette.process")
local site = require("lunette.site")
local sys = require("lunette.sys")
local terminal = require("lunette.terminal")
local triage = require("triage")
local words = require("lunette.rules.words")

local M = {}

M.summary = "tell which rules a process or a recording meets, and which nearly"
M.help = [[
usage: lunette explain PID|FILE [OPTION...]

Judges a running process (a counter window), or a recording (.nettrace), by all rules, and tells which fired, which nearly did and how far
they are from their threshold, which hypotheses were weighed with what speaks for and against them, and in which file each rule is.
Captures other than counters are made, at the same time, when a rule looks at them; of a process none whose risk is high.

  --seconds N   length of the window of a process (default 5)
  --near N      rules that miss their threshold by up to N % are near (default 25)
  --all         also the rules that are far from firing, and those whose counters did not come
  --json        all of it as JSON
  --site DIR    a folder of site scripts; may be given several times

Exit code: 0 judged, 1 the process or file cannot be read, 2 for a wrong command line.
]]

local KNOWN <const> = {
  ["--json"] = "flag", ["--all"] = "flag", ["--seconds"] = "value", ["--near"] = "value", ["--site"] = "list", ["--scripts"] = "list",
  ["--config"] = "value",
}
local MAX_SECONDS <const> = 300

-- ---- text ---------------------------------------------------------------------------------------------------------------------------

local function measured(value, unit) return words.plain(value) .. (unit and " " .. unit or "") end

local function changes_text(row)
  local parts = {}
  for _, c in ipairs(row.changes) do
    local percent = c.percent and words.plain(c.percent) or "?"
    parts[#parts + 1] = ("%s %s %% (%s %s)"):format(c.name, percent, words.plain(c.amount), c.unit)
  end
  return table.concat(parts, ", ")
end

local function fired_lines(row, add)
  add(("  %-10s %s: %s"):format(row.level, row.name, row.summary))
  if row.value then
    add(("             %s %s %s"):format(measured(row.value, row.unit), row.comparison, measured(row.threshold, row.unit)))
  end
  add("             " .. row.rationale)
  if row.nextLevel then
    add(("             %s %s %s"):format(row.nextLevel, row.comparison, measured(row.nextThreshold, row.unit)))
  end
  add("             " .. row.file)
end

local function near_lines(row, add)
  local what = row.changes and changes_text(row)
    or ("%s, needs %s %s"):format(measured(row.value, row.unit), row.comparison, measured(row.threshold, row.unit))
  add(("  %-34s %s: %.0f %% short"):format(row.name, what, row.distance * 100))
  add("             " .. row.file)
end

local function held_lines(row, add)
  add(("  %-34s met, but %s"):format(row.name, table.concat(row.heldBackBy, "; ")))
  add("             " .. row.file)
end

local function quiet_lines(row, add)
  local what = row.changes and changes_text(row) or ("%s of %s"):format(measured(row.value, row.unit), measured(row.threshold, row.unit))
  add(("  %-34s %s   %s"):format(row.name, what, row.file))
end

local function unmeasured_lines(row, add) add(("  %-34s no value of %s   %s"):format(row.name, row.unmeasured, row.file)) end

local SECTIONS <const> = {
  { state = "fired", title = "Fired", lines = fired_lines, none = "  nothing" },
  { state = "held-back", title = "Met, but held back by another condition", lines = held_lines },
  { state = "near", title = "Nearly", lines = near_lines },
  { state = "quiet", title = "Quiet", lines = quiet_lines, all = true },
  { state = "not-measured", title = "Not measured", lines = unmeasured_lines, all = true },
}

local function evidence_line(mark, e)
  return ("      %s  %s %s %s %s%s"):format(mark, e.name, measured(e.value, e.unit), e.comparison, words.plain(e.threshold),
    e.rationale and ": " .. e.rationale or "")
end

local function hypothesis_lines(row, add)
  if row.state == "stands" then
    add(("  %s stands (%s): %s"):format(row.name, row.confidence, row.summary))
    for _, e in ipairs(row.supports) do add(evidence_line("+", e)) end
    for _, e in ipairs(row.against) do add(evidence_line("-", e)) end
  else
    add(("  %s does not stand:"):format(row.name))
    for _, text in ipairs(row.missing) do add("      ?  " .. text) end
  end
  add("      " .. row.file)
end

local function count(rows, state)
  local n = 0
  for _, row in ipairs(rows) do n = n + (row.state == state and 1 or 0) end
  return n
end

--- The explanation as people read it.
---@param report table
---@param all boolean?
---@return string
function M.render(report, all)
  local out = { report.summary }
  local function add(line) out[#out + 1] = terminal.printable(line) end
  for _, section in ipairs(SECTIONS) do
    local n = count(report.rules, section.state)
    if (n > 0 or section.none) and (all or not section.all) then
      add("")
      add(section.title .. ":")
      if n == 0 then add(section.none) end
      for _, row in ipairs(report.rules) do
        if row.state == section.state then section.lines(row, add) end
      end
    end
  end
  add("")
  add("Hypotheses:")
  local shown = 0
  for _, row in ipairs(report.hypotheses) do
    if all or row.state ~= "not-raised" then
      hypothesis_lines(row, add)
      shown = shown + 1
    end
  end
  if shown == 0 then add("  none was raised") end
  for _, note in ipairs(report.notes or {}) do add("note: " .. note) end
  for _, p in ipairs(report.problems) do add(("wrong: %s: %s"):format(p.file, p.message)) end
  for _, fault in ipairs(report.faults) do add(("failed: %s: %s"):format(fault.what, fault.message)) end
  local hidden = count(report.rules, "quiet") + count(report.rules, "not-measured")
  if not all and hidden > 0 then
    add("")
    add(("%d rules are far from firing or were not measured: --all shows them."):format(hidden))
  end
  return table.concat(out, "\n") .. "\n"
end

-- ---- judging ------------------------------------------------------------------------------------------------------------------------

local function source_of(word)
  local pid = math.tointeger(tonumber(word))
  if not pid then
    local path = require("lunette.fs").realpath(word)
    if not path then return nil, { message = ("there is no file %s, and it is no process id."):format(word) } end
    return { path = path }
  end
  local found, err = process.resolve({ principal = nil }, pid)
  if not found then return nil, err end
  return { process = found }
end

local ORDER <const> = { __order = {
  "summary", "processId", "recording", "assessment", "verdict", "severity", "rules", "hypotheses", "problems", "faults", "notes" } }

--- Judges a source: the explanation as data.
---@param source { process: table } | { path: string }
---@param given { seconds: integer?, near: number? }
---@return table? report, table? err
function M.report(source, given)
  local artifact, others, notes = captures.all(source, given.seconds or triage.DEFAULT_SECONDS)
  if not artifact then return nil, others end
  local result, window = triage.judged(artifact, source.process and source.process.pid, others)
  local report = explain.of(index.of(), window, { near = given.near })
  report.summary, report.assessment = triage.sentence(result, artifact), result.assessment
  report.verdict, report.severity = result.verdict, result.severity
  report.processId, report.recording = artifact.process_id, source.path
  report.notes = json.array(notes)
  return setmetatable(report, ORDER)
end

local function number_of(text, min, max)
  local n = tonumber(text)
  return n and n >= min and n <= max and n or nil
end

--- lunette explain.
---@param args string[]
function M.main(args)
  local opts, why = options.parse(args, KNOWN)
  if not opts then return terminal.usage("explain", why) end
  if #opts ~= 1 then return terminal.usage("explain", "give one process id, or one recording") end
  local seconds = number_of(opts.seconds or triage.DEFAULT_SECONDS, 1, MAX_SECONDS)
  local near = number_of(opts.near or explain.NEAR * 100, 0, 1000)
  if not seconds then return terminal.usage("explain", ("--seconds is a number from 1 to %d"):format(MAX_SECONDS)) end
  if not near then return terminal.usage("explain", "--near is a number of percent") end
  local cfg = config.load({ file = opts.config })
  if cfg.fatal then return terminal.usage("explain", cfg.fatal) end
  app.load({ config = cfg, layers = site.layers(cfg, site.given(opts)) })
  loop.on_cleanup(handles.clear)
  local source, err = source_of(opts[1])
  local report
  if source then report, err = M.report(source, { seconds = math.floor(seconds), near = near / 100 }) end
  if not report then return terminal.fail("explain", err) end
  sys.write(opts.json and json.encode(report) .. "\n" or M.render(report, opts.all))
  return terminal.EXIT_OK
end

return M
