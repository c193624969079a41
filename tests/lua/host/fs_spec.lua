-- SPDX-License-Identifier: MIT
--- lunette.fs in a folder of its own.
local crypto = require("lunette.crypto")
local fs = require("lunette.fs")

describe("fs", function()
  local dir

  before_each(function()
    dir = (os.getenv("TMPDIR") or "/tmp") .. "/lunette-fs-" .. crypto.crockford(10)
    assert(fs.mkdirs(dir))
  end)

  after_each(function()
    for _, name in ipairs(fs.list(dir)) do os.remove(dir .. "/" .. name) end
    assert(fs.remove(dir))
  end)

  it("never waits for what is no regular file", function()
    assert(os.execute(("mkfifo %s/fifo && echo 0123456789 > %s/file"):format(dir, dir)))
    for _, path in ipairs { dir .. "/fifo", "/dev/zero" } do
      assert.is_nil((fs.read(path, 10)))
      assert.is_nil((fs.head(path, 10)))
    end
    assert.equal("0123", fs.head(dir .. "/file", 4))
    assert.equal("0123456789\n", fs.head(dir .. "/file", 4096))
    assert.is_nil((fs.head(dir .. "/none", 4)))
    assert.is_false(pcall(fs.head, dir .. "/file", 4097))
  end)

  it("writes privately, whole, and over an older file", function()
    local path = dir .. "/a"
    assert.is_true(fs.write_private(path, "one"))
    assert.is_true(fs.write_private(path, "two\0"))
    assert.equal("two\0", fs.read(path, 100))
    local stat = fs.stat(path)
    assert.same({ "file", 4, 384 }, { stat.kind, stat.size, stat.mode }) -- 384 is 0600
    assert.is_true(math.abs(stat.mtime_ns // 1000000000 - os.time()) < 60)
    assert.same({ "a" }, fs.list(dir))
  end)

  it("makes the parents of what it writes, for the owner only", function()
    assert.is_true(fs.write_private(dir .. "/p/q/file", ""))
    assert.equal(448, fs.stat(dir .. "/p/q").mode) -- 0700
    for _, name in ipairs({ "/p/q/file", "/p/q", "/p" }) do assert.is_true(fs.remove(dir .. name)) end
  end)

  it("reads no more than it is allowed", function()
    local path = dir .. "/a"
    assert(fs.write_private(path, ("x"):rep(1000)))
    assert.equal(1000, #fs.read(path, 1000))
    local text, err = fs.read(path, 999)
    assert.is_nil(text)
    assert.equal("LimitExceeded", err.kind)
    assert.equal(path, err.detail)
  end)

  it("reads files of /proc, whose size is not known", function()
    assert.matches("^Name:", fs.read("/proc/self/status", 65536))
  end)

  it("says what is wrong", function()
    for _, case in ipairs({
      { fs.read, { dir .. "/none", 1 }, "NotFound", 2 },
      { fs.list, { dir .. "/none" }, "NotFound", 2 },
      { fs.stat, { dir .. "/none" }, "NotFound", 2 },
      { fs.realpath, { dir .. "/none" }, "NotFound", 2 },
      { fs.remove, { dir .. "/none" }, "NotFound", 2 },
      { fs.read, { dir, 10 }, "IoError", 21 },
      { fs.write_private, { "/proc/none/x", "" }, "NotFound", 2 },
    }) do
      local value, err = case[1](table.unpack(case[2]))
      assert.is_nil(value)
      assert.same({ case[3], case[4] }, { err.kind, err.sys })
    end
    assert.has_error(function() fs.read("a\0b", 1) end, "bad argument #1 to 'read' (must be a path)")
  end)

  it("leaves no temporary file behind when it fails", function()
    assert(fs.mkdirs(dir .. "/target"))
    assert.is_nil(fs.write_private(dir .. "/target", "over a folder"))
    assert.same({ "target" }, fs.list(dir))
  end)

  it("lists sorted, and tells kinds without following links", function()
    assert(fs.write_private(dir .. "/b", ""))
    assert(fs.write_private(dir .. "/a", ""))
    assert(fs.mkdirs(dir .. "/c"))
    assert.is_true(os.execute(("ln -s %s/a %s/d"):format(dir, dir)))
    assert.same({ "a", "b", "c", "d" }, fs.list(dir))
    assert.same({ "directory", "link" }, { fs.stat(dir .. "/c").kind, fs.stat(dir .. "/d").kind })
    assert.equal(fs.realpath(dir .. "/a"), fs.realpath(dir .. "/d"))
  end)
end)
