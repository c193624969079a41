-- SPDX-License-Identifier: MIT
-- The names of waits of all layers, as the profile takes them: those of a site stand before ours, so that a site can name ours anew.
local index = require("lunette.rules.index")

local M = {}

M.MAX = 512 -- names that a profile takes
local KEY <const> = "samplers.waits"

---@class WaitTable
---@field names { name: string, reason: string }[]
---@field dropped integer      names beyond MAX

local function flatten(value, into)
  for _, one in ipairs(value.reasons) do
    for _, name in ipairs(one.names) do into[#into + 1] = { name = name, reason = one.reason } end
  end
end

local function make(generation)
  local files, all = {}, {}
  for i, file in ipairs(index.files_of(generation, "waits")) do files[i] = { value = file.value, site = file.layer ~= nil, rank = i } end
  table.sort(files, function(a, b)
    if a.site ~= b.site then return a.site end
    return a.rank < b.rank
  end)
  for _, file in ipairs(files) do flatten(file.value, all) end
  local names = table.move(all, 1, math.min(#all, M.MAX), 1, {})
  return { names = names, dropped = #all - #names }
end

--- The names of this call's generation.
---@return WaitTable
function M.current()
  return index.generation():derived(KEY, make)
end

return M
