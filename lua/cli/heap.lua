-- SPDX-License-Identifier: MIT
-- lunette heap: what fills the managed heap of a process, a core dump or a .gcdump file, and what keeps it.
local asking = require("lunette.asking")
local fs = require("lunette.fs")
local handles = require("lunette.handles")
local json = require("lunette.json")
local output = require("lunette.output")
local sys = require("lunette.sys")
local terminal = require("lunette.terminal")
local text = require("lunette.text")

local M = {}

M.summary = "what fills the heap of a process or a dump, and what keeps it"
M.help = [[
usage: lunette heap PID|FILE [OPTION...]

Prints the types of a managed heap by what they keep alive, and the way from a root to the largest. FILE is a core dump, a .gcdump file or
a .nettrace recording of heap events. Of a process, the runtime tells its heap by events: that makes it collect its whole heap first, and
stand still for about a second for each 2 million objects.

  --live            stop the process while its heap is copied (ptrace), without a collection: what is garbage is there, too
  --type TEXT       only types whose names hold TEXT, with the way from a root to each
  --by WHAT         order: retained (default), bytes or instances
  --against FILE    an earlier dump or .gcdump file: what grew since
  -o FILE.html      write a picture of what keeps what: treemap and sunburst, one page for a browser
  --top N           rows (default 20)
  --json            the answers as JSON, one a line
  --site DIR        a folder of site scripts; may be given several times

Exit code: 0 done, 1 the process or file cannot be read, 2 for a wrong command line.
]]

local KNOWN <const> = {
  ["--live"] = "flag", ["--type"] = "value", ["--by"] = "value", ["--against"] = "value", ["-o"] = "value",
  ["--top"] = "value", ["--json"] = "flag",
  ["--site"] = "list", ["--scripts"] = "list", ["--config"] = "value",
}
local TOP <const>, MAX_TOP <const>, WAYS <const> = 20, 200, 3
local ORDERS <const> = { "retained", "bytes", "instances" }
local IS_ORDER <const> = { retained = true, bytes = true, instances = true }
local GCDUMP_MARK <const>, TRACE_MARK <const> = "!FastSerialization.1", "Nettrace"

-- What a file is read as; a core dump unless its first bytes say something else.
local function source_of(path)
  local head = fs.head(path, 32) or ""
  return (head:find(GCDUMP_MARK, 1, true) or head:find(TRACE_MARK, 1, true)) and "gcdump" or "dump"
end

local function plan_of(opts)
  if #opts ~= 1 then return nil, "give one process id, or one file" end
  local top, by = math.tointeger(tonumber(opts.top or TOP)), (opts.by or ORDERS[1]):lower()
  if not top or top < 1 or top > MAX_TOP then return nil, ("--top is a whole number from 1 to %d"):format(MAX_TOP) end
  if not IS_ORDER[by] then
    return nil, ("there is no order %s.%s It is one of %s"):format(text.quote(by), text.did_you_mean(by, ORDERS),
      table.concat(ORDERS, ", "))
  end
  if opts.o then
    local ok, why = output.has_folder(opts.o)
    if not ok then return nil, why end
  end
  local pid = math.tointeger(tonumber(opts[1]))
  if opts.live and not pid then return nil, "--live is for a process; a file is read as it is" end
  return {
    pid = pid, path = not pid and opts[1] or nil, live = opts.live, by = by, top = top, type = opts.type, against = opts.against,
    output = opts.o,
  }
end

local function capture(plan, path)
  return asking.ask("inspect_heap", {
    source = path and source_of(path) or plan.live and "live" or "gcdump", processId = not path and plan.pid or nil, dumpFilePath = path,
    includeRetentionPaths = (path and source_of(path) == "dump" or plan.live) and true or nil,
  })
end

local function view(answer, name, more)
  more.handle, more.view = answer.handle, name
  return asking.ask("query_snapshot", more)
end

-- The rows that were asked for, and the answer that they came in.
local function rows_of(plan, answer)
  local name = (plan.by == "retained" or plan.type) and "retained" or "top-types"
  local rows, err = view(answer, name, {
    topN = plan.top, rankBy = name == "top-types" and plan.by or nil, typeFullName = name == "retained" and plan.type or nil,
  })
  if not rows then return nil, err end
  if name == "top-types" then return rows.data.topTypes, rows end
  local list = rows.data.retained.byType
  local field = plan.by == "bytes" and "totalBytes" or plan.by == "instances" and "instanceCount" or "retainedBytes"
  table.sort(list, function(a, b) return a[field] > b[field] end)
  return list, rows
end

