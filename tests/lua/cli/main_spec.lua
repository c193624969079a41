-- SPDX-License-Identifier: MIT
--- The command line's front door.
local fs = require("lunette.fs")
local loop = require("lunette.loop")
local sys = require("lunette.sys")
local main = require("cli.main")

local LUNETTE <const> = fs.realpath("/proc/self/exe")

local function lunette(...) return assert(loop.exec({ argv = { LUNETTE, ... }, timeout_ms = 20000 })) end

describe("cli.main.nearest", function()
  local names = { "call", "doctor", "ps", "replay", "serve", "trace" }

  it("suggests what was probably meant, and nothing far-fetched", function()
    for typed, meant in pairs({ serv = "serve", server = "serve", trase = "trace", doktor = "doctor", pss = "ps", cal = "call" }) do
      assert.equal(meant, main.nearest(typed, names))
    end
    for _, typed in ipairs({ "x", "kubernetes", "" }) do assert.is_nil(main.nearest(typed, names)) end
  end)
end)

describe("lunette", function()
  it("prints its version and its commands", function()
    assert.same({ 0, "lunette " .. sys.version .. "\n" }, { lunette("--version").code, lunette("--version").stdout })
    for _, flag in ipairs({ "--help", "-h", "help" }) do
      local r = lunette(flag)
      assert.equal(0, r.code)
      assert.matches("\n  lua      run a Lua script", r.stdout, 1, true)
    end
    assert.matches("usage: lunette COMMAND", lunette().stdout, 1, true)
  end)

  it("names the nearest command and exits with 2", function()
    local r = lunette("lau")
    assert.equal(2, r.code)
    assert.equal("", r.stdout)
    assert.matches("there is no command 'lau': did you mean 'lua'?", r.stderr, 1, true)
  end)

  it("fails when its answer cannot be written, but not when the reader went away", function()
    for _, command in ipairs({ "ps", "--help", "call", "trace summary share/demo.nettrace" }) do
      local r = assert(loop.exec({ argv = { "/bin/sh", "-c", LUNETTE .. " " .. command .. " > /dev/full" }, timeout_ms = 20000 }))
      assert.same({ command, 1 }, { command, r.code })
      assert.matches("cannot write to standard output: No space left on device", r.stderr, 1, true)
    end
    local gone = assert(loop.exec({ argv = { "/bin/sh", "-c", LUNETTE .. " ps 2>&1 | true" }, timeout_ms = 20000 }))
    assert.same({ 0, "" }, { gone.code, gone.stderr })
  end)

  it("keeps its own descriptors apart from standard ones that are closed", function()
    for _, closed in ipairs({ ">&-", "<&-", ">&- <&- 2>&-" }) do
      local r = loop.exec({ argv = { "/bin/sh", "-c", '"$0" serve --stdio </dev/null ' .. closed, LUNETTE }, timeout_ms = 20000 })
      assert.same({ 0, "", "" }, { r.code, r.stdout, r.stderr })
    end
  end)

  it("says where it looked when it has no scripts", function()
    local r = loop.exec({ argv = { "/usr/bin/env", "LUNETTE_HOME=/nonexistent", LUNETTE, "serve" } })
    assert.equal(1, r.code)
    assert.matches("no scripts in /nonexistent", r.stderr, 1, true)
  end)
end)
