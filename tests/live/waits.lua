-- SPDX-License-Identifier: MIT
-- What the tests of lock contention and of waits on handles have in common.
local during = require("during")
local h = require("harness")

local M = {}

local AOT_MS <const> = 3500

--- Milliseconds of a timespan.
function M.ms(timespan)
  local sign, hours, minutes, seconds = timespan:match("^(%-?)(%d+):(%d+):([%d.]+)$")
  return (hours * 3600 + minutes * 60 + seconds) * (sign == "-" and -1000 or 1000)
end

--- A time between what it lasted at least (the target sleeps as long once the other thread is blocked) and what the target measured: its
--- threads measure from before the runtime's event to after it, on a busy machine by any time more.
---@param least_ms number
---@param measured_ms number
---@param timespan string
function M.measured(least_ms, measured_ms, timespan, what)
  local got = M.ms(timespan)
  h.ok(got >= least_ms - 0.5 and got <= measured_ms + 0.5, ("%s: %.1f ms, not within %.1f and %.1f ms"):format(what, got, least_ms,
    measured_ms))
end

--- The payload of a view.
function M.view(server, envelope, name, more)
  local arguments = { handle = envelope.handle, view = name }
  for k, v in pairs(more or {}) do arguments[k] = v end
  local answer = h.ok(server:call("query_snapshot", arguments))
  h.ok(not answer.error, name .. ": " .. h.json.encode(answer.error or {}))
  return answer.data.payload
end

function M.has_note(notes, word)
  local text = table.concat(notes, "\n")
  h.ok(text:find(word, 1, true), ("a note %s in: %s"):format(word, text))
end

function M.no_note(notes, word) h.eq(nil, table.concat(notes, "\n"):find(word, 1, true), "a note " .. word) end

--- `go`, and what the target says that it did. A program compiled ahead of time has its streaming thread some time before its locks send
--- events (on a busy machine most of a second), which nothing shows.
function M.go(target)
  if target.runtime == "aot" then h.loop.sleep_ms(AOT_MS) end
  return during.go(target)
end

--- The seconds of a window in which go has time to wait.
function M.seconds(runtime, seconds) return runtime == "aot" and seconds + AOT_MS // 1000 or seconds end

--- Runs fn with a server and a target that waits for `go`.
function M.with_target(runtime, mode, number, skip, fn)
  local built, why = h.build_target(runtime)
  if not built then skip(why) end
  local target <close> = h.target(runtime, mode, number, { go = false })
  local server <close> = h.server()
  return fn(target, server)
end

return M
