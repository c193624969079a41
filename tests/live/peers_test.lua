-- SPDX-License-Identifier: MIT
-- The same numbers as dotnet-counters, which watches the same process beside us, and as TraceEvent (peer/), which reads the same
-- recordings. The tool is looked for in PATH, and else installed below the build folder; where a peer cannot be had, its cases are skipped.
local during = require("during")
local h = require("harness")

local RUNTIMES <const> = { "net10.0", "net8.0" }
local WATCH <const> = "00:00:00:10" -- dotnet-counters
local SECONDS <const> = 4           -- ours, within it
local FIGHT <const> = "Lunette.Target." -- where the target's threads wait for each other
local YOUNG_MS <const> = 2000       -- counters that are enabled while a runtime starts have hung some versions

--- The path of dotnet-counters; nil, why.
local function peer()
  local found = h.loop.exec { argv = { "sh", "-c", "command -v dotnet-counters" }, timeout_ms = 5000 }
  if found and found.code == 0 then return (found.stdout:gsub("%s+$", "")) end
  local folder = h.build .. "/peers"
  local path = folder .. "/dotnet-counters"
  assert(h.fs.mkdirs(folder))
  -- one installs it, those who come at the same time wait
  local script = '[ -x "$1/dotnet-counters" ] || exec dotnet tool install dotnet-counters --tool-path "$1"'
  local done = h.loop.exec {
    argv = { "flock", folder .. "/.lock", "sh", "-c", script, "sh", folder }, timeout_ms = 300000, max_output = 100000,
  }
  if h.fs.stat(path) then return path end
  local said = done and (done.stderr .. done.stdout):sub(1, 300) or "no dotnet"
  return nil, "dotnet-counters is not in PATH and cannot be installed: " .. said
end

--- Sums of the counters of System.Runtime over the time of its watch, by their shown name.
local function sums_of(path)
  local sums = {}
  for _, e in ipairs(assert(h.json.decode(h.fs.read(path, 4000000))).Events) do
    local name = e.name:match("^(.-) %(") or e.name
    sums[name] = (sums[name] or 0) + e.value
  end
  return sums
end

--- One window beside a watch of dotnet-counters over the whole of it. Returns the payload, what the target did, and the peer's sums.
local function side_by_side(counters, runtime, mode, number, kind, member)
  local target <close> = h.target(runtime, mode, number, { go = false })
  h.loop.sleep_ms(YOUNG_MS)
  local path = h.scratch() .. "/counters.json"
  local watch = h.loop.spawn(function()
    return h.loop.exec {
      argv = { counters, "collect", "-p", tostring(target.pid), "--format", "json", "-o", path, "--refresh-interval", "1",
        "--duration", WATCH, "--counters", "EventCounters\\System.Runtime" },
      timeout_ms = 180000, max_output = 1000000,
    }
  end)
  h.wait_for("the session of dotnet-counters", h.START_MS, function() return during.sessions(target) == 1 end)
  local envelope, did = during.collect(target, { kind = kind, durationSeconds = SECONDS, depth = "Detail" })
  h.ok(not envelope.error, kind .. " has an answer: " .. envelope.summary)
  local done = assert(watch:await(180000))
  h.eq(0, done.code, "dotnet-counters: " .. done.stderr .. done.stdout)
  return envelope.data[member], did, sums_of(path)
end

local function on_each_runtime(fn)
  return function(skip)
    local counters, why = peer()
    if not counters then skip(why) end
    during.each_runtime(RUNTIMES, skip, function(runtime) fn(counters, runtime) end)
  end
end

local function exceptions(counters, runtime)
  local e, did, sums = side_by_side(counters, runtime, "throw", 20, "exceptions", "exceptions")
  h.eq({ did.thrown, did.thrown }, { e.totalExceptions, math.tointeger(sums["Exception Count"]) }, runtime)
end

local function collections(counters, runtime)
  local gc, did, sums = side_by_side(counters, runtime, "gcs", 5, "gc", "gc")
  local ours = {}
  for _, row in ipairs(gc.generations) do ours[row.generation] = row.count end
  -- the counter of a generation counts the collections of older ones, too
  local of = { ours[0] + ours[1] + ours[2], ours[1] + ours[2], ours[2] }
  h.eq({ did.gen0, did.gen1, did.gen2 }, of, runtime .. ": what the program did")
  local peers = {}
  for i = 0, 2 do peers[i + 1] = math.tointeger(sums[("Gen %d GC Count"):format(i)]) end
  h.eq(of, peers, runtime .. ": the peer")
end

