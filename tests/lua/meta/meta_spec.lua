-- SPDX-License-Identifier: MIT
--- The files for the editor under lua/meta/ name exactly what each native module exports.
local fs = require("lunette.fs")
local loop = require("lunette.loop")
local sys = require("lunette.sys")

local META <const> = sys.home .. "/lua/meta"

--- What a meta file says of its module: functions and fields of the module itself, and methods of the classes it defines.
local function declared(name)
  local text = assert(fs.read(("%s/%s.lua"):format(META, name), 1000000))
  local members, methods = {}, {}
  for fn in text:gmatch("\nfunction " .. name .. "%.([%w_]+)%(") do members[#members + 1] = fn end
  for class, fn in text:gmatch("\nfunction (%u%w*):([%w_]+)%(") do
    methods[class] = methods[class] or {}
    table.insert(methods[class], fn)
  end
  local own_class = text:match("%-%-%-@class lunette%." .. name .. "\n(.-)local " .. name .. " = {}")
  assert.is_string(own_class)
  for field in own_class:gmatch("%-%-%-@field ([%w_]+)") do members[#members + 1] = field end
  table.sort(members)
  return members, methods
end

local function exported(name)
  local members = {}
  for member in pairs(require("lunette." .. name)) do members[#members + 1] = member end
  table.sort(members)
  return members
end

describe("lua/meta", function()
  local modules = {}
  for full in pairs(package.preload) do
    local name = full:match("^lunette%.([%w_]+)$")
    if name then modules[#modules + 1] = name end
  end
  table.sort(modules)

  for _, name in ipairs(modules) do
    it("names what lunette." .. name .. " exports, no more and no less", function()
      assert.same(exported(name), (declared(name)))
    end)
  end

  it("names nothing that is no module", function()
    local files = {}
    for _, file in ipairs(fs.list(META)) do
      if file ~= "err.lua" then files[#files + 1] = file:match("^(.*)%.lua$") end
    end
    assert.same(modules, files)
  end)

  it("names methods that are there", function()
    local _, methods = declared("loop")
    local instances = { Task = loop.current(), Channel = loop.channel(1), Timer = loop.timer(60000, function() end) }
    for class, object in pairs(instances) do
      for _, method in ipairs(methods[class]) do assert.is_function(object[method], class .. ":" .. method) end
    end
    instances.Timer:cancel()
    local _, err = loop.channel(1):recv(0)
    assert.is_function(err.at)
  end)
end)
