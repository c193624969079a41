-- SPDX-License-Identifier: MIT
-- estimate: about how large a dump will be, from the address space of its process. Measured on 8.0, 9.0 and 10.0: a full dump has the bytes
-- of all readable mappings, one with the heap those of the writable ones and 2 MB; a small one the stacks and what explains them.
local proc = require("lunette.proc")

local M = {}

local SMALL_BYTES <const> = 8 * 1024 * 1024 -- of a small dump,
local THREAD_BYTES <const> = 64 * 1024      -- and more for each thread
local HEAP_BYTES <const> = 4 * 1024 * 1024  -- beside what is writable

--- Bytes, about; nil, err when the process cannot be looked at.
---@param pid integer
---@param type "Mini"|"Triage"|"WithHeap"|"Full"
---@return integer?, table? err
function M.bytes(pid, type)
  local maps, err = proc.maps(pid)
  if not maps then return nil, err end
  if type == "Full" then return maps.readable_bytes end
  local with_heap = math.min(maps.writable_bytes + HEAP_BYTES, maps.readable_bytes)
  if type == "WithHeap" then return with_heap end
  local stat = proc.stat(pid)
  return math.min(with_heap, SMALL_BYTES + (stat and stat.threads or 0) * THREAD_BYTES)
end

return M
