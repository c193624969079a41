-- SPDX-License-Identifier: MIT
-- What runtime-config lets through, and how requests-now joins requests with stacks.
local config = require("views.process.runtime-config")
local requests = require("views.process.requests-now")

local function names(rows)
  local list = {}
  for _, row in ipairs(rows) do list[#list + 1] = row.name .. "=" .. tostring(row.value) end
  table.sort(list)
  return list
end

describe("views.process.runtime-config #unit", function()
  it("lets the runtime's own variables through, and no secret in them", function()
    local rows, by_name = config.environment {
      "DOTNET_gcServer=1", "COMPlus_TieredPGO=0", "ASPNETCORE_URLS=http://+:80", "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT=1", "PATH=/bin",
      "DB_PASSWORD=hunter2", "MYDOTNET_X=1", "dotnet_x=1", "ASPNETCORE_Kestrel__Certificates__Default__Password=hunter2", "NOEQUALS",
      "DOTNET_X=Server=db;User Id=sa;Password=hunter2",
    }
    local shown = table.concat(names(rows), "\n")
    assert.is_nil(shown:find("hunter2", 1, true))
    assert.equal(6, #rows)
    assert.same({ "1", "0" }, { by_name.DOTNET_gcServer, by_name.COMPlus_TieredPGO })
    for _, wanted in ipairs { "DOTNET_gcServer=1", "ASPNETCORE_URLS=http://+:80", "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT=1" } do
      assert.truthy(shown:find(wanted, 1, true), shown)
    end
  end)

  it("tells tiered compilation only when it was set", function()
    assert.is_nil(config.tiering {})
    assert.is_nil(config.tiering { DOTNET_gcServer = "1" })
    local t = config.tiering { DOTNET_TieredCompilation = "0", COMPlus_TC_QuickJit = "0x1", DOTNET_TieredPGO = "nonsense" }
    assert.same({ false, true, nil }, { t.enabled, t.quickJitEnabled, t.dynamicPgoEnabled })
  end)

  it("lets switches of known namespaces through, with any scalar as text", function()
    local rows, by_key = config.switches([[{"runtimeOptions": {"configProperties": {"System.GC.Server": true, "Switch.System.X": "on",
      "Microsoft.Extensions.Y": 7, "Internal.Z": null, "Windows.W": false, "MyApp.Secret": "hunter2", "Systematic": 1,
      "System.List": [1]}}}]])
    assert.same({ "Internal.Z=nil", "Microsoft.Extensions.Y=7", "Switch.System.X=on", "System.GC.Server=true", "Windows.W=false" },
      names(rows))
    assert.equal("true", by_key["System.GC.Server"])
    assert.same({}, (config.switches('{"runtimeOptions": {}}')))
    assert.same({}, (config.switches('\xef\xbb\xbf{"runtimeOptions": {}}')))
    for _, text in ipairs { "", "[]", "{}", '{"runtimeOptions": 1}' } do assert.is_nil((config.switches(text))) end
  end)
end)

describe("views.process.requests-now #unit", function()
  local facts = {
    methods = {
      { "0x1", "System.Threading.Thread.Sleep(Int32)" },
      { "0x2", "Shop.Orders`1[[System.__Canon, System.Private.CoreLib]].Get(System.String[])" },
      { "0x3", "System.Threading.LowLevelLifoSemaphore.Wait(Int32, Boolean)" },
      { "0x4", "System.Threading.PortableThreadPool+WorkerThread.WorkerThreadStart()" }, { "0x5", "" },
    },
    threads = {
      {
        osId = 11, frames = {
          { "managed", "0x", "0x", 0 }, { "runtime", "0x", "0x", -1, "X" }, { "managed", "0x", "0x", 1 }, { "managed", "0x", "0x", 4 },
        },
      },
      { osId = 12, frames = { { "managed", "0x", "0x", 2 }, { "managed", "0x", "0x", 3 } } },
    },
  }

  it("gives each request the frames of the thread on which it began, and none of an idle one", function()
    local artifact = { rows = {
      { trace_id = "aa", method = "GET", path = "/a", elapsed_ms = 1500, thread = 11 },
      { trace_id = nil, method = "(unknown)", path = "(unknown)", elapsed_ms = 20, thread = 12 }, { elapsed_ms = 1, thread = 99 },
    } }
    local rows, awaiting = requests.rows(artifact, requests.stacks(facts), 100)
    assert.same({ "aa", "/a", "GET", 1600, 11, { "System.Threading.Thread.Sleep(Int32)", "Shop.Orders`1.Get(System.String[])" } },
      { rows[1].traceId, rows[1].endpoint, rows[1].method, rows[1].startedAtMs, rows[1].threadId, { table.unpack(rows[1].topFrames) } })
    assert.same({ "", "(unknown)", "(unknown)", 12, 0 },
      { rows[2].traceId, rows[2].endpoint, rows[2].method, rows[2].threadId, #rows[2].topFrames })
    assert.same({ "(unknown)", "(unknown)", 0 }, { rows[3].endpoint, rows[3].method, #rows[3].topFrames })
    assert.same({ 3, 2 }, { #rows, awaiting })
  end)

  it("keeps at most eight frames and a hundred rows", function()
    local long = { methods = { { "0x1", "A.B()" } }, threads = { { osId = 1, frames = {} } } }
    for i = 1, 50 do long.threads[1].frames[i] = { "managed", "0x", "0x", 0 } end
    local artifact = { rows = {} }
    for i = 1, 150 do artifact.rows[i] = { elapsed_ms = i, thread = 1, method = "GET", path = "/" } end
    local rows = requests.rows(artifact, requests.stacks(long), 0)
    assert.same({ 100, 8 }, { #rows, #rows[1].topFrames })
  end)
end)
