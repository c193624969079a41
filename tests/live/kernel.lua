-- SPDX-License-Identifier: MIT
-- What the tests of the kernel's samplers have in common: the kernel target, windows within which it works, and what rows hold.
local h = require("harness")

local M = {}

M.UPROBES = "/sys/kernel/tracing/uprobe_events"
M.EVENTS = 10     -- descriptors that a window opens at the least
M.SETTLE_MS = 500 -- from the first descriptor of perf until all are open and the window has begun

--- Builds the kernel target of a runtime; nil, why it cannot be.
function M.build(runtime)
  local done = assert(h.loop.exec {
    argv = { "sh", h.source .. "/tests/targets/kernel/build.sh", h.targets .. "/kernel", runtime }, timeout_ms = 600000,
    max_output = 1024 * 1024,
  })
  if done.code == 0 then return true end
  if done.code == h.SKIP then return nil, (done.stdout:gsub("%s+$", "")) end
  error("tests/targets/kernel/build.sh failed: " .. done.stdout .. done.stderr)
end

function M.need(skip, runtime, probe)
  local built, why = M.build(runtime)
  if not built then skip(why) end
  local probes = require("lunette.proc").perf_probe(h.sys.pid)
  if not (probes[probe] and probes[probe].ok) then skip(probe .. " is refused here") end
end

