-- SPDX-License-Identifier: MIT
-- The kernel's samplers where something is missing: names of the kernel, tracing files, privilege, a namespace's own root.
local h = require("harness")
local k = require("kernel")

-- ---- without names of the kernel: system calls are traced ------------------------------------------------------------------------------

local NO_SYSLOG <const> = { "setpriv", "--bounding-set=-syslog" }

local function runs(argv)
  local done = h.loop.exec { argv = argv, timeout_ms = 10000 }
  return done and done.code == 0 and done or nil
end

-- What the kernel's own rule makes of it: names are hidden from whoever has no CAP_SYSLOG.
local function names_are_hidden(skip)
  local argv = { table.unpack(NO_SYSLOG) }
  table.move({ "head", "-n", "1", "/proc/kallsyms" }, 1, 4, #argv + 1, argv)
  local done = runs(argv)
  if not done then skip("capabilities cannot be dropped here") end
  if not done.stdout:find("^0+ ") then skip("the kernel shows its names to everybody") end
end

local function hidden_names(runtime)
  return function(skip)
    k.need(skip, runtime, "sched_switch")
    names_are_hidden(skip)
    local server <close> = h.server { wrapper = NO_SYSLOG }
    local target <close> = k.start(runtime, "waits", 10)
    local envelope, did = k.during(server, target, { kind = "off_cpu", durationSeconds = 4, topN = 100 })
    k.check_waits(server, envelope, did, 10, runtime, true)
  end
end

--- Samples of the processor: the kernel is one frame, which leads to no address.
local function hidden_kernel(skip)
  k.need(skip, "net10.0", "cpu_clock")
  names_are_hidden(skip)
  local server <close> = h.server { wrapper = NO_SYSLOG }
  local target <close> = k.start("net10.0", "pingpong", 100000000)
  target:command("go")
  local envelope = k.call(server, { kind = "cpu", cpuBackend = "Os", processId = target.pid, durationSeconds = 2, topN = 100 })
  h.ok(not envelope.error, h.json.encode(envelope.error or {}))
  local methods = k.ask(server, envelope, "top-methods", { topN = 100 })
  local text = h.json.encode(envelope.data) .. h.json.encode(methods)
  local one
  for _, spot in ipairs(envelope.data.cpu.topHotspots) do
    if spot.frame.module == "[kernel]" then
      h.eq({ nil, "(not named)" }, { one, spot.frame.method }, "one frame")
      one = spot
    end
  end
  h.ok(one and one.exclusiveSamples > 0, "the kernel's part: " .. text)
  h.ok(not text:find("0xffff", 1, true), "no address of the kernel: " .. text)
  h.ok(table.concat(envelope.data.cpu.notes, "\n"):find("KernelNames: ", 1, true), "it is said")
end

-- ---- in namespaces and containers -----------------------------------------------------------------------------------------------------

-- What `unshare`, or a script that it runs, has started: the process that this one waits for.
local function child_of(pid)
  return h.wait_for("the process inside", h.START_MS, function()
    return tonumber((h.fs.read(("/proc/%d/task/%d/children"):format(pid, pid), 256) or ""):match("%d+"))
  end)
end

local function joined(...)
  local argv = {}
  for _, words in ipairs { ... } do table.move(words, 1, #words, #argv + 1, argv) end
  return argv
end

-- A target in a place of its own and a server in the same: the server, the target, and the target's pid as the server sees it.
-- enter: the words of nsenter; less: what is taken from the server besides.
local function both_inside(place, enter, less, mode, n)
  local target = k.start("net10.0", mode, n, place.words)
  local first = place.forks and child_of(target.pid) or target.pid
  local ok, server = pcall(h.server, { wrapper = joined({ "nsenter", "-t", tostring(first) }, enter, less) })
  if not ok then
    target:kill()
    error(server, 0)
  end
  if place.forks then server.pid = child_of(server.pid) end
  return target, server, tonumber(target.ready:match("^READY (%d+)"))
end

-- Allocations by whatever way is left, exactly; the error or the counters of the others.
local function check_inside(server, target, pid, expected)
  local seen = setmetatable({ pid = pid }, { __index = target }) -- commands go to the target, calls to its number inside
  local envelope, did = k.during(server, seen, { kind = "native-alloc", nativeAllocSamplePeriod = 1, durationSeconds = 3, topN = 50 })
  local data = envelope.data.nativeAlloc
  h.ok(expected.backends[data.backend], "the way: " .. data.backend)
  h.eq(data.backend == "linux-breakpoint", table.concat(data.notes, "\n"):find("Breakpoints: ", 1, true) ~= nil, "it is said")
  for name, least in pairs { malloc = did.malloc, calloc = did.calloc, realloc = did.realloc } do
    h.ok(h.find(data.byFunction, { ["function"] = name }).hits >= least, "calls of " .. name)
  end
  local by_site = {}
  for _, spot in ipairs(data.topHotspots) do by_site[spot.frame.method] = spot.exclusiveSamples end
  local notes = table.concat(data.notes, "\n")
  local lost = tonumber(notes:match("RecordsLost: the kernel could not deliver (%d+) stacks")) or 0 -- its rings are small without privilege
  local n = (by_site.known_site_malloc or 0) + (by_site.known_site_calloc or 0) + (by_site.known_site_realloc or 0)
  local wanted = did.malloc + did.calloc + did.realloc
  h.ok(n <= wanted and n + lost >= wanted, ("calls by site: %d of %d; %s"):format(n, wanted, notes))
  h.ok(not notes:find("Remainder", 1, true), "what is lost is no remainder: " .. notes)
  envelope = k.call(server, { kind = "off_cpu", processId = pid, durationSeconds = 1 })
  h.eq(expected.error, envelope.error and envelope.error.kind, "off_cpu: " .. h.json.encode(envelope))
  h.ok(envelope.error.message:find(expected.says), envelope.error.message)
  h.ok(envelope.error.message:find(expected.cure), envelope.error.message)
  h.eq("inspect_process", envelope.hints[1].nextTool)
  envelope = k.call(server, { kind = "native-lock-contention", processId = pid, durationSeconds = 1 })
  h.ok(not envelope.error, "native-lock-contention: " .. h.json.encode(envelope.error or {}))
  local locks = envelope.data.nativeLockContention
  h.eq({ "native-lock-contention:" .. data.backend:gsub("linux%-", "") }, locks.contentionEvidence.evidenceSources, "evidence")
  envelope = k.call(server, { kind = "cpu-efficiency", processId = pid, durationSeconds = 1 })
  h.ok(not envelope.error and envelope.data.cpuEfficiency.taskClockMs, "counters: " .. h.json.encode(envelope.error or {}))
  envelope = k.call(server, { kind = "cpu", cpuBackend = "Os", processId = pid, durationSeconds = 1 })
  if envelope.error then
    h.ok(({ PermissionDenied = true, NotSupported = true })[envelope.error.kind], "cpu: " .. h.json.encode(envelope.error))
  else
    h.eq("OsOnCpuSamples", envelope.data.cpu.evidence.kind, "samples of the kernel, not of the runtime")
  end
  local said = h.ok(server:call("inspect_process", { view = "capabilities", processId = pid })).data
  local text = h.json.encode(said)
  h.ok(text:find('"canSampleOffCpu":false', 1, true) and text:find(expected.told), "what it can is told: " .. text)
end

local function user_namespace(pids)
  return function(skip)
    k.need(skip, "net10.0", "breakpoint")
    local words = pids and { "unshare", "-Urp", "--fork", "--kill-child", "--mount-proc" } or { "unshare", "-Ur" }
    if not runs(joined(words, { "true" })) then skip("user namespaces cannot be made here") end
    local enter = pids and { "-U", "-p", "-m", "--preserve-credentials" } or { "-U", "--preserve-credentials" }
    local target, server, pid = both_inside({ words = words, forks = pids }, enter, {}, "allocs", 200)
    local first <close> = target -- luacheck: ignore 211
    local second <close> = server -- luacheck: ignore 211
    check_inside(server, target, pid, {
      error = "PermissionDenied", says = "user namespace", told = "user namespace", cure = "initial user namespace",
      backends = { ["linux-uprobe"] = true, ["linux-breakpoint"] = true },
    })
  end
end

--- A pod that shares its processes: the kernel's events number threads as the host does, and everything else as the pod.
local function pod(skip)
  k.need(skip, "net10.0", "sched_switch")
  local words = { "unshare", "-p", "--fork", "--kill-child", "--mount-proc" }
  if not runs(joined(words, { "true" })) then skip("namespaces cannot be made here") end
  local target, server, pid = both_inside({ words = words, forks = true }, { "-p", "-m" }, {}, "waits", 10)
  local first <close> = target -- luacheck: ignore 211
  local second <close> = server -- luacheck: ignore 211
  local seen = setmetatable({ pid = pid }, { __index = target })
  local envelope, did = k.during(server, seen, { kind = "off_cpu", durationSeconds = 4, topN = 100 })
  k.check_waits(server, envelope, did, 10, "net10.0")
end

-- As a container of Docker has it: its own root, processes and mounts, /sys to read only, no tracing files, no capabilities.
local BOX <const> = [[
set -e
mount --make-rprivate /
mount --rbind / "$1"
umount -l "$1/sys"
mount -t sysfs -o ro sysfs "$1/sys"
mount -t proc proc "$1/proc"
shift_root=$1; shift
exec chroot "$shift_root" "$@"
]]
local LESS <const> = { "setpriv", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all" }

-- The words that run a program in a box of its own.
local function boxed()
  local dir = h.scratch()
  assert(h.fs.mkdirs(dir .. "/root"))
  local file <close> = assert(io.open(dir .. "/box.sh", "w"))
  file:write(BOX)
  file:flush()
  return joined({ "unshare", "-mp", "--fork", "--kill-child", "sh", dir .. "/box.sh", dir .. "/root" }, LESS)
end

--- From outside of the box: its threads have other numbers, and its files other paths.
local function box_from_outside(skip)
  k.need(skip, "net10.0", "sched_switch")
  local words = boxed()
  if not runs(joined(words, { "true" })) then skip("namespaces and mounts cannot be made here") end
  local server <close> = h.server()
  local target <close> = k.start("net10.0", "waits", 10, words)
  local seen = setmetatable({ pid = child_of(target.pid) }, { __index = target })
  local envelope, did = k.during(server, seen, { kind = "off_cpu", durationSeconds = 4, topN = 100 })
  k.check_waits(server, envelope, did, 10, "net10.0")
end

local function container(skip)
  k.need(skip, "net10.0", "breakpoint")
  local words = boxed()
  if not runs(joined(words, { "true" })) then skip("namespaces and mounts cannot be made here") end
  local target, server, pid = both_inside({ words = words, forks = true }, { "-m", "-p", "-r", "-w" }, LESS, "allocs", 200)
  local first <close> = target -- luacheck: ignore 211
  local second <close> = server -- luacheck: ignore 211
  check_inside(server, target, pid, {
    error = "NotSupported", says = "tracefs is not mounted", told = "tracing file system is not mounted",
    cure = "/sys/kernel/tracing:ro", backends = { ["linux-breakpoint"] = true },
  })
end

-- ---- what stands still, and what has many threads --------------------------------------------------------------------------------------

--- A process that is stopped: that it is, is said by each kind; its runtime, which cannot answer, is not waited for; it stays stopped.
local function stopped(skip)
  k.need(skip, "net10.0", "sched_switch")
  local server <close> = h.server()
  local target <close> = k.start("net10.0", "idle", 1)
  target:signal("STOP")
  local _ <close> = setmetatable({}, { __close = function() target:signal("CONT") end })
  for _, kind in ipairs { "off_cpu", "native-alloc", "cpu-efficiency", "cpu" } do
    local began = h.loop.now_ms()
    local envelope = k.call(server, { kind = kind, processId = target.pid, durationSeconds = 1,
      cpuBackend = kind == "cpu" and "Os" or nil })
    h.ok(not envelope.error, kind .. ": " .. h.json.encode(envelope.error or {}))
    local notes = h.json.encode(envelope.data)
    h.ok(notes:find(("Stopped: .* by a signal %%(kill %%-CONT %d "):format(target.pid)), kind .. ": " .. notes)
    h.ok(h.loop.now_ms() - began < 15000, ("%s took %d ms"):format(kind, h.loop.now_ms() - began))
    h.eq("T", require("lunette.proc").stat(target.pid).state, "it is as it was")
  end
end

local NO_TRACING <const> = { "unshare", "-m", "sh", "-c", 'umount -l /sys/kernel/tracing && exec "$@"', "sh" }

--- Uprobes without the tracing files are one a function, thread and processor, and take the kernel long to remove: of many threads they
--- are not made.
local function many_threads(skip)
  k.need(skip, "net10.0", "breakpoint")
  local words = { table.unpack(NO_TRACING) }
  words[#words + 1] = "true"
  if not runs(words) then skip("mounts cannot be taken away here") end
  local server <close> = h.server { wrapper = NO_TRACING }
  local target <close> = h.target("net10.0", "walk", 200)
  local began = h.loop.now_ms()
  local envelope = k.call(server, { kind = "native-alloc", nativeAllocSamplePeriod = 1, processId = target.pid, durationSeconds = 1 })
  h.ok(not envelope.error, h.json.encode(envelope.error or {}))
  local data = envelope.data.nativeAlloc
  h.eq("linux-breakpoint", data.backend)
  h.ok(table.concat(data.notes, "\n"):find("Breakpoints: .*too many threads"), "it is said: " .. h.json.encode(data.notes))
  h.ok(h.loop.now_ms() - began < 15000, ("it took %d ms"):format(h.loop.now_ms() - began))
end

return {
  { "a stopped process, and many threads without tracing files", h.side_by_side(stopped, many_threads) },
  { "in a user namespace, with the same processes and its own", h.side_by_side(user_namespace(false), user_namespace(true)) },
  { "in a pod that shares its processes", pod },
  { "as in a container", container },
  { "a container, from outside", box_from_outside },
  { "samples of a kernel that hides its names", hidden_kernel },
  { "system calls by their trace, net10.0 and net9.0", k.at_once({ "net10.0", "net9.0" }, hidden_names) },
  { "system calls by their trace, net8.0 and aot", k.at_once({ "net8.0", "aot" }, hidden_names) },
}
