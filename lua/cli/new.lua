-- SPDX-License-Identifier: MIT
-- lunette new: a commented, working starter of a site script, with its spec.
local fs = require("lunette.fs")
local options = require("lunette.options")
local sys = require("lunette.sys")
local terminal = require("lunette.terminal")
local text = require("lunette.text")

local M = {}

M.summary = "write a starter for a site script, with its spec"
M.help = [[
usage: lunette new collector|rule|view|signal|tool|playbook NAME [--dir DIR] (--site says the same)

Writes a commented, working starter and its spec below DIR (default: the current folder). Nothing is overwritten,
and a name that lunette has itself is refused.
Then: lunette check DIR, lunette test DIR, and lunette serve --site DIR; a server that runs takes up every change by itself.

Exit code: 0 written, 1 a file is there already, a name is lunette's own, or it cannot be written, 2 for a wrong command line.
]]

local KINDS <const> = { "collector", "rule", "view", "signal", "tool", "playbook" }
local EXIT_FAILED <const> = 1
local MAX_RECORDING <const> = 4 * 1024 * 1024
local MAX_NAME <const> = 48

local function complain(message)
  io.stderr:write("lunette new: ", message, "\n")
  return EXIT_FAILED
end

local function starter_of(kind, name)
  local known = false
  for _, word in ipairs(KINDS) do known = known or word == kind end
  if not known then
    return nil, ("there is no starter for %s: give one of %s.%s"):format(text.quote(kind), table.concat(KINDS, ", "),
      text.did_you_mean(kind, KINDS))
  end
  local starter = require("lunette.starters." .. kind)
  if not name then return nil, "give it a name: lunette new " .. kind .. " NAME" end
  if not name:find(starter.name) or #name > MAX_NAME then
    return nil, ("the name of a %s is made of %s, at most %d, and begins with a letter; got %s"):format(kind, starter.name_note, MAX_NAME,
      text.quote(name))
  end
  return starter
end

local function title_of(name)
  local words = name:gsub("[-_]", " ")
  return words:sub(1, 1):upper() .. words:sub(2)
end

local function write(path, body)
  local parent = path:match("^(.*)/")
  local ok, err = fs.mkdirs(parent)
  if not ok then return nil, tostring(err.message) end
  local file, why = io.open(path, "w")
  if not file then return nil, why end
  file:write(body)
  return file:close()
end

-- The recording that the specs of some starters read.
local function files_of(starter, dir, name)
  local values, list = { NAME = name, DIR = dir, TITLE = title_of(name) }, {}
  for i, file in ipairs(starter.files) do
    local function fill(template) return (template:gsub("%%(%u+)%%", values)) end
    list[i] = { dir .. "/" .. fill(file[1]), fill(file[2]) }
  end
  local recording = dir .. "/recordings/demo.nettrace"
  if starter.recording and not fs.stat(recording) then
    local body = fs.read(sys.home .. "/share/demo.nettrace", MAX_RECORDING)
    if body then list[#list + 1] = { recording, body } end
  end
  return list
end

-- The first of the files, without its folder, that the product has, too: a starter in its place would take the original away.
local function ours(files, dir)
  for _, file in ipairs(files) do
    local path = file[1]:sub(#dir + 2)
    local room = path:find("^playbooks/") and "" or "lua/"
    for _, name in ipairs { path, (path:gsub("-", "_")) } do
      if not path:find("^recordings/") and fs.stat(sys.home .. "/" .. room .. name) then return path end
    end
  end
  return nil
end

--- lunette new.
---@param args string[]
function M.main(args)
  local opts, why = options.parse(args, { ["--dir"] = "value", ["--site"] = "value" })
  if not opts then return terminal.usage("new", why) end
  if #opts == 0 or #opts > 2 then return terminal.usage("new", "give a kind and a name") end
  local starter
  starter, why = starter_of(opts[1], opts[2])
  if not starter then return terminal.usage("new", why) end
  local dir = opts.dir or opts.site or "."
  local files = files_of(starter, dir, opts[2])
  local taken = ours(files, dir)
  if taken then
    return complain(("lunette has a %s %s itself, which %s/%s would replace; nothing was written. Choose another name, or change ours "
      .. "with a file there that returns extend(..., { what is different })"):format(opts[1], opts[2], dir, taken))
  end
  for _, file in ipairs(files) do
    if fs.stat(file[1]) then return complain(file[1] .. " is there already; nothing was written") end
  end
  for _, file in ipairs(files) do
    local ok
    ok, why = write(file[1], file[2])
    if not ok then return complain(("%s cannot be written: %s"):format(file[1], why)) end
    sys.write(file[1] .. "\n")
  end
  sys.write(("next: lunette check %s && lunette test %s, then lunette serve --site %s\n"):format(dir, dir, dir))
  return terminal.EXIT_OK
end

return M
