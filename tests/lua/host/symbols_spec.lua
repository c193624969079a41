-- SPDX-License-Identifier: MIT
--- lunette.symbols: lines and modules for scripts; and the command `lunette symbols`.
local fs = require("lunette.fs")
local json = require("lunette.json")
local loop = require("lunette.loop")
local symbols = require("lunette.symbols")

local DATA <const> = fs.realpath((debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$") or ".") .. "/../../data/symbols")
local SHOP <const> = DATA .. "/Shop.dll"
local LUNETTE <const> = fs.realpath("/proc/self/exe")
local SPREAD <const>, GENERATED <const>, LATER <const> = 0x06000005, 0x06000004, 0x06000003
local GUID <const> = "802e6900-a8f5-4e1f-8e8a-f81bb46e5df0"

describe("symbols.lines", function()
  it("answers each request in its place", function()
    local list = symbols.lines {
      { path = SHOP, token = SPREAD, il_offset = 1 }, { path = DATA .. "/Embedded.dll", token = GENERATED, il_offset = 4 },
      { path = "/nowhere.dll", token = SPREAD }, { path = SHOP, token = LATER, il_offset = 0 }, { path = SHOP, token = SPREAD },
    }
    assert.same({
      file = "/src/Shop.cs", url = "https://git.example/shop/raw/4f1d/Shop.cs", line = 51, start_line = 50, column = 9, end_line = 53,
      end_column = 17, il_offset = 1, exact = true,
    }, list[1])
    assert.same({ "/src/Generated.txt", 700, true }, { list[2].file, list[2].line, list[2].exact })
    assert.same({ why = "cannot open /nowhere.dll: No such file or directory" }, list[3])
    assert.matches("^the method has no lines in the PDB", list[4].why)
    assert.same({ 50, false }, { list[5].line, list[5].exact })
  end)

  it("finds a PDB by its id where the module is not there", function()
    local search = assert(symbols.path(DATA, {}))
    local at = symbols.lines({ { pdb_guid = GUID, pdb_path = "C:\\obj\\Shop.pdb", token = SPREAD, il_offset = 1 } }, { search = search })[1]
    assert.equal(51, at.line)
    local wrong = symbols.lines({ { pdb_guid = GUID:gsub("^8", "9"), pdb_path = "Shop.pdb", token = SPREAD } }, { search_2 = search })[1]
    assert.matches("has another id", wrong.why)
  end)

  it("is no match for another version id", function()
    assert.matches("its MVID is another", symbols.lines({ { path = SHOP, mvid = GUID, token = SPREAD } })[1].why)
  end)

  it("takes an empty list, and many", function()
    assert.same({}, symbols.lines {})
    local many = {}
    for i = 1, 4096 do many[i] = { path = SHOP, token = SPREAD, il_offset = i % 9 } end
    local list = symbols.lines(many)
    assert.equal(4096, #list)
    assert.equal(51, list[4096].line)
    many[4097] = many[1]
    assert.error_matches(function() return symbols.lines(many) end, "at most 4096")
  end)

  it("names a wrong argument", function()
    assert.error_matches(function() return symbols.lines { { path = SHOP, mvid = "xyz" } } end, "mvid: 'xyz' is no GUID")
    assert.error_matches(function() return symbols.lines { { path = SHOP, token = -1 } } end, "token: a number from 0")
    assert.error_matches(function() return symbols.lines { { path = "a\0b", token = 1 } } end, "path: no text with a NUL")
    assert.error_matches(function() return symbols.lines { 7 } end, "table expected")
  end)

  it("lets other tasks run meanwhile", function()
    local ticks = 0
    local other = loop.spawn(function()
      for _ = 1, 3 do
        loop.sleep_ms(0)
        ticks = ticks + 1
      end
      return true
    end)
    for _ = 1, 20 do symbols.modules { { path = SHOP } } end
    other:await(5000)
    assert.equal(3, ticks)
  end)
end)

describe("symbols.modules", function()
  it("tells version id and PDB", function()
    local list = symbols.modules { { path = SHOP }, { path = DATA .. "/Embedded.dll" }, { path = DATA .. "/README.md" } }
    assert.same({
      mvid = "779fbd67-d65f-408e-b02e-053342e88a35", pdb_guid = GUID, pdb_age = list[1].pdb_age, pdb_file = DATA .. "/Shop.pdb",
      pdb_format = "portable",
    }, list[1])
    assert.same({ "embedded", DATA .. "/Embedded.dll" }, { list[2].pdb_format, list[2].pdb_file })
    assert.matches("this is no PE file", list[3].why)
  end)
end)

describe("symbols.path", function()
  it("refuses a server that is not allowed", function()
    local path, err = symbols.path("/sym;srv*/c*https://evil.example/x", { hosts = { "good.example" } })
    assert.is_nil(path)
    assert.same({ "PermissionDenied", "https://evil.example/x" }, { err.kind, err.detail })
  end)

  it("tells whether the list let a server pass", function()
    local text = "srv*/c*https://good.example/x"
    for _, case in ipairs { { { hosts = { "GOOD.example" } }, true }, { { any_host = true }, false }, { { trusted = true }, false } } do
      local path = assert(symbols.path(text, case[1]))
      assert.same({ 1, case[2] }, { path:servers(), path:by_hosts() })
    end
  end)
end)

describe("symbols.demangle", function()
  it("reads C++ and Rust, and leaves the rest", function()
    assert.same({ "Thread::IsIdle() const", true }, { symbols.demangle("_ZNK6Thread6IsIdleEv") })
    assert.same({ "mycrate::foo", true }, { symbols.demangle("_RNvCs1234_7mycrate3foo") })
    assert.same({ "memcpy", false }, { symbols.demangle("memcpy") })
  end)
end)

local function run(...)
  return assert(loop.exec { argv = { LUNETTE, "symbols", ... }, timeout_ms = 60000, max_output = 1000000 })
end

describe("lunette symbols", function()
  it("shows a table", function()
    local done = run(SHOP)
    assert.equal(0, done.code)
    assert.matches("^.*/Shop%.dll: 11 methods, MVID 779fbd67%-d65f%-408e%-b02e%-053342e88a35\nportable PDB .*/Shop%.pdb, id " ..
      GUID:gsub("%-", "%%-") .. "\n", done.stdout)
    assert.matches("06000005  00002140        11  int Shop%.Desk%.Spread%(int%)  /src/Shop%.cs:50\n", done.stdout)
    assert.matches("\n06000006                   0  void Shop%.Desk%.Outside%(%)\n", done.stdout)
  end)

  it("shows names and signatures of generic and nested types", function()
    local named = {}
    for _, m in ipairs(assert(json.decode(run(SHOP, "--json").stdout)).methods) do named[m.token] = { m.name, m.signature } end
    assert.same({ "Shop.Cart<TItem>.Add", "int (TItem, int&, int[,])" }, named["0x06000001"])
    assert.same({ "Shop.Desk.Generated", "int (byte*, delegate*<int, string, void>)" }, named["0x06000004"])
    assert.same({
      "Shop.Cart+Line<TItem, TPrice>.Prices<TOther>",
      "System.Collections.Generic.KeyValuePair<TItem, TPrice>[] (System.Collections.Generic.Dictionary<string, TOther>, TPrice)",
    }, named["0x06000007"])
  end)

  it("shows all sequence points", function()
    local m = assert(json.decode(run(DATA .. "/Embedded.dll", "--json", "--lines").stdout)).methods[4]
    assert.equal(6, #m.lines)
    assert.same({ il = 4, line = 700, column = 9, endLine = 700, endColumn = 21, file = "/src/Generated.txt" }, m.lines[3])
    assert.matches("\n    IL_0044  hidden\n    IL_0053  19,9%-19,22  /src/Shop%.cs\n", run(SHOP, "--lines").stdout)
  end)

  it("writes a symbol file by address", function()
    local rows = {}
    for row in run(SHOP, "--sym").stdout:gmatch("[^\n]+") do rows[#rows + 1] = row end
    assert.equal(10, #rows) -- Outside has no body
    assert.equal("00002050\t5a\t06000001\tint Shop.Cart<TItem>.Add(TItem, int&, int[,])\t/src/Shop.cs:13", rows[1])
  end)

  it("reads a PDB alone, and with its module", function()
    local doc = assert(json.decode(run(DATA .. "/Shop.pdb", "--json").stdout))
    assert.same({ "portable", DATA .. "/Shop.dll", "Shop.Desk.Spread" }, { doc.pdbFormat, doc.module, doc.methods[5].name })
    local alone = fs.realpath("/tmp") .. "/lunette-symbols-spec-" .. require("lunette.crypto").crockford(8)
    assert(fs.write_private(alone .. "/Shop.pdb", fs.read(DATA .. "/Shop.pdb", 100000)))
    doc = assert(json.decode(run(alone .. "/Shop.pdb", "--json").stdout))
    fs.remove(alone .. "/Shop.pdb")
    fs.remove(alone)
    assert.same({ nil, nil, 50 }, { doc.module, doc.methods[5].name, doc.methods[5].line })
  end)

  it("reads a Windows PDB alone", function()
    local file = DATA:gsub("data/symbols$", "fuzz/corpus/symbols_pdb/windows.pdb")
    local doc = assert(json.decode(run(file, "--json", "--lines").stdout))
    assert.same({ "windows", 1, 2 }, { doc.pdbFormat, doc.pdbAge, #doc.methods })
    local add = doc.methods[2]
    assert.same({ "0x06000003", "Shop.Cart.Add", 1, "0x40", 32, 10 }, { add.token, add.name, add.segment, add.offset, add.size, add.line })
    assert.same({ "C:\\src\\Cart.cs", "https://g/Cart.cs" }, { add.file, add.url })
    assert.same({ { il = 8, hidden = true }, { il = 12, line = 7, column = 0, endLine = 7, endColumn = 0, file = "gen.txt" } },
      { add.lines[3], add.lines[4] })
    assert.matches("\n06000003  0001:00000040        32  Shop%.Cart%.Add  C:\\src\\Cart%.cs:10\n", run(file).stdout)
    assert.matches("^0001:00000010\t30\t06000001\tShop%.Cart%.Begin\tC:\\src\\Cart%.cs:10\n", run(file, "--sym").stdout)
  end)

  it("refuses a PDB of another module", function()
    local done = run(LUNETTE, "--json")
    assert.equal(1, done.code)
    assert.matches("neither a portable one", done.stderr)
    done = run(SHOP, "--pdb", DATA .. "/README.md")
    assert.equal(1, done.code)
    assert.matches("this is no PDB", done.stderr)
    done = run(SHOP, "--pdb", "/nowhere/Shop.pdb")
    assert.equal(1, done.code)
    assert.matches("cannot open /nowhere/Shop.pdb: No such file", done.stderr, 1, true)
  end)

  it("says what is wrong and what to do", function()
    for _, case in ipairs {
      { { "/nowhere" }, 1, "cannot open /nowhere: No such file" },
      { {}, 2, "Usage: lunette symbols FILE" }, { { "--json" }, 2, "which file" },
      { { SHOP, "--sym", "--json" }, 2, "goes with neither" }, { { SHOP, SHOP }, 2, "one file at a time" },
      { { SHOP, "--nope" }, 2, "there is no option: %-%-nope" }, { { SHOP, "--pdb" }, 2, "wants the name of a file" },
    } do
      local done = run(table.unpack(case[1]))
      assert.equal(case[2], done.code)
      assert.matches(case[3], done.stderr)
    end
    assert.matches("^Usage: lunette symbols FILE", run("--help").stdout)
  end)
end)