function M.start(runtime, mode, n, wrapper)
  local argv = { table.unpack(wrapper or {}) }
  table.move({ ("%s/kernel/%s/lunette-kernel"):format(h.targets, runtime), mode, tostring(n) }, 1, 3, #argv + 1, argv)
  return h.start(argv, "kernel " .. mode)
end

function M.uprobes() return h.fs.read(M.UPROBES, 1024 * 1024) or "" end

-- Nothing of a server is left in tracefs; those of tests beside may be there.
function M.no_probes_of(server)
  h.ok(not M.uprobes():find(("lunette_%d_"):format(server.pid), 1, true), "nothing is left in tracefs: " .. M.uprobes())
end

-- One case of several runtimes at the same time; those that cannot be built are left out.
function M.at_once(runtimes, make)
  return function(skip)
    local parts, why = {}, nil
    for _, runtime in ipairs(runtimes) do
      local built, reason = M.build(runtime)
      why = reason or why
      if built then parts[#parts + 1] = function() make(runtime)(skip) return true end end
    end
    if #parts == 0 then skip(why) end
    h.together(parts)
  end
end

function M.call(server, arguments)
  local envelope = h.ok(server:call("collect_sample", arguments, { timeout_ms = 120000 }))
  if envelope.safetyApproval then
    envelope = h.ok(server:call("collect_sample", envelope.hints[1].suggestedArguments, { timeout_ms = 120000 }))
  end
  return envelope
end

-- What the target says that it did: name -> number.
function M.numbers_of(line)
  local list = {}
  for name, value in line:gmatch("([%w_]+)=(%d+)") do list[name] = math.tointeger(value) end
  return list
end

-- Milliseconds since 1970 of a window's begin and end.
local function window_of(data)
  local y, mo, d, hour, min, sec = data.startedAt:match("^(%d+)-(%d+)-(%d+)T(%d+):(%d+):([%d.]+)")
  local days = (os.time { year = y, month = mo, day = d, hour = 12 } - os.time { year = 1970, month = 1, day = 1, hour = 12 }) // 86400
  local begin_ms = ((days * 24 + hour) * 60 + min) * 60000 + sec * 1000
  hour, min, sec = data.duration:match("^(%d+):(%d+):([%d.]+)$")
  return begin_ms, begin_ms + (hour * 60 + min) * 60000 + sec * 1000
end

-- A window within which the target does its work: the envelope, and what was done.
function M.during(server, target, arguments)
  arguments.processId = target.pid
  local before = h.usage(server.pid).fds
  local did, ended, began_ms, done_ms
  local results = h.together {
    function()
      local answer = M.call(server, arguments)
      ended = true
      return answer
    end,
    function()
      h.wait_for("events of perf", h.START_MS, function() return ended or h.usage(server.pid).fds >= before + M.EVENTS end)
      if ended then return true end -- an error, most likely
      h.loop.sleep_ms(M.SETTLE_MS * h.slowness())
      began_ms = h.loop.unix_ms()
      did = M.numbers_of(target:command("go", "^DONE"))
      done_ms = h.loop.unix_ms()
      return true
    end,
  }
  local envelope = results[1]
  h.ok(not envelope.error, "no error: " .. h.json.encode(envelope.error or {}))
  if not done_ms then h.too_slow() end
  local data
  for _, one in pairs(envelope.data) do data = type(one) == "table" and one.startedAt and one or data end
  local first_ms, last_ms = window_of(data)
  if began_ms < first_ms or done_ms > last_ms then h.too_slow() end
  return envelope, did
end

function M.ask(server, envelope, view, more)
  local arguments = { handle = envelope.handle, view = view }
  for name, value in pairs(more or {}) do arguments[name] = value end
  local answer = h.ok(server:call("query_snapshot", arguments))
  h.ok(not answer.error, view .. ": " .. h.json.encode(answer.error or {}))
  return answer.data
end

function M.has_frame(row, text)
  for _, f in ipairs(row.stack) do
    if f.method:find(text, 1, true) then return f end
  end
  return nil
end

-- The time and number of spans of all stacks with a frame, and the row with most of it.
function M.sum(rows, text, call_name)
  local micros, count, first = 0, 0, nil
  for _, row in ipairs(rows) do
    local label = row.syscallBreakdown and row.syscallBreakdown[1].name
    if M.has_frame(row, text) and (not call_name or label == call_name) then
      micros, count, first = micros + row.offCpuMicros, count + row.occurrenceCount, first or row
    end
  end
  return micros, count, first or error(("no stack with %s in %s among %d: %s"):format(text, call_name or "any call", #rows,
    h.json.encode(rows[1]):sub(1, 2000)), 2)
end

-- A managed method as CoreCLR and as NativeAOT call it.
function M.managed(row, runtime, name)
  return M.has_frame(row, runtime == "aot" and "Program__" .. name or "Program." .. name)
end

function M.close_to(did_us, got_us, n, what)
  -- each wait begins and ends outside of the system call, and a busy machine gives the processor back late
  h.ok(got_us <= did_us + 20000 and got_us >= 0.9 * did_us - 2000 * n, ("%s: did %d us, seen %d us"):format(what, did_us, got_us))
end

-- What threads that wait before the window and are woken in it must show: a span that is censored, at its place.
local function open_at_start(rows, data, runtime)
  local micros, censored = 0, 0
  for _, row in ipairs(rows) do
    if M.managed(row, runtime, "Main") and row.syscallBreakdown and row.syscallBreakdown[1].name == "read" then
      micros, censored = micros + (row.censoredMicros or 0), censored + (row.censoredSpans or 0)
    end
  end
  if censored == 0 then h.too_slow() end -- it went on before its stack could be read
  h.ok(micros > 0, ("the main thread read its input when the window began: %d, %d us"):format(censored, micros))
  h.ok(table.concat(data.notes, "\n"):find("OpenAtStart: %d+ waits"), "it is said")
end

--- The waits of the target's mode `waits`, n of each kind, by time, number, system call and waker.
---@param is_hidden boolean?   the kernel's names are not to be had
function M.check_waits(server, envelope, did, n, runtime, is_hidden)
  local data = envelope.data.offCpu
  h.eq("perf-sched-dwarf", data.symbolSource)
  local rows, _ = M.ask(server, envelope, "topStacks", { topN = 100 }).stacks, nil
  for i = 2, #rows do h.ok(rows[i - 1].offCpuMicros >= rows[i].offCpuMicros, "ordered by time") end
  local micros, count, row = M.sum(rows, "known_sleeps", "clock_nanosleep")
  M.close_to(did.sleeps_slept_us, micros, n, "sleeps")
  h.ok(count >= did.sleeps_sleeps and count <= n + 2, "sleeps: " .. count)
  h.ok(M.managed(row, runtime, "ManagedSleeps"), "below managed code: " .. h.json.encode(row.stack))
  local unseen = tonumber(table.concat(data.notes, "\n"):match("WakersUnseen: of (%d+) of"))
  local untold = { { kind = unseen and unseen >= row.occurrenceCount and "interrupt" or "nobody" } } -- a timer's, on an idle processor
  h.eq("interrupt", (row.wakers or untold)[1].kind, "a timer wakes it: " .. h.json.encode(data.notes))
  for name, call in pairs { futexes = "futex", polls = "poll", epolls = "epoll_wait" } do
    micros, count, row = M.sum(rows, "known_" .. name, call)
    M.close_to(did[name .. "_waited_us"], micros, n, name)
    h.ok(count >= did[name .. "_waits"] and count <= n + 4, ("%s: %d"):format(name, count))
    h.eq(name == "futexes" and "confirmed-blocking" or nil, row.nativeContentionEvidence and row.nativeContentionEvidence.level, name)
  end
  micros, count, row = M.sum(rows, "known_wait_for_mutex", "futex")
  M.close_to(did.fights_waited_us, micros, n, "fights")
  h.ok(count >= did.fights_waits and count <= n + 4, "fights: " .. count)
  h.eq({ "thread", "k-fights" }, { row.wakers[1].kind, row.wakers[1].name }, "who held it wakes it")
  micros, _, row = M.sum(rows, "known_pipe", "read")
  M.close_to(did.pipe_waited_us, micros, n, "pipe")
  h.eq({ "thread", "known-writer" }, { row.wakers[1].kind, row.wakers[1].name }, "the writer wakes it")
  h.eq("confirmed-blocking", data.nativeContentionEvidence.level)
  h.ok(data.nativeContentionEvidence.nativeSyncMicros >= 0.9 * did.fights_waited_us, "native synchronisation")
  open_at_start(rows, data, runtime)
  for _, one in ipairs(rows) do
    h.ok(not is_hidden or not M.has_frame(one, "0xffff"), "addresses of the kernel are left out: " .. h.json.encode(one.stack))
    h.ok(#(one.syscallBreakdown or {}) <= 8, "calls of a stack")
  end
  local noted = table.concat(data.notes, "\n"):find("NoKernelNames: .*traced instead") ~= nil
  h.eq(is_hidden or false, noted, "what names the calls is said: " .. h.json.encode(data.notes))
end

return M
