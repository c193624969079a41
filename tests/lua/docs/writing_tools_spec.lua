-- SPDX-License-Identifier: MIT
-- The examples of docs/writing-tools.md do what the page says.
local errors = require("lunette.errors")
local fs = require("lunette.fs")
local kit = require("support.framework_kit")
local playbooks = require("lunette.playbooks")
local process = require("lunette.process")
local sys = require("lunette.sys")
local tool = require("lunette.tool")
local view = require("lunette.view")

local page = assert(fs.read(sys.home .. "/docs/writing-tools.md", 1024 * 1024))

local function blocks(language)
  local list = {}
  for block in page:gmatch("```" .. language .. "\n(.-)```") do list[#list + 1] = block end
  return list
end

describe("docs/writing-tools.md #unit", function()
  local real = process.resolve
  after_each(function() process.resolve = real end)

  it("the complete tool counts descriptors, and answers for what it lacks", function()
    local example = assert(load(blocks("lua")[1], "=example"))()
    assert.is_true(tool.is_tool(example))
    process.resolve = function(_, pid)
      if pid ~= sys.pid then return nil, errors.new("ProcessNotFound", "no such process") end
      return { pid = pid, digest = { processId = pid, runtime = "Unknown", canSampleCpu = false, canCollectGcDump = false,
        autoResolved = false } }
    end
    local e = kit.call(example, { processId = sys.pid })
    assert.is_true(e.data.count.open > 3)
    assert.equal(sys.pid, e.resolvedProcess.processId)
    assert.equal("inspect_process", e.hints[1].nextTool)
    assert.equal("ProcessNotFound", kit.call(example, { processId = 1 }).error.kind)
    e = kit.call(example, { view = "names" }, kit.ctx({ scopes = { "read-counters" } }))
    assert.equal("ptrace", e.error.detail)
    assert.equal("NotSupported", kit.call(example, { view = "names" }).error.kind)
  end)

  it("the view and the playbook load", function()
    local found = 0
    for _, block in ipairs(blocks("lua")) do
      if block:find("lunette.view", 1, true) then
        assert.is_true(view.is_view(assert(load(block, "=example"))()))
        found = found + 1
      end
    end
    assert.equal(1, found)
    local text = page:match("```\n(%-%-%-\n.-)```")
    local playbook = assert(playbooks.parse(text, "example"))
    assert.equal("Slow application", playbook.title)
    assert.matches("processId=7, durationSeconds=10)", playbooks.render(playbook, { processId = "7" }), 1, true)
  end)
end)
