-- SPDX-License-Identifier: MIT
--- Windows of contention and of waits over recordings, asked through the tools, every answer held against its schema.
local collect_events = require("tools.collect_events")
local crypto = require("lunette.crypto")
local fs = require("lunette.fs")
local json = require("lunette.json")
local kit = require("support.framework_kit")
local query_snapshot = require("tools.query_snapshot")
local sys = require("lunette.sys")
local views = require("lunette.view")

local M = {}

M.HANDLE = { contention = "contention-snapshot", ["wait-handles"] = "wait-handles-snapshot" }
M.FIELD = { contention = "contention", ["wait-handles"] = "waitHandles" }
local VIEWS <const> = {
  ["contention-snapshot"] = { "summary", "byCallSite", "byOwner", "byBlame" },
  ["wait-handles-snapshot"] = { "summary", "byCallSite", "whereThreadsWait" },
}

local function ctx()
  for kind, names in pairs(VIEWS) do
    for _, name in ipairs(names) do views.register(require(("views.%s.%s"):format(kind, name))) end
  end
  local made = kit.ctx()
  made.transport = "cli"
  return made
end

function M.recording(name) return name and ("%s/tests/data/recordings/%s.nettrace"):format(sys.home, name) end

--- Collects over a recording; the envelope, its payload.
function M.collect(kind, name, more)
  local arguments = { kind = kind, traceFilePath = M.recording(name) }
  for k, v in pairs(more or {}) do arguments[k] = v end
  local envelope = kit.call(collect_events, arguments, ctx())
  assert(envelope.error == nil, "refused: " .. json.encode(envelope.error))
  local ok, faults = kit.conforms(envelope, collect_events)
  assert(ok, faults)
  return envelope, envelope.data[M.FIELD[kind]]
end

--- Calls fn with the path of the first `bytes` of a recording, as a program leaves one that dies.
function M.cut(name, bytes, fn)
  local path = ("/tmp/lunette-cut-%s.nettrace"):format(crypto.hex(crypto.random(6)))
  assert(fs.write_private(path, assert(fs.read(M.recording(name), 1 << 20)):sub(1, bytes)))
  local ok, why = pcall(fn, path)
  fs.remove(path)
  if not ok then error(why, 0) end
end

--- What is refused; the error.
function M.refused(kind, name)
  local envelope = kit.call(collect_events, { kind = kind, traceFilePath = M.recording(name) }, ctx())
  assert(envelope.data == nil, "not refused")
  return envelope.error
end

--- A view of what was collected; its payload and the answer.
function M.view(kind, envelope, name, more)
  local arguments = { handle = envelope.handle, view = name }
  for k, v in pairs(more or {}) do arguments[k] = v end
  local answer = kit.call(query_snapshot, arguments, ctx())
  assert(answer.error == nil, "refused: " .. json.encode(answer.error))
  local ok, faults = kit.conforms(answer, nil, M.HANDLE[kind], name)
  assert(ok, faults)
  return answer.data.payload, answer
end

--- Milliseconds of a timespan.
function M.ms(timespan)
  local sign, h, m, s = timespan:match("^(%-?)(%d+):(%d+):([%d.]+)$")
  return (h * 3600 + m * 60 + s) * (sign == "-" and -1000 or 1000)
end

--- Fails unless value is within [low, high].
function M.between(low, high, value)
  if not (type(value) == "number" and value >= low and value <= high) then
    error(("expected %s to %s, got %s"):format(low, high, tostring(value)), 2)
  end
end

return M
