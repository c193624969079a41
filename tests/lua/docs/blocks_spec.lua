-- SPDX-License-Identifier: MIT
-- Every block of Lua in docs/ is run: here, or by the spec of its page.
local build = require("lunette.generation.build")
local config = require("lunette.config")
local declare = require("lunette.declare")
local fs = require("lunette.fs")
local kit = require("support.site_kit")
local site = require("lunette.site")
local sys = require("lunette.sys")
local tutorial = require("support.tutorial")

local RECORDING <const> = sys.home .. "/tests/data/recordings/fights.nettrace"

-- Pages whose blocks another spec runs, and which does.
local ELSEWHERE <const> = {
  ["sandbox.md"] = "sandbox/docs_spec.lua", ["scripting.md"] = "docs/scripting_spec.lua", ["triage.md"] = "docs/triage_spec.lua",
  ["writing-collectors.md"] = "docs/writing_collectors_spec.lua", ["writing-tools.md"] = "docs/writing_tools_spec.lua",
  ["scripting/recipes.md"] = "docs/tutorial_spec.lua", ["scripting/tutorial.md"] = "docs/tutorial_spec.lua",
}

local function read(path) return assert(fs.read(sys.home .. "/" .. path, 1000000)) end

-- A folder with one file is sound.
local function load_file(path, body)
  local dir = kit.folder()
  kit.write(dir, path, body)
  local g = build.build(site.named({ site.PRODUCT, dir }))
  assert.is_nil(g.problems[1] and declare.format(g.problems[1]))
  return g
end

local run = {}

run["configuration.md"] = function(body)
  local dir = kit.folder()
  kit.write(dir, "lunette.lua", body)
  local cfg = assert(config.load({ file = dir .. "/lunette.lua" }))
  assert.equal(64, cfg:get("Diagnostics:HandleStore:MaxEntries"))
end

run["cpu.md"] = function(body) load_file("waits/ours.lua", body) end

run["design/site.md"] = function(body)
  local g = load_file("rules/threadpool-queue.lua", body)
  assert.equal(25, declare.of(g:find("rules/threadpool-queue")).declared.levels.elevated)
end

run["design/probe.md"] = function(body)
  local printed
  local ctx = { transport = "cli", progress = function() end }
  local chunk = assert(load((body:gsub("process = process, duration_ms = 10000", "path = path")), "=probe.md", "t",
    setmetatable({ ctx = ctx, path = RECORDING, print = function(...) printed = table.pack(...) end }, { __index = _G })))
  chunk()
  assert.is_true(printed[1] > 0 and printed[2] > 0 and printed[3] > 0)
end

describe("the blocks of Lua in", function()
  local pages = {}
  for _, folder in ipairs({ "", "scripting/", "design/" }) do
    for _, name in ipairs(assert(fs.list(sys.home .. "/docs/" .. folder))) do
      if name:find("%.md$") then pages[#pages + 1] = folder .. name end
    end
  end

  for _, page in ipairs(pages) do
    local blocks = {}
    for _, block in ipairs(tutorial.blocks(read("docs/" .. page))) do
      if block.word == "lua" then blocks[#blocks + 1] = block end
    end
    if #blocks > 0 then
      it("docs/" .. page .. " run", function()
        if ELSEWHERE[page] then
          local spec = read("tests/lua/" .. ELSEWHERE[page])
          assert.is_truthy(spec:find(page:match("[^/]+$"), 1, true), ELSEWHERE[page] .. " does not read " .. page)
          return
        end
        assert.is_function(run[page], "no spec runs the blocks of docs/" .. page)
        for _, block in ipairs(blocks) do run[page](block.body) end
      end)
    end
  end
end)
