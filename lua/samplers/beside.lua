-- SPDX-License-Identifier: MIT
-- The names of managed code for a capture of the kernel: sessions of the runtime before and behind the window, of which only what they tell
-- at their end counts: all methods, and where their code lies. So they are no part of what the window sees. Without them frames of managed
-- code are addresses, which is no failure of the capture.
local capture = require("samplers.capture")
local profile = require("lunette.profile")

local M = {}

M.NATIVE = "native"

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

--- The names of what was compiled since, when the window is over; ends the builder, whatever comes. Why some are missing, or nil.
---@param source CollectorSource
---@param builder LunetteProfileBuilder
---@return string? why   M.NATIVE of a program without a JIT
function M.after(source, builder)
  local digest, why = source.process.digest, nil
  if digest and digest.runtime == "NativeAot" then
    why = M.NATIVE
  elseif not capture.take_names(source, {}, builder) then
    why = "the runtime did not tell its methods to the end of them"
  end
  builder:finish()
  return why
end

return M
