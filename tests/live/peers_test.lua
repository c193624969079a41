-- SPDX-License-Identifier: MIT
-- The same numbers as dotnet-counters, which watches the same process beside us: what is thrown, collected and fought for.
-- The tool is looked for in PATH, and else installed below the build folder; where it cannot be, the cases are skipped.
local during = require("during")
local h = require("harness")

local RUNTIMES <const> = { "net10.0", "net8.0" }
local WATCH <const> = "00:00:00:10" -- dotnet-counters
local SECONDS <const> = 4           -- ours, within it
local YOUNG_MS <const> = 2000       -- counters that are enabled while a runtime starts have hung some versions

--- The path of dotnet-counters; nil, why.
local function peer()
  local found = h.loop.exec { argv = { "sh", "-c", "command -v dotnet-counters" }, timeout_ms = 5000 }
  if found and found.code == 0 then return (found.stdout:gsub("%s+$", "")) end
  local folder = h.build .. "/peers"
  local path = folder .. "/dotnet-counters"
  if h.fs.stat(path) then return path end
  local done = h.loop.exec {
    argv = { "dotnet", "tool", "install", "dotnet-counters", "--tool-path", folder }, timeout_ms = 300000, max_output = 100000,
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
      timeout_ms = 60000, max_output = 1000000,
    }
  end)
  h.wait_for("the session of dotnet-counters", h.START_MS, function() return during.sessions(target) == 1 end)
  local envelope, did = during.collect(target, { kind = kind, durationSeconds = SECONDS, depth = "Detail" })
  h.ok(not envelope.error, kind .. " has an answer: " .. envelope.summary)
  local done = assert(watch:await(60000))
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
  h.eq(did.fights, c.totalEvents, runtime .. ": ours")
  -- the peer watches longer, so it may see one of the runtime's own at its session's beginning or end
  local theirs = math.tointeger(sums["Monitor Lock Contention Count"])
  h.ok(theirs >= did.fights and theirs <= did.fights + 2, ("%s: %d fights, dotnet-counters %d"):format(runtime, did.fights, theirs))
end

return {
  { "exceptions agree with dotnet-counters", on_each_runtime(exceptions) },
  { "collections agree with dotnet-counters", on_each_runtime(collections) },
  { "contentions agree with dotnet-counters", on_each_runtime(contentions) },
}
