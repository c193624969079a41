-- SPDX-License-Identifier: MIT
-- lunette stacks: where the threads of a process or a dump stand, who holds the locks that they wait for, and who waits in a circle.
local asking = require("lunette.asking")
local json = require("lunette.json")
local sys = require("lunette.sys")
local terminal = require("lunette.terminal")

local M = {}

M.summary = "where threads stand and what they wait for, of a process or a dump"
M.help = [[
usage: lunette stacks PID|DUMP [OPTION...]

Prints the stacks of all threads, those that stand at the same place as one, the largest crowd first; then the locks that are wanted, with
their owners, and threads that wait for each other in a circle. A process stands still while its stacks are read (ptrace), for some tens
of milliseconds; DUMP is a core dump.

  --native          native frames between the managed ones
  --frames N        frames of a stack (default 64)
  --top N           places to print (default 50)
  --json            the answers as JSON, one a line
  --site DIR        a folder of site scripts; may be given several times

Exit code: 0 done, 1 the process or dump cannot be read, 2 for a wrong command line.
]]

local KNOWN <const> = {
  ["--native"] = "flag", ["--frames"] = "value", ["--top"] = "value", ["--json"] = "flag", ["--site"] = "list", ["--scripts"] = "list",
  ["--config"] = "value",
}
local FRAMES <const>, MAX_FRAMES <const>, TOP <const>, MAX_TOP <const> = 64, 512, 50, 1000

local function plan_of(opts)
  if #opts ~= 1 then return nil, "give one process id, or one core dump" end
  local frames, top = math.tointeger(tonumber(opts.frames or FRAMES)), math.tointeger(tonumber(opts.top or TOP))
  if not frames or frames < 1 or frames > MAX_FRAMES then
    return nil, ("--frames is a whole number from 1 to %d"):format(MAX_FRAMES)
  end
  if not top or top < 1 or top > MAX_TOP then return nil, ("--top is a whole number from 1 to %d"):format(MAX_TOP) end
  local pid = math.tointeger(tonumber(opts[1]))
  return { pid = pid, path = not pid and opts[1] or nil, native = opts.native, frames = frames, top = top }
end

-- "12 threads (5, 6, 7, …) wait: Monitor.Enter (contended)", then the frames.
local function add_place(out, place)
  local ids = {}
  for i, thread in ipairs(place.sampleThreads) do ids[i] = tostring(thread.managedThreadId or thread.osThreadId) end
  if #ids < place.threadCount then ids[#ids + 1] = "…" end
  out[#out + 1] = ""
  out[#out + 1] = ("%d thread%s (%s)%s"):format(place.threadCount, place.threadCount == 1 and "" or "s", table.concat(ids, ", "),
    place.inferredWaitReason and ": " .. terminal.printable(place.inferredWaitReason) or "")
  for _, frame in ipairs(place.canonicalFrames) do
    local module, name = frame.moduleName and frame.moduleName:gsub("%.dll$", "") or "", frame.displayName
    if module ~= "" and name:sub(1, #module) ~= module then name = module .. "!" .. name end
    out[#out + 1] = "    " .. terminal.printable(name)
  end
end

local function add_locks(out, locks)
  local wanted = {}
  for _, lock in ipairs(locks) do
    if lock.waitingThreadCount > 0 then wanted[#wanted + 1] = lock end
  end
  if #wanted == 0 then return end
  out[#out + 1] = ""
  out[#out + 1] = "Locks that are wanted:"
  for _, lock in ipairs(wanted) do
    local owner = lock.ownerManagedThreadId and "held by thread " .. lock.ownerManagedThreadId or "held by nobody that is known"
    out[#out + 1] = ("    %s %s: %s, wanted by %d"):format(terminal.printable(lock.objectTypeFullName or "?"), lock.objectAddress, owner,
      lock.waitingThreadCount)
  end
end

local function add_circles(out, circles)
  for _, circle in ipairs(circles) do
    out[#out + 1] = ""
    out[#out + 1] = "Deadlock:"
    for _, edge in ipairs(circle.lockChain) do
      out[#out + 1] = ("    thread %d waits for %s %s, held by thread %s (%s, confidence %s)"):format(edge.waitingThreadId,
        terminal.printable(edge.lockObjectTypeFullName or "?"), edge.lockObjectAddress or "?", tostring(edge.ownerThreadId or "?"),
        edge.source, edge.confidence)
    end
  end
end

local function run(plan, as_json)
  local first, err = asking.ask("collect_thread_snapshot", {
    processId = plan.pid, dumpFilePath = plan.path, maxFramesPerThread = plan.frames, includeNativeFrames = plan.native,
  })
  if not first then return nil, err end
  local answers = { first }
  for i, view in ipairs { "unique-stacks", "lock-graph", "deadlocks" } do
    answers[i + 1], err = asking.ask("query_snapshot", {
      handle = first.handle, view = view, topN = plan.top, framesToHash = view == "unique-stacks" and plan.frames or nil,
    })
    if not answers[i + 1] then return nil, err end
  end
  if as_json then
    for _, answer in ipairs(answers) do sys.write(json.encode(answer) .. "\n") end
    return true
  end
  local out = { terminal.printable(first.summary:match("^(.-)%s*Cut to fit:") or first.summary) }
  for _, place in ipairs(answers[2].data.uniqueStacks) do add_place(out, place) end
  add_locks(out, answers[3].data.locks)
  add_circles(out, answers[4].data.deadlocks)
  for _, warning in ipairs(first.data.warnings or {}) do out[#out + 1] = "Note: " .. terminal.printable(warning) end
  sys.write(table.concat(out, "\n") .. "\n")
  return true
end

M.main = asking.command("stacks", KNOWN, plan_of, run)

return M
