-- SPDX-License-Identifier: MIT
local call = require("cli.call")
local json = require("lunette.json")
local loop = require("lunette.loop")
local render = require("lunette.render")

-- Runs `lunette …` -> { code, stdout, stderr }.
local function lunette(...) return assert(loop.exec({ argv = { "/proc/self/exe", ... }, timeout_ms = 60000 })) end

describe("lunette call #unit", function()
  it("reads NAME=VALUE words, lists and chained calls", function()
    local steps = assert(call.parse_steps({ "a", "x=1", "y=", "z={\"k\":2}", "l=p", "l=q=r", "then", "b", "handle=@" }))
    assert.equal(2, #steps)
    assert.equal("a", steps[1].tool)
    assert.same({ x = "1", y = "", z = '{"k":2}', l = { "p", "q=r" } }, { x = steps[1].arguments.x, y = steps[1].arguments.y,
      z = steps[1].arguments.z, l = { table.unpack(steps[1].arguments.l) } })
    assert.same({ handle = "@" }, steps[2].arguments)
  end)

  it("says what it does not understand", function()
    for _, row in ipairs({ { { "x=1" }, "the tool comes first" }, { { "a", "b" }, "no NAME=VALUE" }, { { "then" }, "a call before it" },
      { { "a", "then" }, "a call behind it" } }) do
      local steps, why = call.parse_steps(row[1])
      assert.is_nil(steps)
      assert.matches(row[2], why, 1, true)
    end
  end)

  it("exit codes: 0 done, 1 the answer is an error, 2 the call cannot be understood", function()
    local done = lunette("call", "inspect_process", "view=list", "--json")
    assert.equal(0, done.code, done.stderr)
    assert.equal("list", json.decode(done.stdout).data.view)
    done = lunette("call", "query_snapshot", "handle=00000000000000000000", "--json")
    assert.equal(1, done.code)
    assert.equal("HandleNotFound", json.decode(done.stdout).error.kind)
    for _, words in ipairs({ { "nosuch" }, { "inspect_process", "nonsense" }, { "inspect_process", "--nosuch" }, { "inspect_process",
      "viw=list" },
      { "inspect_process", "--scopes", "nosuch" }, { "query_snapshot", "handle=@" }, { "inspect_process", "--config", "/nonexistent" } }) do
      done = lunette("call", table.unpack(words))
      assert.equal(2, done.code, table.concat(words, " "))
    end
    assert.matches('Did you mean "query_snapshot"?', lunette("call", "query_snapshut").stderr, 1, true)
  end)

  it("--scopes acts as a token with these scopes", function()
    local done = lunette("call", "inspect_process", "view=list", "--scopes", "eventpipe", "--json")
    assert.equal(1, done.code)
    assert.equal("PermissionDenied", json.decode(done.stdout).error.kind)
  end)

  it("TOOL --help prints the parameters from the declaration; no tool lists them", function()
    local done = lunette("call", "inspect_process", "--help")
    assert.equal(0, done.code)
    assert.matches("durationSeconds=int", done.stdout, 1, true)
    assert.matches("one of list, info, capabilities", done.stdout, 1, true)
    assert.matches("memory_trend%s+low risk, needs read%-counters", done.stdout)
    done = lunette("call", "collect_events", "--help")
    assert.matches("durationSeconds=.*default counters 5, datas 15, replica_counters 5, sweep 6, else 10; 1 to 300", done.stdout)
    assert.matches("\n  counters%s+up to critical risk, needs read%-counters\n", done.stdout)
    done = lunette("call")
    assert.equal(0, done.code)
    assert.is_nil(done.stdout:find(";\n"))
    assert.matches("query_snapshot", done.stdout, 1, true)
  end)

  it("prints for people by default: the sentence, and the next calls as lines to paste", function()
    local done = lunette("call", "query_snapshot", "latestOfKind=gc-events")
    assert.matches("^There is no living gc%-events handle%.\nNotFound %(gc%-events%)\n", done.stdout)
    assert.matches("lunette call collect_events kind=gc", done.stdout, 1, true)
    done = lunette("call", "query_snapshot", "handle=0123456789ABCDEFGHJKMNPQRS")
    assert.matches("A handle ends with the command that made it.", done.stdout, 1, true)
  end)

  it("writes nothing but the answer on standard output", function()
    local done = lunette("call", "inspect_process", "view=list", "--json")
    assert.equal(1, select(2, done.stdout:gsub("\n", "")))
    assert.is_table(json.decode(done.stdout))
  end)
end)

describe("lunette.render #unit", function()
  it("shows tables, nested records and short lists", function()
    local text = render.answer({ summary = "S.", hints = {}, data = {
      rows = { { name = "a", value = 1.5, unit = "ms" }, { name = "long name", value = 20 } }, heapBytes = 3145728, notes = json.array({}),
      inner = { deep = true },
    } })
    assert.matches("name       value  unit", text, 1, true)
    assert.matches("a            1.5  ms", text, 1, true)
    assert.matches("long name     20", text, 1, true)
    assert.matches("heapBytes  3.0 MiB", text, 1, true)
    assert.matches("notes: none", text, 1, true)
    assert.matches("inner:\n  deep  true", text, 1, true)
  end)

  it("shows few rows with lists of their own one by one", function()
    local text = render.answer({ summary = "S.", data = { providers = json.array({
      { provider = "A", counters = json.array({ { name = "x", value = 1 } }) }, { provider = "B", counters = json.array({}) },
    }) } })
    local want = "providers (2):\n  provider  A\n  counters (1):\n    name  value\n    x         1\n\n  provider  B\n  counters: none"
    assert.matches(want, text, 1, true)
  end)

  it("says which process it was, and in words when its runtime is not known", function()
    local function of(runtime)
      return render.answer({ summary = "S.", resolvedProcess = { processId = 7, runtime = runtime, runtimeVersion = "10.0.1" } })
    end
    assert.matches("Process 7, CoreClr 10.0.1", of("CoreClr"), 1, true)
    assert.matches("Process 7, unknown runtime 10.0.1", of("Unknown"), 1, true)
  end)

  it("says how many rows it leaves out", function()
    local rows = {}
    for i = 1, 75 do rows[i] = { n = i } end
    assert.matches("15 more; --json has all", render.answer({ summary = "S.", data = { rows = rows } }), 1, true)
  end)

  it("keeps the order of the answer, and names the columns that have no room", function()
    local answer = json.decode('{"summary":"S.","data":{"z":1,"a":2,"rows":[{"site":"M()","c1":1,"c2":2,"c3":3,"c4":4,"c5":5,"c6":6,"c7":7,'
      .. '"c8":8,"calls":9,"all":[1]},{"site":"N()"}]}}', true)
    local text = render.answer(answer)
    assert.matches("z  1\na  2", text, 1, true)
    assert.matches("site  c1  c2  c3  c4  c5  c6  c7  c8\n", text, 1, true)
    assert.matches("… and calls, all; --json has all", text, 1, true)
  end)

  it("chains a question about a handle behind the call that made it, and quotes for the shell", function()
    local hint = { nextTool = "query_snapshot", suggestedArguments = { handle = "H1", view = "byProvider" }, reason = "r" }
    assert.equal("lunette call collect_events kind=counters then query_snapshot view=byProvider handle=@",
      render.command(hint, "collect_events kind=counters", "H1"))
    hint = { nextTool = "t", suggestedArguments = { x = "it's; rm", l = json.array({ "a" }) } }
    assert.equal([[lunette call t l='["a"]' x='it'\''s; rm']], render.command(hint))
  end)

  it("chains on behind a question about a handle that was made before", function()
    local recording = ("%s/share/demo.nettrace"):format(require("lunette.sys").home)
    local done = lunette("call", "collect_events", "kind=counters", "traceFilePath=" .. recording, "then", "query_snapshot", "handle=@",
      "view=byProvider")
    assert.equal(0, done.code, done.stderr)
    assert.is_nil(done.stdout:find("handle=[^@]"), done.stdout)
    local envelope = { summary = "", hints = { { nextTool = "query_snapshot", reason = "r", suggestedArguments = { handle = "H1" } } } }
    assert.matches("lunette call a then query_snapshot handle=@ then query_snapshot handle=@\n", render.answer(envelope,
      { previous = "a then query_snapshot handle=@", handle = "H1" }), 1, true)
    assert.matches("lunette call query_snapshot handle=H1\n", render.answer(envelope, { previous = "a", handle = "H2" }), 1, true)
  end)

  it("gives the terminal no control characters of a target, wherever they stand", function()
    local evil = "a\27]0;x\7\nb\u{9b}31m\u{202e}"
    local hint = { nextTool = "t", reason = evil, suggestedArguments = { rootMethodFilter = evil } }
    local text = render.answer({
      summary = evil, error = { kind = "NotFound", detail = evil, message = evil .. "2" }, safetyWarnings = { evil }, data = { k = evil },
      signals = { { signal = "s", summary = evil, salience = 1, buckets = { { key = evil, magnitude = 1, unit = evil } } } },
      hints = { hint },
    })
    for _, bad in ipairs { "\27", "\7", "\u{9b}", "\u{202e}", "\nb" } do assert.is_nil(text:find(bad, 1, true)) end
    local line = text:match("rootMethodFilter=(%C+)")
    local done = assert(loop.exec({ argv = { "bash", "-c", "printf %s " .. line }, timeout_ms = 60000 }))
    assert.equal(evil, done.stdout) -- and what is pasted is what was meant
  end)

  it("repeats words of a chain so that they can be pasted", function()
    local steps = assert(call.parse_steps({ "a", "x=it's (1)", "y=2" }))
    assert.equal([[a x='it'\''s (1)' y=2]], table.concat(steps[1].words, " "))
  end)

  it("a preview says how to go on", function()
    local hint = { nextTool = "t", reason = "r", suggestedArguments = { n = 1, _dotnetDiagnostics = { acknowledgement = {} } } }
    local text = render.answer({ summary = "S.", hints = { hint }, safetyApproval = {} })
    assert.matches("lunette call t n=1 --approve", text, 1, true)
  end)
end)
