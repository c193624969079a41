-- SPDX-License-Identifier: MIT
-- Collectors over a target that does its known work within the window: the load begins when the session is open.
local h = require("harness")
local known = require("known_values")

local M = {}

local OPENING_MS <const> = 250
local STREAMING_THREAD <const> = ".NET EventPipe" -- one answers the diagnostics socket; one more a session, once its events are on

--- How many sessions of a target are open with their events on.
function M.sessions(target)
  local n = 0
  for _, tid in ipairs(h.fs.list(("/proc/%d/task"):format(target.pid)) or {}) do
    local name = h.fs.read(("/proc/%d/task/%s/comm"):format(target.pid, tid), 64)
    if name and name:sub(1, #STREAMING_THREAD) == STREAMING_THREAD then n = n + 1 end
  end
  return math.max(0, n - 1)
end

--- Waits until n connections are open on the target and stay so for a while: what only asks, and a second session for names, hangs up.
function M.stay_open(target, n, stay_ms)
  local since
  h.wait_for(n .. " sessions that stay", h.START_MS, function()
    if M.sessions(target) < n or h.connections(target.pid) ~= n then since = nil return nil end
    since = since or h.loop.now_ms()
    return h.loop.now_ms() - since >= stay_ms
  end)
end

--- `go`, and what the target says that it did.
function M.go(target)
  target:command("go", "^GOING")
  return known.did(target, target.said_before)
end

--- Runs `collect` while `work(target)` runs once the session is open. Returns what both gave. Work that was not done when the window ended
--- proves nothing: on a machine as slow as that the case begins again, with longer windows.
function M.both(target, collect, work)
  local before, over, late = M.sessions(target), false, false
  local ended = h.windows_over(target.pid)
  local results = h.together {
    function()
      local result = collect()
      over = true
      return result
    end,
    function()
      local since -- the thread of a session is there a moment before its opener has the answer
      h.wait_for("a session on process " .. target.pid, h.START_MS, function()
        since = M.sessions(target) > before and (since or h.loop.now_ms()) or nil
        return over or since and h.loop.now_ms() - since >= OPENING_MS
      end)
      local done = work(target)
      late = (over or h.windows_over(target.pid) > ended) and h.alive(target.pid)
      return done
    end,
  }
  if late then h.too_slow() end
  return results[1], results[2]
end

--- One window of collect_events by command line while the target does its work. Returns the envelope and what the target did.
---@param target table
---@param arguments table   of collect_events; processId is added
---@param work? fun(target: table): any   default: M.go
function M.collect(target, arguments, work)
  local given = { processId = target.pid }
  for name, value in pairs(arguments) do given[name] = value end
  return M.both(target, function() return h.call("collect_events", given) end, work or M.go)
end

-- A caller inside this process, for what the command line cannot ask.
local function caller()
  local ctx = { transport = "cli", era = "modern", in_task = false, principal = { name = "live test" }, state = {} }
  function ctx.can() return false end
  function ctx.progress() end
  return ctx
end

--- One window of a collector that also keeps the stream, then the same collector over the file. Returns both payloads (at Detail), what
--- the target did, and both artifacts.
---@param module string       in lua/collectors
---@param target table
---@param seconds integer
---@param work? fun(target: table): any   default: M.go
function M.live_and_recorded(module, target, seconds, work)
  local path = h.scratch() .. "/session.nettrace"
  local branch = require("collectors." .. module)
  local function run(arguments)
    arguments.durationSeconds, arguments.depth = seconds * h.slowness(), "Detail"
    local window = arguments.processId and h.window_begins(arguments.processId, arguments.durationSeconds)
    local payload, extras = branch.run(caller(), arguments)
    if window then h.window_ends(window, true) end
    if not payload then error(tostring(extras and extras.message or extras)) end
    return { payload = payload, artifact = extras.handle.artifact }
  end
  local live, did = M.both(target, function() return run { processId = target.pid, save_to = path } end, work or M.go)
  local recorded = run { traceFilePath = path }
  return live.payload, recorded.payload, did, live.artifact, recorded.artifact
end

--- The notes of a payload as one text.
function M.notes(payload) return table.concat(payload.notes, "\n") end

--- The targets of some runtimes at once; those that cannot be built are left out. Skips when none can.
---@param runtimes string[]
---@param skip fun(why: string)
function M.each_runtime(runtimes, skip, fn)
  local todo, why = {}, nil
  for _, runtime in ipairs(runtimes) do
    local built, reason = h.build_target(runtime)
    if built then todo[#todo + 1] = function() fn(runtime) return true end else why = reason end
  end
  if #todo == 0 then skip(why) end
  h.together(todo)
end

return M