local function contentions(counters, runtime)
  local c, did, sums = side_by_side(counters, runtime, "fights", 40, "contention", "contention")
  -- the runtime's own locks count, too: its polling of counters for the peer and the opening of our session can meet at one
  local fights, others = 0, {}
  for _, e in ipairs(c.events) do
    if e.callSiteMethod:find(FIGHT, 1, true) then fights = fights + 1 else others[#others + 1] = e.callSiteMethod end
  end
  h.eq({ did.fights, c.totalEvents - did.fights }, { fights, #others }, runtime .. ": ours, and at " .. table.concat(others, ", "))
  -- the peer watches longer, so it may see more of the runtime's own at its session's beginning or end
  local theirs = math.tointeger(sums["Monitor Lock Contention Count"])
  h.ok(theirs >= c.totalEvents and theirs <= c.totalEvents + 2, ("%s: %d fights, dotnet-counters %d"):format(runtime, did.fights, theirs))
end

-- ---- TraceEvent -----------------------------------------------------------------------------------------------------------------------

local RECORDINGS <const> = {
  "throw", "net8-throw", "gcs", "net9-gcs", "net8-gcs", "bgc", "fights", "net8-fights", "holds", "jit", "net8-jit", "pool", "services",
}

--- What TraceEvent counts in the recordings, one object a line; nil, why.
local function trace_event(paths)
  local folder = h.build .. "/peers/traceevent"
  assert(h.fs.mkdirs(folder))
  local built = h.loop.exec {
    argv = { "flock", folder .. "/.lock", "dotnet", "publish", h.source .. "/tests/live/peer/Peer.csproj", "-c", "Release", "-v", "quiet",
      "--artifacts-path", folder, "-o", folder .. "/out" },
    timeout_ms = 300000, max_output = 100000,
  }
  if not built or built.code ~= 0 then
    h.ok(not (built and built.stdout:find("error CS", 1, true)), "the peer compiles: " .. (built and built.stdout or ""))
    return nil, "the peer on TraceEvent cannot be built: " .. (built and built.stdout:sub(1, 300) or "no dotnet")
  end
  local done = assert(h.loop.exec {
    argv = table.move(paths, 1, #paths, 2, { folder .. "/out/Peer" }), timeout_ms = 180000, max_output = 100000,
  })
  h.eq(0, done.code, "the peer: " .. done.stderr)
  return done.stdout
end

local function ours(kind, path) return h.call("collect_events", { kind = kind, traceFilePath = path, depth = "Detail" }).data end

local function recordings_agree(skip)
  local paths = {}
  for i, name in ipairs(RECORDINGS) do paths[i] = ("%s/tests/data/recordings/%s.nettrace"):format(h.source, name) end
  local text, why = trace_event(paths)
  if not text then skip(why) end
  local seen = { exceptions = 0, collections = 0, contentions = 0, jitted = 0, queued = 0, assemblies = 0 }
  local i = 0
  for line in text:gmatch("[^\n]+") do
    i = i + 1
    local peer_of = h.json.decode(line)
    local path, name = peer_of.path, RECORDINGS[i]
    h.eq(paths[i], path, "the recording")
    local exceptions_of = {}
    for _, row in ipairs(ours("exceptions", path).exceptions.byType) do
      exceptions_of[row.exceptionType] = row.count
      seen.exceptions = seen.exceptions + row.count
    end
    h.eq(peer_of.exceptions, exceptions_of, name .. ": exceptions by type")
    local by_generation = { 0, 0, 0 }
    for _, row in ipairs(ours("gc", path).gc.generations) do by_generation[row.generation + 1] = row.count end
    h.eq(peer_of.collections, by_generation, name .. ": collections by generation")
    seen.collections = seen.collections + by_generation[1] + by_generation[2] + by_generation[3]
    local locks = ours("contention", path).contention
    h.eq(peer_of.contentions, locks.totalEvents, name .. ": contentions")
    seen.contentions = seen.contentions + locks.totalEvents
    local jit = ours("jit", path).jit
    h.eq(peer_of.jitted, jit.jitStartCount, name .. ": compilations")
    seen.jitted = seen.jitted + jit.jitStartCount
    local pool = ours("threadpool", path).threadPool
    h.eq(peer_of.queued, pool.totalEnqueueEvents, name .. ": work items")
    seen.queued = seen.queued + pool.totalEnqueueEvents
    local startup = ours("startup", path).startup
    h.eq(peer_of.assemblies, startup.assemblyLoadCount, name .. ": assemblies")
    seen.assemblies = seen.assemblies + startup.assemblyLoadCount
  end
  h.eq(#RECORDINGS, i, "recordings")
  for what, n in pairs(seen) do h.ok(n > 0, "the recordings hold " .. what) end
end

return {
  { "recordings agree with TraceEvent", recordings_agree },
  { "exceptions agree with dotnet-counters", on_each_runtime(exceptions) },
  { "collections agree with dotnet-counters", on_each_runtime(collections) },
  { "contentions agree with dotnet-counters", on_each_runtime(contentions) },
}
