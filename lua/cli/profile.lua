-- SPDX-License-Identifier: MIT
-- lunette profile: where a process or a recording spends its samples, and the same as a flame graph or a file for another program.
local asking = require("lunette.asking")
local export = require("samplers.export")
local handles = require("lunette.handles")
local json = require("lunette.json")
local output = require("lunette.output")
local sys = require("lunette.sys")
local terminal = require("lunette.terminal")
local text = require("lunette.text")

local M = {}

M.summary = "sample stacks or allocations; flame graphs, speedscope, pprof"
M.help = [[
usage: lunette profile PID|FILE.nettrace [OPTION...]

Samples the stacks of a process (or reads those of a recording), prints the methods that are seen most, and writes the call tree where -o
says: an interactive flame graph in one HTML page, or the format of another program.

  --seconds N       length of the window of a process (default 10)
  --allocations     what is allocated and where, instead of where threads stand
  -o FILE           write the call tree; its name tells the format: .html, .speedscope.json, .folded.txt, .pb.gz
  --format F        flamegraph, speedscope, folded or pprof, whatever the name
  --against FILE    a recording to compare with: the flame graph is coloured by what grew and what shrank
  --top N           methods to print (default 20); 0: none
  --json            the answer as JSON
  --site DIR        a folder of site scripts; may be given several times

Exit code: 0 done, 1 the process or file cannot be read, 2 for a wrong command line.
]]

local KNOWN <const> = {
  ["--seconds"] = "value", ["--allocations"] = "flag", ["-o"] = "value", ["--format"] = "value", ["--against"] = "value",
  ["--top"] = "value", ["--json"] = "flag", ["--site"] = "list", ["--scripts"] = "list", ["--config"] = "value",
}
local TOP <const>, MAX_TOP <const>, SECONDS <const> = 20, 200, 10
local SUFFIXES <const> = {
  { "%.html?$", "flamegraph" }, { "%.json$", "speedscope" }, { "%.txt$", "folded" }, { "%.folded$", "folded" }, { "%.gz$", "pprof" },
  { "%.pprof$", "pprof" }, { "%.pb$", "pprof" },
}

