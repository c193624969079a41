-- SPDX-License-Identifier: MIT
-- The names of managed code for a capture of the kernel: a session of the runtime that is opened when the window is over, and ended at
-- once, for what it tells at its end: all methods, and where their code lies. So it is no part of what the window sees. Without it frames
-- of managed code are addresses, which is no failure of the capture.
local capture = require("samplers.capture")
local events = require("lunette.events")
local loop = require("lunette.loop")
local profile = require("lunette.profile")

local M = {}

M.STOP_MS = 15000 -- a program with a hundred thousand methods
M.BUFFER_MB = 64
M.NATIVE = "native"
local RUNTIME <const> = { name = "Microsoft-Windows-DotNETRuntime", keywords = "0x38", level = 4 }

-- What comes until the end of the stream.
local function drain(source)
  while true do
    local batch, err = source:next(M.STOP_MS)
    if not batch then return err.kind == "NotFound" or nil, err end
  end
end

--- A builder that knows the methods which are there before a window: frames of methods without a frame pointer are found by where these
--- begin. Those that are compiled within the window are not among them.
---@param source CollectorSource
---@param kind? string   of the builder; "cpu"
---@return LunetteProfileBuilder? builder, table? err
---@nodiscard
function M.before(source, kind)
  local builder, err = profile.new { kind = kind or "cpu" }
  if not builder then return nil, err end
  local digest = source.process.digest
  if not (digest and digest.runtime == "NativeAot") then capture.take_names(source, {}, builder) end
  return builder
end

--- The map of the target's methods, as a builder of lunette.profile; nil and why there is none: M.NATIVE of a program without a JIT.
---@param target TargetProcess
---@param builder? userdata   to take them; default: one of its own
---@return userdata? builder, string? why, number? took_ms
---@nodiscard
function M.names(target, builder)
  if target.digest and target.digest.runtime == "NativeAot" then return nil, M.NATIVE end
  local began = loop.now_ns()
  if not builder then
    local new_err
    builder, new_err = profile.new { kind = "cpu" }
    if not builder then return nil, tostring(new_err.message or new_err) end
  end
  local source <close>, open_err = events.open {
    pid = target.pid, providers = { RUNTIME }, buffer_mb = M.BUFFER_MB, rundown = profile.RUNDOWN, stacks = false, tap = builder,
  }
  if not source then return nil, tostring(open_err.message or open_err) end
  local ok
  local summary, err = source:stop(M.STOP_MS)
  if summary then ok, err = drain(source) end
  if not ok then return nil, tostring(err and err.message or err) end
  return builder, nil, (loop.now_ns() - began) / 1e6
end

return M
