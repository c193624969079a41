-- SPDX-License-Identifier: MIT
-- Call trees of recordings that dotnet-trace makes of real processes, against TraceEvent's TraceLog (stack by stack, name by name), and
-- against what dotnet-trace itself converts and reports from the same files. Where a peer cannot be had, the case is skipped.
local h = require("harness")

local RUNTIMES <const> = { "net10.0", "net9.0", "net8.0" }
local DURATION <const> = "00:00:00:04"
local LEAST <const> = 1000  -- samples of a recording
local BIG <const> = 10      -- percent

--- The path of dotnet-trace; nil, why.
local function dotnet_trace()
  local found = h.loop.exec { argv = { "sh", "-c", "command -v dotnet-trace" }, timeout_ms = 5000 }
  if found and found.code == 0 then return (found.stdout:gsub("%s+$", "")) end
  local folder = h.build .. "/peers"
  local path = folder .. "/dotnet-trace"
  assert(h.fs.mkdirs(folder))
  local script = '[ -x "$1/dotnet-trace" ] || exec dotnet tool install dotnet-trace --tool-path "$1"'
  local done = h.loop.exec {
    argv = { "flock", folder .. "/.lock", "sh", "-c", script, "sh", folder }, timeout_ms = 300000, max_output = 100000,
  }
  if h.fs.stat(path) then return path end
  local said = done and (done.stderr .. done.stdout):sub(1, 300) or "no dotnet"
  return nil, "dotnet-trace is not in PATH and cannot be installed: " .. said
end

--- The peer on TraceEvent, built; nil, why.
local function trace_event()
  local folder = h.build .. "/peers/traceevent"
  assert(h.fs.mkdirs(folder))
  local built = h.loop.exec {
    argv = { "flock", folder .. "/.lock", "dotnet", "publish", h.source .. "/tests/live/peer/Peer.csproj", "-c", "Release", "-v", "quiet",
      "--artifacts-path", folder, "-o", folder .. "/out" },
    timeout_ms = 300000, max_output = 100000,
  }
  if built and built.code == 0 then return folder .. "/out/Peer" end
  h.ok(not (built and built.stdout:find("error CS", 1, true)), "the peer compiles: " .. (built and built.stdout or ""))
  return nil, "the peer on TraceEvent cannot be built: " .. (built and built.stdout:sub(1, 300) or "no dotnet")
end

--- A recording of a runtime under load, made by dotnet-trace.
local function record(tool, runtime)
  local target <close> = h.target(runtime, "cpu")
  local path = ("%s/%s.nettrace"):format(h.scratch(), runtime)
  local done = assert(h.loop.exec {
    argv = { tool, "collect", "-p", tostring(target.pid), "--duration", DURATION, "-o", path, "--providers",
      "Microsoft-DotNETCore-SampleProfiler,Microsoft-Windows-DotNETRuntime:0x38:4" },
    timeout_ms = 180000, max_output = 1000000,
  })
  h.eq(0, done.code, "dotnet-trace: " .. done.stderr .. done.stdout)
  return path
end

--- Our stacks, "root;caller;leaf" -> samples, as TraceLog names what it cannot resolve; and the number of samples.
local function ours(path)
  local out = path .. ".folded.txt"
  local done = assert(h.loop.exec {
    argv = { h.lunette, "profile", path, "--top", "0", "-o", out }, timeout_ms = 60000, max_output = 100000,
  })
  h.eq(0, done.code, done.stderr)
  local stacks, n = {}, 0
  for stack, count in assert(h.fs.read(out, 64000000)):gmatch("([^\n]*) (%d+)\n") do
    stack = stack:gsub("%?!0x%x+", "?")
    stacks[stack] = (stacks[stack] or 0) + math.tointeger(count)
    n = n + math.tointeger(count)
  end
  return stacks, n
end

-- ---- TraceLog -------------------------------------------------------------------------------------------------------------------------