-- "  71.2 %   40.1 MiB   40.1 MiB    1203  Shop.Order[]"
local function add_rows(out, rows, retained)
  out[#out + 1] = ""
  out[#out + 1] = (retained and "  share    retained" or "  share") .. "       bytes  instances  type"
  for _, row in ipairs(rows) do
    local kept = retained and (" %10s"):format(text.bytes(row.retainedBytes)) or ""
    out[#out + 1] = ("%6.2f %%%s  %10s %10d  %s"):format(retained and row.retainedBytesPercent or row.totalBytesPercent, kept,
      text.bytes(row.totalBytes), row.instanceCount, terminal.printable(row.typeFullName))
  end
end

-- "Shop.Order, 360 bytes retained, is kept by:" and the chain below it, root first.
local function add_ways(out, paths)
  for _, path in ipairs(paths) do
    out[#out + 1] = ""
    out[#out + 1] = ("%s at %s%s is kept by:"):format(terminal.printable(path.targetTypeFullName), path.targetObjectAddress,
      path.targetRetainedBytes and (" (%s with all below it)"):format(text.bytes(path.targetRetainedBytes)) or "")
    for i, at in ipairs(path.chain) do
      if i == 1 then
        local name = at.rootName and " " .. terminal.printable(at.rootName) or ""
        out[#out + 1] = "  " .. terminal.printable(at.rootKind or "root") .. name
      end
      out[#out + 1] = ("  %s-> %s"):format(("  "):rep(math.min(i, 12)), terminal.printable(at.typeFullName))
    end
    if path.truncated then out[#out + 1] = "     (cut)" end
  end
end

-- "   +62.5 KiB     31.2 KiB     93.8 KiB    1000 -> 3000    Shop.Customer": what changed, most first.
local function add_growth(out, diff, top)
  local rows = {}
  for _, list in ipairs { diff.added, diff.removed, diff.changed } do table.move(list, 1, #list, #rows + 1, rows) end
  table.sort(rows, function(a, b) return math.abs(a.deltaAbs) > math.abs(b.deltaAbs) end)
  if #rows == 0 then return end
  out[#out + 1] = ""
  out[#out + 1] = "       grown      before         now            instances  type"
  for i = 1, math.min(top, #rows) do
    local row = rows[i]
    local before, now = row.baseline or {}, row.current or {}
    out[#out + 1] = ("%12s %11s %11s %20s  %s"):format((row.deltaAbs < 0 and "-" or "+") .. text.bytes(math.abs(row.deltaAbs)),
      text.bytes(before.totalBytes or 0), text.bytes(now.totalBytes or 0),
      ("%d -> %d"):format(before.instanceCount or 0, now.instanceCount or 0), terminal.printable(row.key.typeFullName))
  end
end

-- The picture into the file that was asked for: its size.
local function write_picture(plan, answer)
  local content, err = require("heap.export").content(handles.get(answer.handle))
  if not content then return nil, err end
  local ok
  ok, err = output.write(plan.output, content)
  if not ok then return nil, { message = ("%s cannot be written: %s"):format(plan.output, tostring(err)) } end
  return #content
end

local function print_page(out) sys.write(table.concat(out, "\n") .. "\n") end

local function run(plan, as_json)
  local answer, err = capture(plan, plan.path)
  if not answer then return nil, err end
  local rows, said = rows_of(plan, answer)
  if not rows then return nil, said end
  local ways
  ways, err = view(answer, "retention-paths", { typeFullName = plan.type, topN = plan.type and plan.top or WAYS })
  if not ways then return nil, err end
  local grown
  if plan.against then
    local before
    before, err = capture(plan, plan.against)
    if not before then return nil, err end
    grown, err = view(answer, "diff", { baselineHandle = before.handle, topN = math.max(plan.top, 100) })
    if not grown then return nil, err end
  end
  local written
  if plan.output then
    written, err = write_picture(plan, answer)
    if not written then return nil, err end
  end
  if as_json then
    for _, one in ipairs { answer, said, ways, grown } do sys.write(json.encode(one) .. "\n") end
    return true
  end
  local out = { terminal.printable(answer.summary:match("^(.-)%s*Cut to fit:") or answer.summary) }
  if #rows == 0 then
    out[#out + 1] = plan.type and ("No type's name holds %s."):format(text.quote(plan.type)) or "There are no types."
  else
    add_rows(out, rows, rows[1].retainedBytes)
  end
  add_ways(out, ways.data.retentionPaths)
  if grown then
    out[#out + 1] = ""
    out[#out + 1] = terminal.printable(grown.summary)
    add_growth(out, grown.data, plan.top)
  end
  for _, warning in ipairs(answer.data.warnings or {}) do out[#out + 1] = "Note: " .. terminal.printable(warning) end
  if written then out[#out + 1] = ("The picture is in %s (%s)."):format(plan.output, text.bytes(written)) end
  print_page(out)
  return true
end

M.main = asking.command("heap", KNOWN, plan_of, run)

return M
