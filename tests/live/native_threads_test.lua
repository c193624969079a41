-- SPDX-License-Identifier: MIT
-- collect_thread_snapshot of programs without managed threads: NativeAOT, live and from a dump, and a program that is no .NET at all. What
-- each thread waits for is known; the names on its stack are those of the program.
local h = require("harness")

local MAIN <const> = "lunette_target_Lunette_Target_Program__Main"

-- A snapshot by the command line, acknowledged.
local function snapshot(arguments)
  local argv = { h.lunette, "call", "collect_thread_snapshot", "--approve", "--json", "depth=detail" }
  for name, value in pairs(arguments) do argv[#argv + 1] = name .. "=" .. tostring(value) end
  local done = assert(h.loop.exec { argv = argv, timeout_ms = 120000, max_output = 4 * 1024 * 1024 })
  local envelope = h.ok(h.json.decode(done.stdout), done.stdout .. done.stderr)
  require("conform").check("collect_thread_snapshot", envelope)
  return envelope
end

local function threads_of(envelope)
  local data = h.ok(envelope.data, h.json.encode(envelope.error or {}))
  h.eq("linux-native-stack", data.source, "where the stacks are from")
  return data.threads
end

local function names_of(thread)
  local list = {}
  for i, frame in ipairs(thread.frames) do
    h.ok(frame.displayName:find("[!+]") or frame.displayName:find("^<unmapped"), "never a bare pointer: " .. frame.displayName)
    list[i] = frame.displayName
  end
  return table.concat(list, "\n")
end

local function aot(skip, mode, number, options)
  local built, why = h.build_target("aot")
  if not built then skip(why) end
  return h.target("aot", mode, number, options)
end

local function waits_for_input(skip)
  local target <close> = aot(skip, "idle")
  local envelope = snapshot { processId = target.pid }
  local main = h.ok(h.find(threads_of(envelope), { osThreadId = target.pid }), "the main thread")
  h.eq({ "BlockedOnIO", true }, { main.inferredWaitReason, main.isLikelyBlocked }, "it reads its standard input")
  local names = names_of(main)
  h.ok(names:find("Console", 1, true) or names:find(MAIN, 1, true), "names of the program: " .. names)
  local finalizer
  for _, thread in ipairs(envelope.data.threads) do
    local stack = names_of(thread)
    finalizer = stack:find("FinalizerStart", 1, true) and thread or finalizer
  end
  h.eq("BlockedOnLock", h.ok(finalizer, "the finalizer's thread").inferredWaitReason, "it waits for work")
  h.ok(envelope.summary:find("stood still for", 1, true), envelope.summary)
  h.ok(target:command("quit", "^BYE"), "it runs on")
end

local function runs(skip)
  local target <close> = aot(skip, "cpu")
  local running = 0
  for _ = 1, 10 do -- on a busy machine no thread may be on a processor at that moment, but one is ready to run
    for _, thread in ipairs(threads_of(snapshot { processId = target.pid })) do
      running = running + (thread.inferredWaitReason == "Running" and not thread.isLikelyBlocked and 1 or 0)
    end
    if running > 0 then break end
  end
  h.ok(running > 0, "a thread that computes")
end

--- A process that somebody has stopped answers no question of the runtime's; its stacks are there all the same, and it stays stopped.
local function stopped(skip)
  local target <close> = aot(skip, "idle")
  target:signal("STOP")
  h.wait_for("the stop", h.START_MS, function() return require("lunette.proc").stat(target.pid).state == "T" end)
  local main = h.ok(h.find(threads_of(snapshot { processId = target.pid }), { osThreadId = target.pid }), "the main thread")
  h.eq("Stopped", main.inferredWaitReason, "why it does nothing")
  h.eq("T", require("lunette.proc").stat(target.pid).state, "as it was")
  target:signal("CONT")
  h.ok(target:command("quit", "^BYE"), "it runs on")
end

local function of_a_core(skip)
  local gcore = h.loop.exec { argv = { "sh", "-c", "command -v gcore" }, timeout_ms = 5000 }
  if not gcore or gcore.code ~= 0 then skip("gcore (of gdb) is not installed") end
  local target <close> = aot(skip, "idle")
  local path = h.scratch() .. "/core"
  local done = assert(h.loop.exec { argv = { "gcore", "-o", path, tostring(target.pid) }, timeout_ms = 60000, max_output = 100000 })
  local core = ("%s.%d"):format(path, target.pid)
  if not h.fs.stat(core) then skip("gcore cannot attach here: " .. done.stderr:sub(1, 200)) end
  local pid = target.pid
  target:kill()
  local envelope = snapshot { dumpFilePath = core }
  local main = h.ok(h.find(threads_of(envelope), { osThreadId = pid }), "the main thread")
  h.eq({ "BlockedOnIO", "dump" }, { main.inferredWaitReason, envelope.data.origin }, "by what its frames are in")
  h.ok(names_of(main):find("lunette-target!", 1, true), names_of(main))
end

local function no_dotnet()
  local child <close> = h.loop.child { argv = { "sleep", "600" }, stdin = "null", dies_with_us = true }
  local rows = threads_of(snapshot { processId = child.pid })
  h.eq({ 1, child.pid, nil }, { #rows, rows[1].osThreadId, rows[1].inferredWaitReason }, "it sleeps by itself, and waits for nobody")
  h.ok(names_of(rows[1]):find("nanosleep", 1, true), names_of(rows[1]))
end

return {
  { "NativeAOT that waits for input", waits_for_input },
  { "NativeAOT that computes", runs },
  { "a stopped process", stopped },
  { "a core file", of_a_core },
  { "a program that is no .NET", no_dotnet },
}
