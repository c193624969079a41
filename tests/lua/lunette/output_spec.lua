-- SPDX-License-Identifier: MIT
-- The files that commands are told to write.
local fs = require("lunette.fs")
local loop = require("lunette.loop")
local output = require("lunette.output")
local sampled = require("support.sampled")
local sys = require("lunette.sys")

describe("output.write", function()
  it("makes a new file for its owner, and writes to what is there", function()
    local path = os.tmpname()
    os.remove(path)
    assert.is_true(output.write(path, "one"))
    assert.same({ 384, "one" }, { fs.stat(path).mode & 511, fs.read(path, 10) }) -- 0600
    local link = path .. ".link"
    assert(loop.exec({ argv = { "ln", "-s", path, link } }))
    assert.is_true(output.write(link, "two"))
    assert.equal("two", fs.read(path, 10))
    assert.equal(path, fs.realpath(link))
    os.remove(link)
    os.remove(path)
  end)

  it("says why it cannot write", function()
    local ok, why = output.write("/proc/self", "x")
    assert.is_nil(ok)
    assert.matches("directory", why)
    ok, why = output.write("/no/such/folder/file", "x")
    assert.is_nil(ok)
    assert.equal("there is no folder /no/such/folder", why)
  end)
end)

describe("commands that write a file", function()
  local COMMANDS <const> = {
    { "profile", sampled.path("cpu"), "--top", "0", "--format", "folded" }, { "heap", sys.home .. "/tests/data/heap/leak.gcdump" },
  }

  -- "$0 COMMAND… -o FILE" in a folder of its own, behind what `script` does there first and before what it does last.
  local function run(script, command)
    local argv = { "sh", "-c", ('d=$(mktemp -d) && cd "$d" || exit 9; %s; code=$?; rm -rf "$d"; exit $code'):format(script),
      "/proc/" .. sys.pid .. "/exe" }
    return assert(loop.exec {
      argv = table.move(command, 1, #command, #argv + 1, argv), timeout_ms = 60000, max_output = 1 << 22,
      env = { HOME = "/nonexistent", XDG_CONFIG_HOME = "/nonexistent", LUNETTE_SITE = false, LUNETTE_SCRIPTS = false },
    })
  end

  it("write into a pipe, and through a link, and take neither away", function()
    for _, command in ipairs(COMMANDS) do
      local piped = run('mkfifo out; cat out & "$0" "$@" -o out >&2 && wait && test -p out', command)
      assert.equal(0, piped.code, piped.stderr)
      assert.is_true(#piped.stdout > 10000, command[1])
      local linked = run('ln -s file out; : >file; "$0" "$@" -o out >&2 && test -L out && cat file', command)
      assert.equal(0, linked.code, linked.stderr)
      assert.equal(#piped.stdout, #linked.stdout, command[1])
    end
  end)

  it("say that there is no such folder before they begin", function()
    for _, command in ipairs(COMMANDS) do
      local none = run('"$0" "$@" -o no/such/out', command)
      assert.same({ 2, "" }, { none.code, none.stdout })
      assert.matches("there is no folder no/such", none.stderr, 1, true)
    end
  end)
end)
