-- SPDX-License-Identifier: MIT
-- named.lua PID SECONDS NAME: collect_sample(kind="off_cpu") of a CoreCLR process that switches often, as clients call it: from the end of
-- the window (startedAt + duration) to the whole answer, with its managed frames named, of which one must hold NAME.
local json = require("lunette.json")
local loop = require("lunette.loop")

local pid, seconds, wanted = arg[1], tonumber(arg[2]), arg[3]

-- Milliseconds since 1970 of "2026-01-31T12:00:00.123+00:00"; milliseconds of "00:00:10.0123456".
local function unix_ms(text)
  local y, mo, d, h, mi, s = text:match("^(%d+)-(%d+)-(%d+)T(%d+):(%d+):([%d.]+)")
  local days = (os.time { year = y, month = mo, day = d, hour = 12 } - os.time { year = 1970, month = 1, day = 1, hour = 12 }) // 86400
  return ((days * 24 + h) * 60 + mi) * 60000 + s * 1000
end
local function span_ms(text)
  local h, m, s = text:match("^(%d+):(%d+):([%d.]+)$")
  return (h * 60 + m) * 60000 + s * 1000
end

local function named_frames(rows)
  local n, found = 0, false
  for _, row in ipairs(rows) do
    for _, f in ipairs(row.stack) do
      if f.identity then n = n + 1 end
      found = found or f.method:find(wanted, 1, true) ~= nil
    end
  end
  return n, found
end

local done = loop.spawn(function()
  local argv = { "/proc/self/exe", "call", "collect_sample", "--json", "--approve", "kind=off_cpu", "depth=Detail", "processId=" .. pid,
    "durationSeconds=" .. seconds }
  argv[1] = require("lunette.fs").realpath(argv[1])
  local ran = assert(loop.exec { argv = argv, timeout_ms = (seconds + 60) * 1000, max_output = 4 * 1024 * 1024 })
  local now = loop.unix_ms()
  local envelope = assert(json.decode(ran.stdout), ran.stderr)
  local data = assert(envelope.data, ran.stdout).offCpu
  local named, found = named_frames(data.topBlockingStacks)
  print(("named switches=%d lost=%d answer_ms=%.0f stacks=%d named_frames=%d found=%s bytes=%d"):format(data.schedSwitches,
    data.cost.eventsLost, now - unix_ms(data.startedAt) - span_ms(data.duration), #data.topBlockingStacks, named,
    found and "yes" or "no", #ran.stdout))
  return true
end)
assert(done:await())
