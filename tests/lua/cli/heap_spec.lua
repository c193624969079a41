-- SPDX-License-Identifier: MIT
-- lunette heap, on a heap that was recorded: a cache of known customers.
local json = require("lunette.json")
local loop = require("lunette.loop")
local sys = require("lunette.sys")

local LEAK <const>, DUMPED <const> = sys.home .. "/tests/data/heap/leak.nettrace", sys.home .. "/tests/data/heap/leak.gcdump"

local function run(...)
  local done = assert(loop.exec {
    argv = { "/proc/self/exe", "heap", ... }, timeout_ms = 60000, max_output = 1024 * 1024,
    env = { HOME = "/nonexistent", XDG_CONFIG_HOME = "/nonexistent", LUNETTE_SITE = false, LUNETTE_SCRIPTS = false },
  })
  return done.code, done.stdout, done.stderr
end

describe("lunette heap", function()
  it("prints what is kept most, and the way from a root to it", function()
    for _, file in ipairs { LEAK, DUMPED } do
      local code, out = run(file, "--type", "Lunette.Target.Customer", "--top", "3")
      assert.equal(0, code)
      assert.truthy(out:find("is kept by:\n  StaticVar ", 1, true), out)
      local way = out:match("\nLunette.Target.Customer at 0x%x+ .-\n\n") or out:match("\nLunette.Target.Customer at 0x.+$")
      assert.truthy(way, out)
      for _, name in ipairs { "CustomerSession>\n", "-> Lunette.Target.CustomerSession\n", "-> Lunette.Target.Customer[]\n" } do
        assert.truthy(way:find(name, 1, true), name)
      end
    end
  end)

  it("orders by what was asked for", function()
    for by, field in pairs { bytes = "totalBytes", instances = "instanceCount" } do
      local code, out = run(LEAK, "--by", by, "--top", "5", "--json")
      assert.equal(0, code)
      local rows = json.decode(out:match("\n([^\n]+)")).data.topTypes
      assert.equal(5, #rows)
      for i = 2, #rows do assert.is_true(rows[i - 1][field] >= rows[i][field]) end
    end
  end)

  it("says that no type matches", function()
    local code, out = run(LEAK, "--type", "NoSuchType")
    assert.equal(0, code)
    assert.truthy(out:find('\nNo type\'s name holds "NoSuchType".\n', 1, true), out)
    assert.is_nil(out:find("share", 1, true))
  end)

  it("tells what grew since an earlier file: nothing, in the same heap told twice", function()
    local code, out = run(LEAK, "--against", LEAK, "--top", "2")
    assert.equal(0, code)
    assert.truthy(out:find("\nno_change: ", 1, true))
  end)

  it("writes the picture of what keeps what", function()
    local path = os.tmpname()
    local code, out = run(DUMPED, "--top", "1", "-o", path)
    assert.equal(0, code)
    assert.truthy(out:find("The picture is in " .. path, 1, true), out)
    local file = assert(io.open(path))
    local page = file:read("a")
    file:close()
    os.remove(path)
    assert.truthy(page:find("<!DOCTYPE html>", 1, true) and page:find("Lunette.Target.CustomerSession", 1, true))
  end)

  it("says what is wrong with a command line or a file", function()
    for _, case in ipairs {
      { 2, "give one process id, or one file" }, { 2, "did you mean", LEAK, "--by", "byte" }, { 2, "--top is a whole", LEAK, "--top", "0" },
      { 2, "--live is for a process", LEAK, "--live" }, { 1, "no file /nonexistent", "/nonexistent" },
      { 1, "no ELF file", sys.home .. "/README.md" },
    } do
      local code, out, err = run(table.unpack(case, 3))
      assert.same({ case[1], "" }, { code, out })
      assert.truthy(err:lower():find(case[2]:lower(), 1, true), err)
    end
  end)
end)
