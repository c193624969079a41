-- SPDX-License-Identifier: MIT
-- The names of managed code for a capture of the kernel: sessions of the runtime before and behind the window, of which only what they tell
-- at their end counts: all methods, and where their code lies. So they are no part of what the window sees. Without them frames of managed
-- code are addresses, which is no failure of the capture.
local capture = require("samplers.capture")
local profile = require("lunette.profile")
local stopped = require("samplers.stopped")

local M = {}

M.NATIVE = "native"

--- A builder that knows the methods which are there before a window: frames of methods without a frame pointer are found by where these
--- begin. Those that are compiled within the window are not among them.
---@param source CollectorSource
---@param kind? string   of the builder; "cpu"
---@return LunetteProfileBuilder? builder, table? err, boolean? told   told: their names were told to the end
---@nodiscard
function M.before(source, kind)
  local builder, err = profile.new { kind = kind or "cpu" }
  if not builder then return nil, err end
  local digest = source.process.digest
  local is_asked = not (digest and digest.runtime == "NativeAot") and not stopped.is_mute(source.process)
  local told = is_asked and capture.take_names(source, {}, builder)
  return builder, nil, told
end

--- What is missing of the names, as a note; nil: nothing, or nothing that could be there.
---@param why string?    of M.names
---@param told boolean?  of M.before
---@return string?
function M.note(why, told)
  if not why or why == M.NATIVE then return nil end
  return (told and "EarlierNames: managed frames have the names of what was there before the window: %s."
    or "NoManagedNames: managed frames are addresses: %s."):format((why:gsub("%.+$", "")))
end

--- The names of what was compiled since, when the window is over; ends the builder, whatever comes. Why some are missing, or nil.
---@param source CollectorSource
---@param builder LunetteProfileBuilder
---@param is_known boolean?   all code that was seen has its name already: the runtime is not asked again
---@return string? why   M.NATIVE of a program without a JIT
function M.after(source, builder, is_known)
  local digest, why = source.process.digest, nil
  if digest and digest.runtime == "NativeAot" then
    why = M.NATIVE
  elseif not is_known and (stopped.is_mute(source.process) or not capture.take_names(source, {}, builder)) then
    local missing = source.process.why_not
    why = missing and tostring(missing.message) or stopped.by(source.process.pid) and "the process stands still, and so does its runtime"
      or "the runtime did not tell its methods to the end of them"
  end
  builder:finish()
  return why
end

return M
