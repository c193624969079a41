-- SPDX-License-Identifier: MIT
-- lunette stacks: what is wrong with a command line or a file.
local loop = require("lunette.loop")
local sys = require("lunette.sys")

local function run(...)
  local done = assert(loop.exec {
    argv = { "/proc/self/exe", "stacks", ... }, timeout_ms = 60000, max_output = 1024 * 1024,
    env = { HOME = "/nonexistent", XDG_CONFIG_HOME = "/nonexistent", LUNETTE_SITE = false, LUNETTE_SCRIPTS = false },
  })
  return done.code, done.stdout, done.stderr
end

describe("lunette stacks", function()
  it("says what is wrong with a command line or a file", function()
    for _, case in ipairs {
      { 2, "give one process id, or one core dump" }, { 2, "--frames is a whole number", "1", "--frames", "0" },
      { 2, "--top is a whole number", "1", "--top", "1001" }, { 2, "no option --nativ", "1", "--nativ" },
      { 1, "no file /nonexistent", "/nonexistent" }, { 1, "no ELF file", sys.home .. "/README.md" },
    } do
      local code, out, err = run(table.unpack(case, 3))
      assert.same({ case[1], "" }, { code, out })
      assert.truthy(err:lower():find(case[2]:lower(), 1, true), err)
    end
  end)
end)
