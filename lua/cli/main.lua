-- SPDX-License-Identifier: MIT
--- The command line: finds the subcommand's script in lua/cli/, or says which one was probably meant.
local fs = require("lunette.fs")
local sys = require("lunette.sys")

local EXIT_OK <const>, EXIT_FAILURE <const>, EXIT_USAGE <const> = 0, 1, 2
local MAX_DISTANCE <const> = 3 -- edits between what was typed and what is suggested

local M = {}

--- A subcommand is a module lua/cli/NAME.lua that returns this.
---@class CliCommand
---@field summary string                    one line, for `lunette --help`
---@field help string                       the text of `lunette NAME --help`
---@field main fun(args: string[]): integer? runs as a task; returns the exit code

--- The number of single-character edits from a to b.
local function edit_distance(a, b)
  local row = {}
  for j = 0, #b do row[j] = j end
  for i = 1, #a do
    local diagonal = row[0]
    row[0] = i
    for j = 1, #b do
      local cost = a:byte(i) == b:byte(j) and 0 or 1
      local best = math.min(row[j] + 1, row[j - 1] + 1, diagonal + cost)
      diagonal, row[j] = row[j], best
    end
  end
  return row[#b]
end

--- The nearest of names to what was typed, or nil when none is near.
---@param typed string
---@param names string[]
---@return string?
---@nodiscard
function M.nearest(typed, names)
  local best, best_distance
  for _, name in ipairs(names) do
    local distance = edit_distance(typed, name)
    if distance <= MAX_DISTANCE and distance < #name and (not best or distance < best_distance) then
      best, best_distance = name, distance
    end
  end
  return best
end

--- Names of the subcommands that are scripts.
local function script_names()
  local names = {}
  for _, file in ipairs(fs.list(sys.home .. "/lua/cli") or {}) do
    local name = file:match("^([%w-]+)%.lua$")
    if name and name ~= "main" then names[#names + 1] = name end
  end
  return names
end

local function all_names(natives)
  local names = script_names()
  for name in pairs(natives) do names[#names + 1] = name end
  names[#names + 1] = "lua"
  table.sort(names)
  return names
end

local function has(list, wanted)
  for _, v in ipairs(list) do
    if v == wanted then return true end
  end
  return false
end

local function summary_of(name, natives)
  if natives[name] then return natives[name] end
  if name == "lua" then return "run a Lua script inside the host" end
  local loaded, command = pcall(require, "cli." .. name)
  if not loaded or type(command) ~= "table" then return "(cannot be loaded: lunette " .. name .. " says why)" end
  return command.summary
end

local function overview(natives)
  local lines = {
    "lunette " .. sys.version .. ": diagnoses running .NET processes on Linux, for MCP clients and for people",
    "",
    "usage: lunette COMMAND [ARGUMENT...]",
    "",
  }
  for _, name in ipairs(all_names(natives)) do
    lines[#lines + 1] = ("  %-8s %s"):format(name, summary_of(name, natives))
  end
  lines[#lines + 1] = ""
  lines[#lines + 1] = "  lunette COMMAND --help tells more; lunette --version prints the version."
  return table.concat(lines, "\n") .. "\n"
end

local function unknown(name, natives)
  local meant = M.nearest(name, all_names(natives))
  io.stderr:write("lunette: there is no command '", name, "'",
    meant and (": did you mean '" .. meant .. "'?") or "", "\n",
    "lunette --help lists the commands.\n")
  return EXIT_USAGE
end

-- The exit code, unless the answer could not be written: what nobody could read was not done.
local function written(name, code)
  local err = sys.stdout_error()
  if not err or code ~= EXIT_OK then return code end
  io.stderr:write("lunette ", name, name ~= "" and ": " or "", err.message, "\n")
  return EXIT_FAILURE
end

--- Runs one subcommand.
---@param name string      as typed; "--help" and "help" show the overview
---@param args string[]    what came after it
---@param natives table<string, string>   subcommands that are not scripts: name to summary
---@return integer? exit_code
function M.run(name, args, natives)
  if name == "help" and args[1] then name, args = args[1], { "--help" } end
  if name == "--help" or name == "-h" or name == "help" then
    sys.write(overview(natives))
    return written("", EXIT_OK)
  end
  if not has(script_names(), name) then return unknown(name, natives) end
  local command = require("cli." .. name)
  if args[1] == "--help" or args[1] == "-h" then
    sys.write(command.help)
    return written(name, EXIT_OK)
  end
  return written(name, command.main(args))
end

return M
