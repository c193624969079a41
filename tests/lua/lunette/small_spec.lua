-- SPDX-License-Identifier: MIT
-- The small modules: text, numbers, errors, listen, options, metrics.
local config = require("lunette.config")
local errors = require("lunette.errors")
local json = require("lunette.json")
local listen = require("lunette.listen")
local metrics = require("lunette.metrics")
local numbers = require("lunette.numbers")
local options = require("lunette.options")
local text = require("lunette.text")

describe("lunette.text #unit", function()
  it("counts in words", function()
    assert.same({ "0 callers", "1 caller", "2 callers", "2 processes" },
      { text.count(0, "caller"), text.count(1, "caller"), text.count(2, "caller"), text.count(2, "process", "processes") })
  end)

  it("puts the article before a noun", function()
    assert.same({ "a cpu-sample", "an allocation-sample", "an event-source" },
      { text.with_article("cpu-sample"), text.with_article("allocation-sample"), text.with_article("event-source") })
  end)

  it("finds the nearest word, or none", function()
    local words = { "list", "capabilities", "memory_trend", "runtime-config" }
    for typed, meant in pairs({ lst = "list", capabilites = "capabilities", ["memory-trend"] = "memory_trend", memorytrend = "memory_trend",
      runtimeConfig = "runtime-config", LIST = "list", trend = "memory_trend" }) do
      assert.equal(meant, text.nearest(typed, words))
    end
    assert.equal("top", text.nearest("tp", { "by", "op", "top" }))
    for _, typed in ipairs({ "", "zzzz", ("x"):rep(100) }) do assert.is_nil(text.nearest(typed, words)) end
  end)

  it("joins, quotes and sizes", function()
    assert.equal("a, b or c", text.join({ "a", "b", "c" }, "or"))
    assert.equal("a", text.join({ "a" }))
    assert.equal("1.5 KiB", text.bytes(1536))
    assert.equal("12 B", text.bytes(12))
    local quoted = text.quote(("é"):rep(60) .. "\n")
    assert.is_truthy(utf8.len(quoted))
    assert.is_true(#quoted <= 82)
    assert.same({ "a list", "an object", '"null"', '"true"' },
      { text.quote(json.decode("[1]")), text.quote({ a = 1 }), text.quote(json.null), text.quote(true) })
  end)
end)

describe("lunette.numbers #unit", function()
  it("says how long a short window was, and that none is not known", function()
    local spans = { [15344] = "15.3 s", [50] = "0.1 s", [43] = "43 ms", [1.189] = "1.2 ms", [0.25] = "0.25 ms", [0] = "an unknown time" }
    for ms, said in pairs(spans) do
      assert.equal(said, numbers.span(ms))
    end
  end)

  it("addresses are 0x text in small letters, and read back", function()
    assert.equal("0x7ffdeadbeef0", numbers.address(0x7FFDEADBEEF0))
    assert.equal("0xffffffffffffffff", numbers.address(-1))
    for given, want in pairs({ ["0x10"] = 16, ["0XFF"] = 255, ["42"] = 42, ["0xffffffffffffffff"] = -1, [" 0x0 "] = 0,
      ["0x00000000000000001"] = 1 }) do
      assert.equal(want, numbers.parse_address(given))
    end
    for _, given in ipairs({ "", "0x", "xyz", "0x1ffffffffffffffff", "-1", "1.5" }) do assert.is_nil(numbers.parse_address(given)) end
  end)

  it("counts beyond 2^53 are decimal text", function()
    assert.equal(9007199254740991, numbers.count(9007199254740991))
    assert.equal("9007199254740992", numbers.count(9007199254740992))
    assert.equal("18446744073709551615", numbers.ulong(-1))
    assert.equal("7", numbers.ulong(7))
  end)

  it("shows six significant digits of what was computed, and never less than the whole part", function()
    for _, pair in ipairs { { 1.8063359999999875, 1.80634 }, { -0.0112649432, -0.0112649 }, { 155992064.48, 155992064 },
      { 7654321, 7654321 }, { 0.0, 0 }, { 1 / 0, 1 / 0 } } do
      assert.equal(pair[2], numbers.shown(pair[1]))
    end
    assert.is_nil(numbers.shown(nil))
  end)

  it("times and spans are as the contract writes them", function()
    assert.equal("2025-11-30T06:40:00.007Z", numbers.iso(1764484800007))
    assert.equal("00:00:05", numbers.timespan(5000))
    assert.equal("00:00:00.0012500", numbers.timespan(1.25))
    assert.equal("1.01:01:01.5000000", numbers.timespan(90061500))
    assert.equal("-00:00:01", numbers.timespan(-1000))
  end)

  it("a number that is none is unavailable, not zero", function()
    assert.is_nil(numbers.round(0 / 0))
    assert.is_nil(numbers.round(math.huge))
    assert.is_nil(numbers.round(nil))
    assert.equal(1.24, numbers.round(1.2368))
    assert.equal("integer", math.type(numbers.round(2.0001)))
  end)
end)

describe("lunette.errors #unit", function()
  it("every kind has recovery hints that name a tool, with the process filled in", function()
    for kind in pairs(errors.KINDS) do
      for _, hint in ipairs(errors.recovery(errors.new(kind, "x"), { tool = "some_tool", process_id = 7 })) do
        assert.is_nil(hint.nextTool:find("<", 1, true), kind)
        for _, value in pairs(hint.suggestedArguments or {}) do assert.not_equal("<pid>", value) end
      end
    end
    assert.equal("some_tool", errors.recovery(errors.new("Busy", "x"), { tool = "some_tool" })[1].nextTool)
    assert.equal(7, errors.recovery(errors.new("EndpointUnavailable", "x", { process_id = 7 }), {})[2].suggestedArguments.processId)
  end)

  it("own hints win", function()
    local hints = { require("lunette.hints").new("t", "r") }
    assert.equal(hints, errors.recovery(errors.new("NotSupported", "x", { hints = hints }), {}))
  end)

  it("has the contract's kinds, and none of the historic ones", function()
    local n = 0
    for _ in pairs(errors.KINDS) do n = n + 1 end
    assert.equal(56, n)
    for _, kind in ipairs({ "Forbidden", "InsufficientScope", "UnknownView" }) do assert.is_nil(errors.KINDS[kind]) end
    assert.has_error(function() errors.new("Forbidden", "x") end)
  end)

  it("anything becomes a record, and prints well", function()
    assert.equal("Internal", errors.classify("boom").kind)
    assert.equal("Cancelled", errors.classify({ kind = "Cancelled", message = "x" }).kind)
    assert.equal("where: what", tostring(errors.new("Internal", "what"):at("where")))
    local own = errors.invalid("n", "m")
    assert.equal(own, errors.classify(own))
  end)
end)

describe("lunette.listen #unit", function()
  local function places(environ, opts) return listen.places(config.load({ environ = environ }), opts or {}) end

  it("is 127.0.0.1:8787 when nothing says otherwise", function()
    local list, source = places({})
    assert.same({ { address = "127.0.0.1", port = 8787, tls = false } }, list)
    assert.equal("default", source)
  end)

  it("reads --http in its forms", function()
    for given, want in pairs({ ["127.0.0.1:0"] = { "127.0.0.1", 0 }, ["[::1]:80"] = { "::1", 80 }, ["9000"] = { "127.0.0.1", 9000 },
      [":9000"] = { "0.0.0.0", 9000 }, ["localhost:1"] = { "127.0.0.1", 1 } }) do
      local place = assert(listen.parse(given))
      assert.same(want, { place.address, place.port })
    end
    for _, given in ipairs({ "127.0.0.1", "127.0.0.1:70000", "a b:1", "::1:80" }) do assert.is_nil((listen.parse(given))) end
  end)

  it("honours ASPNETCORE_URLS, DOTNET_URLS and the ports, in that order, below the command line", function()
    local environ = { ASPNETCORE_URLS = "http://+:8080;https://[::1]:8443/", DOTNET_URLS = "http://127.0.0.1:1", DOTNET_HTTP_PORTS = "5" }
    assert.same({ { address = "0.0.0.0", port = 8080, tls = false }, { address = "::1", port = 8443, tls = true } }, (places(environ)))
    environ.ASPNETCORE_URLS = nil
    assert.same({ { address = "127.0.0.1", port = 1, tls = false } }, (places(environ)))
    environ.DOTNET_URLS = nil
    assert.same({ { address = "0.0.0.0", port = 5, tls = false } }, (places(environ)))
    assert.same({ { address = "127.0.0.1", port = 2, tls = false } }, (places(environ, { http = "2" })))
    assert.same({ { address = "127.0.0.1", port = 80, tls = false } }, (places(environ, { urls = "http://localhost" })))
    assert.is_nil((places({ ASPNETCORE_URLS = "ftp://x" })))
  end)
end)

describe("lunette.options #unit", function()
  local KNOWN <const> = { ["--json"] = "flag", ["--config"] = "value", ["--scripts"] = "list" }

  it("reads values, lists, flags and the rest", function()
    local o = assert(options.parse({ "a", "--json", "--config=c", "--scripts", "x", "b=--json", "--scripts=y" }, KNOWN))
    assert.same({ "a", "b=--json", json = true, config = "c", scripts = { "x", "y" } }, o)
  end)

  it("says what is wrong", function()
    for _, row in ipairs({ { { "--jsno" }, 'Did you mean "--json"?' }, { { "--config" }, "needs a value" }, { { "--json=1" },
      "takes no value" } }) do
      local o, why = options.parse(row[1], KNOWN)
      assert.is_nil(o)
      assert.matches(row[2], why, 1, true)
    end
  end)
end)

describe("lunette.metrics #unit", function()
  it("writes the Prometheus text format, labels escaped, series bounded", function()
    local c = metrics.counter("spec_total", "Of the specs.")
    c:add({ reason = 'a"b\nc' })
    c:add({ reason = 'a"b\nc' }, 2)
    metrics.gauge("spec_gauge", "Of the specs.", function() return 7 end)
    local page = metrics.render()
    assert.matches('# TYPE spec_total counter\nspec_total{reason="a\\"b\\nc"} 3\n', page, 1, true)
    assert.matches("# TYPE spec_gauge gauge\nspec_gauge 7\n", page, 1, true)
    for i = 1, 200 do c:add({ reason = "r" .. i }) end
    local _, n = metrics.render():gsub("\nspec_total{", "")
    assert.is_true(n <= 65)
  end)
end)
