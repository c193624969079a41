-- SPDX-License-Identifier: MIT
-- What native-alloc and native-lock-contention count, beside what `perf stat` counts of the same run by probes of its own on the same
-- functions: the numbers are equal.
local h = require("harness")
local k = require("kernel")

-- The runtime does nothing by itself: no methods compiled again, no session for names.
local QUIET <const> = { "env", "DOTNET_TieredCompilation=0", "DOTNET_EnableDiagnostics=0" }
local PREFIX <const> = "probe_libc:live_"

-- perf keeps a copy of what it looked at below HOME; it dies with us, since probes that are in use cannot be removed.
local function perf(dir, words, timeout_ms)
  local argv = { "env", "HOME=" .. dir, "setpriv", "--pdeathsig", "KILL", "perf" }
  table.move(words, 1, #words, #argv + 1, argv)
  return h.loop.exec { argv = argv, timeout_ms = timeout_ms or 20000, max_output = 1024 * 1024 }
end

local function remove(dir, name) perf(dir, { "probe", "-q", "--del", name .. "*" }) end

-- Probes of a test that was killed.
local function remove_stale(dir)
  local done = h.ok(perf(dir, { "probe", "-l" }))
  for name, pid in done.stdout:gmatch("(" .. PREFIX .. "(%d+)_)") do
    if not h.alive(tonumber(pid)) then remove(dir, name) end
  end
end

--- Probes of perf on functions of the C library, gone when closed.
local function probes_on(functions, dir, skip)
  local version = perf(dir, { "--version" })
  if not version or version.code ~= 0 then skip("no perf program") end
  remove_stale(dir)
  local libc = h.ok(h.fs.read("/proc/self/maps", 1024 * 1024):match("(/%S+/libc%.so%.6)"), "a C library")
  local made = setmetatable({ name = ("%s%d_%d_"):format(PREFIX, h.sys.pid, h.number()), events = {} },
    { __close = function(self) remove(dir, self.name) end })
  for i, name in ipairs(functions) do
    local event = made.name:match(":(.*)$") .. name
    local done = perf(dir, { "probe", "-q", "-x", libc, "--add", event .. "=" .. name })
    if not done or done.code ~= 0 then
      remove(dir, made.name)
      skip("perf cannot make a probe: " .. (done and done.stderr:match("[^\n]*") or "it did not end"))
    end
    made.events[i] = "probe_libc:" .. event
  end
  return made
end

local function shell(dir, script)
  local done = h.ok(h.loop.exec { argv = { "sh", "-c", "cd " .. dir .. " && " .. script }, timeout_ms = 60000 })
  h.eq(0, done.code, script .. ": " .. done.stderr)
  return done.stdout
end

--- `perf stat` of a process, which counts from its enable() to its result(): event -> number.
local function counting(pid, probes, dir)
  shell(dir, "mkfifo control ack over")
  local self = {}
  local task = h.loop.spawn(function()
    return perf(dir, { "stat", "-x,", "-D", "-1", ("--control=fifo:%s/control,%s/ack"):format(dir, dir), "-e",
      table.concat(probes.events, ","), "-p", tostring(pid), "--", "sh", "-c", ("read x <%s/over"):format(dir) }, 120000)
  end)
  local function ordered(word) h.eq("ack", shell(dir, ("echo %s >control && head -n 1 ack"):format(word)):match("%a+"), word) end
  function self.enable() ordered("enable") end
  function self.result()
    ordered("disable")
    shell(dir, "echo >over")
    local done, list = h.ok(task:await(h.START_MS)), {}
    for n, event in done.stderr:gmatch("(%d+),,([%w_:]+)") do list[event] = math.tointeger(n) end
    return list
  end
  return setmetatable(self, { __close = function() task:cancel("the test is over") end })
end

local WINDOWS <const> = 3 -- the runtime may take a lock of its own between the ends of perf's window and ours

-- One window: what we counted and what perf did, by function, and what the target says of it.
local function one_window(server, target, kind, functions, skip)
  local dir = h.scratch()
  local probes <close> = probes_on(functions, dir, skip)
  local theirs <close> = counting(target.pid, probes, dir)
  theirs.enable()
  local envelope, did = k.during(server, target,
    { kind = kind, durationSeconds = 3, nativeAllocSamplePeriod = 1, nativeLockContentionSamplePeriod = 1 })
  local data, counted = envelope.data.nativeAlloc or envelope.data.nativeLockContention, theirs.result()
  local ours, perfs = {}, {}
  for i, name in ipairs(functions) do
    ours[name] = h.ok(h.find(data.byFunction, { ["function"] = name }), name).hits
    perfs[name] = h.ok(counted[probes.events[i]], "perf counts " .. name)
    h.ok(ours[name] <= perfs[name], ("%s: %d by us, %d by perf, whose window is the longer"):format(name, ours[name], perfs[name]))
  end
  return ours, perfs, did
end

local function beside_perf(kind, mode, n, functions, expected)
  return function(skip)
    k.need(skip, "net10.0", "uprobe")
    local server <close> = h.server()
    local target <close> = k.start("net10.0", mode, n, QUIET)
    local ours, perfs
    for _ = 1, WINDOWS do
      local did
      ours, perfs, did = one_window(server, target, kind, functions, skip)
      for name, of in pairs(expected) do h.ok(ours[name] >= did[of], ("%s: %d of %d"):format(name, ours[name], did[of])) end
      if h.json.encode(ours) == h.json.encode(perfs) then break end
    end
    h.eq(perfs, ours, "calls by perf and by us")
    k.no_probes_of(server)
  end
end

--- perf's probes are gone whatever became of the tests.
local function nothing_left(skip)
  local version = h.loop.exec { argv = { "perf", "--version" }, timeout_ms = 10000 }
  if not version or version.code ~= 0 then skip("no perf program") end
  local dir = h.scratch()
  local ok = pcall(function()
    local probes <close> = probes_on({ "malloc" }, dir, skip)
    h.ok(k.uprobes():find(probes.name:match(":(.*)$"), 1, true), "a probe of perf")
    error("the test fails")
  end)
  h.ok(not ok)
  h.ok(not k.uprobes():find(("live_%d_"):format(h.sys.pid), 1, true), "perf's probes are gone: " .. k.uprobes())
end

local function both(skip)
  beside_perf("native-alloc", "allocs", 440, { "malloc", "calloc", "realloc" },
    { malloc = "malloc", calloc = "calloc", realloc = "realloc" })(skip)
  beside_perf("native-lock-contention", "locks", 440,
    { "pthread_mutex_lock", "pthread_mutex_unlock", "pthread_mutex_trylock", "pthread_mutex_timedlock" },
    { pthread_mutex_lock = "locks", pthread_mutex_unlock = "locks" })(skip)
  nothing_left(skip)
end

return { { "calls of malloc and of mutexes, by perf and by us", both } }