--- The format that a file's name, or a word, asks for; nil, why.
---@param path string?
---@param word string?
function M.format_of(path, word)
  local names = {}
  for name, how in pairs(export.FORMATS) do
    if not how.max_nodes then names[#names + 1] = name end
  end
  table.sort(names)
  if word then
    for _, name in ipairs(names) do
      if name == word:lower() then return name end
    end
    return nil, ("there is no format %s.%s It is one of %s"):format(text.quote(word), text.did_you_mean(word, names),
      table.concat(names, ", "))
  end
  for _, pair in ipairs(SUFFIXES) do
    if path and path:lower():find(pair[1]) then return pair[2] end
  end
  return nil, ("the name %s does not tell the format: add --format with one of %s"):format(text.quote(path or ""),
    table.concat(names, ", "))
end

-- The plan of a command line; nil, why.
local function plan_of(opts)
  if #opts ~= 1 then return nil, "give one process id, or one recording" end
  local pid, seconds = math.tointeger(tonumber(opts[1])), math.tointeger(tonumber(opts.seconds or SECONDS))
  local top = math.tointeger(tonumber(opts.top or TOP))
  if not seconds or seconds < 1 then return nil, "--seconds is a whole number, from 1" end
  if not top or top < 0 or top > MAX_TOP then return nil, ("--top is a whole number from 0 to %d"):format(MAX_TOP) end
  if opts.format and not opts.o then return nil, "--format says how -o FILE is written: give -o, too" end
  local plan = { pid = pid, path = not pid and opts[1] or nil, seconds = seconds, top = top, output = opts.o }
  plan.kind = opts.allocations and "allocation" or "cpu"
  if plan.output then
    local ok, why = output.has_folder(plan.output)
    if not ok then return nil, why end
    plan.format, why = M.format_of(plan.output, opts.format)
    if not plan.format then return nil, why end
  end
  if opts.against then
    if plan.format ~= "flamegraph" then return nil, "--against colours a flame graph: give -o FILE.html, too" end
    plan.against = opts.against
  end
  return plan
end

local function capture(plan, path)
  return asking.ask("collect_sample", {
    kind = plan.kind, processId = not path and plan.pid or nil, traceFilePath = path, durationSeconds = not path and plan.seconds or nil,
  })
end

local function entry_of(answer)
  local entry = answer.handle and handles.get(answer.handle)
  if entry and export.can(entry) then return entry end
  return nil, { message = answer.summary }
end

-- The call tree into the file that was asked for.
local function write(plan, entry)
  local baseline
  if plan.against then
    local before, err = capture(plan, plan.against)
    if before then baseline, err = entry_of(before) end
    if not baseline then return nil, err end
  end
  local content, err = export.content(entry, plan.format, { baseline = baseline })
  if not content then return nil, err end
  local ok
  ok, err = output.write(plan.output, content)
  if not ok then return nil, { message = ("%s cannot be written: %s"):format(plan.output, tostring(err)) } end
  return #content
end

-- "37.2 %  61.0 %    1190  Shop.Cart.Total(int32)  [known wait]"
local function add_samples(out, rows)
  if #rows == 0 then return end
  out[#out + 1] = ""
  out[#out + 1] = "   self   total  samples  method"
  for _, row in ipairs(rows) do
    local wait = row.waitReason and "  [" .. row.waitReason .. "]" or ""
    out[#out + 1] = ("%5.1f %% %5.1f %% %8d  %s!%s%s"):format(row.exclusivePercent, row.inclusivePercent, row.exclusiveSamples,
      terminal.printable(row.module), terminal.printable(row.method), wait)
  end
end

-- "37.2 %   1.4 MiB  System.String", then " 37.2 %  61.0 %   1.4 MiB  Shop.Cart.Total(int32)": bytes, not ticks.
local function add_bytes(out, payload, rows, top)
  local all = math.max(1, payload.totalBytes)
  if #rows == 0 then return end
  out[#out + 1] = ""
  out[#out + 1] = "  share      bytes  type"
  for i = 1, math.min(top, #payload.topByBytes) do
    local row = payload.topByBytes[i]
    out[#out + 1] = ("%5.1f %% %10s  %s"):format(100 * row.totalBytes / all, text.bytes(row.totalBytes), terminal.printable(row.typeName))
  end
  out[#out + 1] = ""
  out[#out + 1] = "   self   total      bytes  method"
  for _, row in ipairs(rows) do
    out[#out + 1] = ("%5.1f %% %5.1f %% %10s  %s!%s"):format(100 * row.exclusiveBytes / all, 100 * row.inclusiveBytes / all,
      text.bytes(row.exclusiveBytes), terminal.printable(row.module), terminal.printable(row.method))
  end
end

local function page(plan, answer, rows)
  local out, payload = { terminal.printable(answer.summary) }, answer.data and answer.data[plan.kind]
  if not payload then return table.concat(out) .. "\n" end
  if plan.kind == "allocation" then add_bytes(out, payload, rows, plan.top) else add_samples(out, rows) end
  if #payload.notes > 0 then out[#out + 1] = "" end
  for _, note in ipairs(payload.notes) do out[#out + 1] = "Note: " .. terminal.printable(note) end
  return table.concat(out, "\n") .. "\n"
end

local function run(plan, as_json)
  local answer, err = capture(plan, plan.path)
  if not answer then return nil, err end
  local entry
  entry, err = entry_of(answer)
  if not entry then return nil, err end
  local methods
  if plan.top > 0 then
    methods, err = asking.ask("query_snapshot", {
      handle = answer.handle, view = "top-methods", topN = plan.top, rankBy = plan.kind == "allocation" and "bytes" or nil,
    })
    if not methods then return nil, err end
  end
  if as_json then
    sys.write(json.encode(methods or answer) .. "\n")
  else
    sys.write(page(plan, answer, methods and methods.data.methods or {}))
  end
  if not plan.output then return true end
  local bytes
  bytes, err = write(plan, entry)
  if not bytes then return nil, err end
  io.stderr:write(("lunette profile: wrote %s (%s, %s)\n"):format(plan.output, plan.format, text.bytes(bytes)))
  return true
end

M.main = asking.command("profile", KNOWN, plan_of, run)

return M
