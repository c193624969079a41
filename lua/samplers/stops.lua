-- SPDX-License-Identifier: MIT
-- Where the runtime stops a thread for its sample: .NET 10 does so in a method of its own, which is then the leaf of stacks that work.
local event_names = require("collectors.event_names")

local M = {}

local STOP <const> = "System.Threading.Thread.<PollGC>"
local POLL <const> = "System.Threading.Thread.PollGC()" -- calls it
local SHARE <const> = 0.05                              -- of the samples beside known waits

local function caller_of(profile, frame)
  for _, row in ipairs(profile:caller_callee { frame = frame, top = 5 }.callers) do
    if row.method == POLL then return caller_of(profile, row.frame) end
    if row.frame ~= 0 then return row end
  end
end

--- What should be known of such samples, if they are many.
---@param profile userdata  of lunette.profile
---@param info table        its info()
---@return string?
function M.note(profile, info)
  local stop = profile:match(STOP, 1)[1]
  if not stop or stop.exclusive < SHARE * info.unknown then return end
  local caller = caller_of(profile, stop.frame)
  return ("Stops: %d of the %d samples beside known waits end in Thread.<PollGC>, where the runtime stops a thread for its sample: they "
    .. "are work of its callers%s. caller-callee shows them all."):format(stop.exclusive, info.unknown,
    caller and (" (most: %s)"):format(event_names.spoken(caller.method)) or "")
end

return M
