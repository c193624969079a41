-- SPDX-License-Identifier: MIT
-- Call trees of recordings that dotnet-trace makes of real processes, against TraceEvent's TraceLog (stack by stack, name by name), and
-- against what dotnet-trace itself converts and reports from the same files. Where a peer cannot be had, the case is skipped.
local h = require("harness")

local RUNTIMES <const> = { "net10.0", "net9.0", "net8.0" }
local DURATION <const> = "00:00:00:04"
local LEAST <const> = 1000  -- samples of a recording
-- dotnet-trace weighs a sample by the time to the next one of its thread, we count samples: the same where they come evenly.
local POINTS <const> = 6
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

--- Shares of the leaves of the evented profiles of a speedscope file, by time; and all frames.
local function shares_of(path)
  local file = assert(h.json.decode(h.fs.read(path, 256000000)))
  local names, time, all = {}, {}, 0
  for i, frame in ipairs(file.shared.frames) do names[i - 1] = frame.name end
  for _, profile in ipairs(file.profiles) do
    local stack, last = {}, profile.startValue
    for _, event in ipairs(profile.events) do
      local leaf
      for i = #stack, 1, -1 do
        if names[stack[i]]:find("!", 1, true) and names[stack[i]] ~= "?!?" then
          leaf = names[stack[i]]
          break
        end
      end
      if leaf then
        time[leaf] = (time[leaf] or 0) + event.at - last
        all = all + event.at - last
      end
      last = event.at
      if event.type == "O" then stack[#stack + 1] = event.frame else stack[#stack] = nil end
    end
  end
  for leaf, t in pairs(time) do time[leaf] = 100 * t / all end
  return time, names
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
  local time, names = shares_of(converted(tool, path))
  local rows = reported(tool, path)
  local frames, leaves = {}, {}
  for stack, count in pairs(stacks) do
    for frame in stack:gmatch("[^;]+") do frames[frame] = true end
    local leaf = stack:match("[^;]+$")
    leaves[leaf] = (leaves[leaf] or 0) + 100 * count / n
  end
  local compared = 0
  for _, name in pairs(names) do
    if name:find("!", 1, true) and name ~= "?!?" then
      h.ok(frames[name] ~= nil, ("%s: a frame of dotnet-trace is ours, too: %s"):format(runtime, name))
      compared = compared + 1
    end
  end
  h.ok(compared > 20, ("%s: %d frames compared"):format(runtime, compared))
  local big = 0
  for leaf, share in pairs(leaves) do
    if share >= BIG and leaf ~= "?" then
      big = big + 1
      h.near(share, POINTS, time[leaf] or 0, ("%s: share of %s in the speedscope file"):format(runtime, leaf))
      local short = leaf:gsub("^.*!", ""):match("^[^(]*"):match("[^.]+%.%.?[^.]+$")
      h.ok(rows[short] ~= nil, ("%s: %s is in the report"):format(runtime, short))
    end
  end
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