local function stacks_agree(tool, peer, runtime)
  local path = record(tool, runtime)
  local done = assert(h.loop.exec { argv = { peer, "--stacks", path }, timeout_ms = 180000, max_output = 64000000 })
  h.eq(0, done.code, "the peer: " .. done.stderr)
  local theirs, stacks, n = h.json.decode(done.stdout).stacks, ours(path)
  h.ok(n >= LEAST, ("%s: %d samples"):format(runtime, n))
  local differ = {}
  for stack, count in pairs(theirs) do
    if stacks[stack] ~= count then differ[#differ + 1] = ("TraceEvent %d, ours %s: %s"):format(count, tostring(stacks[stack]), stack) end
  end
  for stack, count in pairs(stacks) do
    if not theirs[stack] then differ[#differ + 1] = ("TraceEvent none, ours %d: %s"):format(count, stack) end
  end
  h.eq(0, #differ, ("%s: stacks that differ: %s"):format(runtime, tostring(differ[1])))
  local hot = 0
  for stack, count in pairs(stacks) do hot = hot + (stack:find(";lunette-target!Lunette.Target.Hot", 1, true) and count or 0) end
  h.ok(hot > 0, runtime .. ": what the program does is among the stacks")
end

-- ---- dotnet-trace ---------------------------------------------------------------------------------------------------------------------

--- When each thread was sampled, as our reader tells it: by thread, milliseconds since the session's start.
local function sampled(path)
  local want = { { provider = "Microsoft-DotNETCore-SampleProfiler" } }
  local source <close> = assert(require("lunette.events").open { path = path, want = want })
  local times, threads = {}, 0
  while true do
    local events, err = source:next(60000)
    if not events then
      h.eq("NotFound", err.kind, "the recording was read to its end: " .. err.message)
      return times, threads
    end
    for _, event in ipairs(events) do
      if not times[event.thread] then times[event.thread], threads = {}, threads + 1 end
      table.insert(times[event.thread], event.time_ns / 1e6)
    end
  end
end

local function leaf_of(stack, names)
  for i = #stack, 1, -1 do
    local name = names[stack[i]]
    if name:find("!", 1, true) then return name == "?!?" and "?" or name end -- others say how the time was spent
  end
  return nil
end

--- Samples by leaf, as the evented profiles of a speedscope file have them; and the names of all frames. dotnet-trace gives the stack of a
--- sample the time until the next sample of its thread, however long that is: so in the middle between two samples stands the stack of
--- the first, and the last one of a thread has no time.
local function speedscope_leaves(path, times)
  local file = assert(h.json.decode(h.fs.read(path, 256000000)))
  local names, samples = {}, {}
  for i, frame in ipairs(file.shared.frames) do names[i - 1] = frame.name end
  for _, profile in ipairs(file.profiles) do
    local of = assert(times[tonumber(profile.name:match("^Thread %((%d+)%)"))], profile.name)
    local stack, next_event = {}, 1
    for i = 1, #of - 1 do
      local event = profile.events[next_event]
      while event and event.at <= (of[i] + of[i + 1]) / 2 do
        if event.type == "O" then stack[#stack + 1] = event.frame else stack[#stack] = nil end
        next_event = next_event + 1
        event = profile.events[next_event]
      end
      local leaf = leaf_of(stack, names)
      if leaf then samples[leaf] = (samples[leaf] or 0) + 1 end
    end
  end
  return samples, names
end

local function converted(tool, path)
  local done = assert(h.loop.exec {
    argv = { tool, "convert", path, "--format", "Speedscope" }, timeout_ms = 180000, max_output = 1000000,
  })
  h.eq(0, done.code, "dotnet-trace convert: " .. done.stderr .. done.stdout)
  return (path:gsub("%.nettrace$", ".speedscope.json"))
end

--- The methods of `dotnet-trace report topN`, as "Type.Method(" -> exclusive percent.
local function reported(tool, path)
  local done = assert(h.loop.exec {
    argv = { tool, "report", path, "topN", "-n", "20" }, timeout_ms = 180000, max_output = 1000000,
  })
  h.eq(0, done.code, "dotnet-trace report: " .. done.stderr .. done.stdout)
  local rows = {}
  for name, exclusive in done.stdout:gmatch("%d+%.%s+(%S+).-[%d.]+%%%s+([%d.]+)%%") do
    rows[name:gsub("^.*!", ""):match("^[^(]*")] = tonumber(exclusive)
  end
  return rows
end

local function dotnet_trace_agrees(tool, runtime)
  local path = record(tool, runtime)
  local stacks, n = ours(path)
  local times, threads = sampled(path)
  local theirs, names = speedscope_leaves(converted(tool, path), times)
  local rows = reported(tool, path)
  local frames, leaves = {}, {}
  for stack, count in pairs(stacks) do
    for frame in stack:gmatch("[^;]+") do frames[frame] = true end
    local leaf = stack:match("[^;]+$")
    leaves[leaf] = (leaves[leaf] or 0) + count
  end
  local compared = 0
  for _, name in pairs(names) do
    if name:find("!", 1, true) and name ~= "?!?" then
      h.ok(frames[name] ~= nil, ("%s: a frame of dotnet-trace is ours, too: %s"):format(runtime, name))
      compared = compared + 1
    end
  end
  h.ok(compared > 20, ("%s: %d frames compared"):format(runtime, compared))
  local big, without_time = 0, 0
  for leaf, count in pairs(leaves) do
    local diff = count - (theirs[leaf] or 0)
    h.ok(diff >= 0, ("%s: samples that end in %s: ours %d, in the speedscope file %d"):format(runtime, leaf, count, theirs[leaf] or 0))
    without_time = without_time + diff
    if count >= n * BIG / 100 and leaf ~= "?" then
      big = big + 1
      local short = leaf:gsub("^.*!", ""):match("^[^(]*"):match("[^.]+%.%.?[^.]+$")
      h.ok(rows[short] ~= nil, ("%s: %s is in the report"):format(runtime, short))
    end
  end
  -- with `diff >= 0` for each leaf: all samples agree, but the last one of each thread
  h.eq(threads, without_time, ("%s: samples of ours, of %d, that are not in the speedscope file"):format(runtime, n))
  h.ok(big >= 1, runtime .. ": a method of at least 10 %")
end

local function on_each_runtime(fn)
  return function(skip)
    local tool, why = dotnet_trace()
    if not tool then skip(why) end
    fn(tool, skip)
  end
end

return {
  {
    "stacks agree with TraceEvent, one by one", on_each_runtime(function(tool, skip)
      local peer, why = trace_event()
      if not peer then skip(why) end
      require("during").each_runtime(RUNTIMES, skip, function(runtime) stacks_agree(tool, peer, runtime) end)
    end),
  },
  {
    "frames and shares agree with dotnet-trace convert and report", on_each_runtime(function(tool, skip)
      require("during").each_runtime(RUNTIMES, skip, function(runtime) dotnet_trace_agrees(tool, runtime) end)
    end),
  },
}
