-- SPDX-License-Identifier: MIT
-- lines: how many lines a site script may write to the log. A loop that prints would fill the disk of the host, and hide what others log.
local atomic = require("lunette.atomic")
local log = require("lunette.log")
local loop = require("lunette.loop")

local M = {}

local AT_ONCE <const>, PER_SECOND <const> = 200, 10
M.AT_ONCE, M.PER_SECOND = AT_ONCE, PER_SECOND

--- What stands between a script and the log: write(level, area, message, fields). What is too much is counted, and said with the next line
--- that is not.
---@param script string   its name
---@param now? fun(): number   a clock, in ms
---@return fun(level: string, area: string, message: string, fields?: table)
function M.writer(script, now)
  now = now or loop.now_ms
  local left, filled, dropped = AT_ONCE, now(), 0

  -- May one more line be written? Also what was left out before it, if this is the line to say so.
  local admit = atomic(function()
    local at = now()
    left, filled = math.min(AT_ONCE, left + (at - filled) * PER_SECOND / 1000), at
    if left < 1 then
      dropped = dropped + 1
      return false, dropped == 1 and 0 or nil
    end
    local before = dropped
    left, dropped = left - 1, 0
    return true, before > 0 and before or nil
  end)

  return function(level, area, message, fields)
    local may, before = admit()
    if before == 0 then
      log.warning("site", ("this script logs more than %d lines at once: lines are left out"):format(AT_ONCE), { script = script })
    elseif before then
      log.warning("site", ("%d lines were left out"):format(before), { script = script })
    end
    if may then log[level](area, message, fields) end
  end
end

return M
