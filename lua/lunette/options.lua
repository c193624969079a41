-- SPDX-License-Identifier: MIT
-- options: reads the flags of a subcommand: --name value, --name=value, --flag; what is no flag stays in order.
local text = require("lunette.text")

local M = {}

--- Reads arguments.
---@param args string[]
---@param known table<string, "value"|"list"|"flag">   names with their dashes
---@return table? options   name without dashes -> value | list | true; [1…] what is no flag
---@return string? why
function M.parse(args, known)
  local out, names = {}, text.keys(known)
  for name, kind in pairs(known) do
    if kind == "list" then out[name:gsub("^%-+", "")] = {} end
  end
  local i = 1
  while i <= #args do
    local name, value = args[i]:match("^(%-%-[%w%-]+)=(.*)$")
    name = name or (args[i]:match("^%-%-?[%w%-]+$") and args[i])
    local kind = name and known[name]
    if not name then
      out[#out + 1] = args[i]
    elseif not kind then
      return nil, ("there is no option %s.%s"):format(name, text.did_you_mean(name, names))
    elseif kind == "flag" then
      if value then return nil, name .. " takes no value" end
      out[name:gsub("^%-+", "")] = true
    else
      if not value then
        i = i + 1
        value = args[i]
      end
      if not value then return nil, name .. " needs a value" end
      local key = name:gsub("^%-+", "")
      if kind == "list" then table.insert(out[key], value) else out[key] = value end
    end
    i = i + 1
  end
  return out
end

return M
