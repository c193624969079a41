-- SPDX-License-Identifier: MIT
-- inspect_process(view="list") and (view="info").
local fake = require("support.fake_machine")

local function named(pid, command_line)
  local p = fake.process { pid = pid }
  p.info.commandLine = command_line
  return p
end

local function blocked(pid, cause)
  return fake.process { pid = pid, state = "unreachable", cause = cause, message = "why " .. pid, hint = "cure " .. pid }
end

local function list_on(processes, args)
  return fake.new({ processes = processes }):load("views.process.list").run(fake.ctx(), args or {})
end

describe("views.process.list", function()
  it("list shows each reachable .NET process with its six facts and leaves out one whose endpoint does not answer, no error", function()
    local rows, extras = list_on { named(20, "/a/x.dll"), blocked(21, "not-answering") }
    assert.equal(1, #rows)
    local facts = 0
    for _ in pairs(rows[1]) do facts = facts + 1 end
    assert.equal(6, facts)
    assert.same({ 20, "/a/x.dll" }, { rows[1].processId, rows[1].commandLine })
    assert.matches("^1 %.NET process can be reached%.", extras.summary)
  end)

  it("names every process that is seen but out of reach, with the cause and the cure", function()
    local rows, extras = list_on { blocked(21, "permission"), blocked(22, "stale-socket") }
    assert.equal(0, #rows)
    assert.matches("No %.NET process can be reached%. Seen but out of reach: process 21 %(permission%): why 21; cure 21", extras.summary)
    assert.same({
      "Not reachable: process 21 (permission): why 21; cure 21", "Not reachable: process 22 (stale-socket): why 22; cure 22",
    }, { table.unpack(extras.fields.notes) })
    assert.same({ view = "preflight", processId = 21 }, extras.hints[1].suggestedArguments)
  end)

  it("bounds the names of a crowd", function()
    local crowd = {}
    for i = 1, 30 do crowd[i] = blocked(100 + i, "permission") end
    local _, extras = list_on(crowd)
    assert.equal(21, #extras.fields.notes)
    assert.matches("10 more", extras.fields.notes[21])
    assert.matches("and 26 more", extras.summary)
  end)

  it("list: commandLineContains matches in any letter case", function()
    local rows = list_on({ named(20, "/app/MyApi.dll"), named(21, "/app/other.dll") }, { commandLineContains = "MYAPI" })
    assert.equal(1, #rows)
    assert.equal(20, rows[1].processId)
  end)

  it("list: a filter without a match gives an empty array, success, and a summary that names the filter", function()
    local rows, extras = list_on({ named(20, "/app/MyApi.dll") }, { commandLineContains = "testhost%." })
    assert.equal("[]", require("lunette.json").encode(rows))
    assert.matches('contains "testhost%%%."; without the filter: 1', extras.summary)
  end)

  it("hints capabilities of the first one, or to list again when there is none", function()
    local _, extras = list_on { named(20, "x"), named(21, "y") }
    local first = extras.hints[1]
    assert.same({ "inspect_process", { view = "capabilities", processId = 20 } }, { first.nextTool, first.suggestedArguments })
    _, extras = list_on {}
    assert.same({ view = "list" }, extras.hints[1].suggestedArguments)
    assert.is_nil(extras.fields)
  end)
end)

describe("views.process.info", function()
  local function info_on(processes, pid)
    return fake.new({ processes = processes }):load("views.process.info").run(fake.ctx(), { processId = pid })
  end

  it("gives the record and the digest", function()
    local data, extras = info_on({ fake.process { pid = 20 } }, 20)
    assert.equal("App", data.info.managedEntrypointAssemblyName)
    assert.equal(20, extras.process.digest.processId)
    assert.same({ kind = "counters", durationSeconds = 5, processId = 20 }, extras.hints[1].suggestedArguments)
  end)

  it("info of a process that is gone is a success without data.info", function()
    local data, extras = info_on({}, 77)
    assert.same({ view = "info" }, data)
    assert.matches("there is no process 77", extras.summary)
    assert.is_nil(extras.process)
    data, extras = info_on({ blocked(21, "permission") }, 21)
    assert.same({ view = "info" }, data)
    assert.equal(1, select(2, extras.summary:gsub("cannot be reached", "")), "said once")
    assert.is_nil(extras.summary:find("no .NET process", 1, true), "it is one, out of reach")
  end)

  it("is still an error when no process was given and none or several are there", function()
    local data, err = info_on({}, nil)
    assert.is_nil(data)
    assert.equal("NoDotnetProcessFound", err.kind)
  end)
end)
