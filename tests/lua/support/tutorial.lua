-- SPDX-License-Identifier: MIT
-- Runs a page of docs/scripting as its reader would, in a folder of its own: a block that names a file ("```lua site/rules/x.lua") is
-- written, a block of sh is run, and each line of the text block behind it must be in what it printed, in this order. "```sh fails" must
-- not succeed.
local fs = require("lunette.fs")
local loop = require("lunette.loop")
local sys = require("lunette.sys")

local M = {}

---@class Block
---@field word string     sh, text, lua, …; "": none
---@field rest string     what follows it on the line: a path, "fails"
---@field body string
---@field line integer

--- The blocks of a page, in order.
---@return Block[]
function M.blocks(page)
  local list, open, n = {}, nil, 0
  for line in (page .. "\n"):gmatch("(.-)\n") do
    n = n + 1
    local word, rest = line:match("^%s*```(%w*)%s*(.*)$")
    if open and word == "" and rest == "" then
      open.body = table.concat(open, "\n") .. "\n"
      list[#list + 1], open = open, nil
    elseif open then
      open[#open + 1] = line
    elseif word then
      open = { word = word, rest = rest, line = n }
    end
  end
  return list
end

local function run_sh(block, dir, name)
  local script = ("set -e\ncd '%s'\nlunette() { '%s' \"$@\"; }\n%s"):format(dir, fs.realpath("/proc/self/exe"), block.body)
  local done = assert(loop.exec { argv = { "sh", "-c", script }, timeout_ms = 120000, max_output = 1024 * 1024 })
  local said = done.stdout .. done.stderr
  local wanted = block.rest == "fails"
  if (done.code ~= 0) ~= wanted then error(("%s:%d: exit code %s: %s"):format(name, block.line, done.code, said), 0) end
  return said
end

local function compare(block, said, name)
  local from = 1
  for line in block.body:gmatch("[^\n]+") do
    local text = line:match("^%s*(.-)%s*$")
    local _, to = said:find(text, from, true)
    if not to then error(("%s:%d: not printed: %s\nprinted:\n%s"):format(name, block.line, text, said), 0) end
    from = to + 1
  end
end

local function write(path, body)
  assert(fs.mkdirs(path:match("^(.*)/")))
  local file = assert(io.open(path, "w"))
  file:write(body)
  file:close()
end

--- The blocks of Lua of a page, each to be run as a task.
---@param name string   below docs/
---@return { name: string, fails: string?, run: fun(): string?, table? }[] examples   fails: KIND of "```lua fails KIND"; run gives the
---   kind of the error that it ended with, and the error
function M.tasks(name)
  local list = {}
  for _, block in ipairs(M.blocks(assert(fs.read(sys.home .. "/docs/" .. name, 1000000)))) do
    if block.word == "lua" then
      list[#list + 1] = {
        name = ("is right in line %d: %s"):format(block.line, block.body:match("[^\n]+\n([^\n]+)") or block.body),
        fails = block.rest:match("^fails (%w+)$"),
        run = function()
          local _, err = loop.spawn(assert(load(block.body, "@block"))):await(20000)
          return err and err.kind, err
        end,
      }
    end
  end
  return list
end

--- Writes the files of a page, each as it is first shown, below a folder.
---@param name string   below docs/scripting/
---@param dir string
function M.write(name, dir)
  local seen = {}
  for _, block in ipairs(M.blocks(assert(fs.read(sys.home .. "/docs/scripting/" .. name, 1000000)))) do
    if block.rest:find("/", 1, true) and not seen[block.rest] then
      seen[block.rest] = true
      write(dir .. "/" .. block.rest, block.body)
    end
  end
end

--- Runs a page. Returns how many blocks were written, run and compared.
---@param name string   below docs/scripting/
function M.run(name)
  local page = assert(fs.read(sys.home .. "/docs/scripting/" .. name, 1000000))
  local made = assert(loop.exec { argv = { "mktemp", "-d" }, timeout_ms = 5000 })
  local dir, counts, said = made.stdout:match("%S+"), { written = 0, run = 0, compared = 0 }, nil
  loop.on_cleanup(function() loop.exec { argv = { "rm", "-rf", dir }, timeout_ms = 10000 } end)
  assert(loop.exec { argv = { "cp", sys.home .. "/share/shop.nettrace", dir }, timeout_ms = 5000 })
  for _, block in ipairs(M.blocks(page)) do
    if block.rest:find("/", 1, true) then
      write(dir .. "/" .. block.rest, block.body)
      counts.written = counts.written + 1
    elseif block.word == "sh" then
      said = run_sh(block, dir, name)
      counts.run = counts.run + 1
    elseif block.word == "text" then
      compare(block, said, name)
      counts.compared = counts.compared + 1
    else
      error(("%s:%d: a block of %s that nothing runs"):format(name, block.line, block.word), 0)
    end
  end
  return counts
end

return M
