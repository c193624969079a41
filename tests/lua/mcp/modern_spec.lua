-- SPDX-License-Identifier: MIT
-- Modern requests through the endpoint: results, lists, streams, questions by input_required, cancellation by hanging up.
local fake = require("support.fake_http")
local http = require("lunette.mcp.http")
local json = require("lunette.json")
local loop = require("lunette.loop")
local protocol = require("lunette.mcp.protocol")
local registry = require("lunette.registry")
local server = require("lunette.mcp.server")

local SERVER_INFO <const> = { name = "spec-server", version = "9" }
local ELICITATION <const> = { elicitation = {} }

local function text(s) return { content = json.array({ { type = "text", text = s } }) } end

local NAME_FORM <const> = {
  message = "Name?", requestedSchema = { type = "object", properties = { name = { type = "string" } }, required = json.array({ "name" }) },
}

describe("a modern request", function()
  local r, S, endpoint
  before_each(function()
    r = registry.new()
    S = server.new({ registry = r, server_info = SERVER_INFO, instructions = "use it" })
    endpoint = http.endpoint(S, { auth = fake.ALLOW_ALL })
  end)
  after_each(function() endpoint:close() end)

  local function add(name, handler, more)
    local def = { name = name, description = "d", inputSchema = { type = "object" }, handler = handler }
    for k, v in pairs(more or {}) do def[k] = v end
    r.add_tool(def)
  end

  local function call(name, arguments, capabilities, more)
    local params = { name = name, arguments = arguments }
    for k, v in pairs(more or {}) do params[k] = v end
    return fake.modern(endpoint, 1, "tools/call", params, capabilities)
  end

  it("server/discover names versions, capabilities and us", function()
    local result = fake.modern(endpoint, 1, "server/discover"):json().result
    assert.equal("complete", result.resultType)
    assert.equal("2026-07-28", result.supportedVersions[1])
    assert.is_true(result.capabilities.tools.listChanged)
    assert.same({}, result.capabilities.extensions[protocol.TASKS_EXTENSION])
    assert.is_nil(result.capabilities.tasks)
    assert.equal("use it", result.instructions)
    assert.same(SERVER_INFO, result._meta[protocol.META.SERVER])
    assert.equal("public", result.cacheScope)
    assert.is_true(result.ttlMs >= 0)
  end)

  describe("tools/list", function()
    it("is in order, in pages, with caching hints", function()
      S.page_size = 2
      for _, name in ipairs({ "c", "a", "b" }) do add(name, function() return text("x") end) end
      local first = fake.modern(endpoint, 1, "tools/list"):json().result
      assert.same({ "a", "b" }, { first.tools[1].name, first.tools[2].name })
      assert.equal("public", first.cacheScope)
      local second = fake.modern(endpoint, 1, "tools/list", { cursor = first.nextCursor }):json().result
      assert.equal("c", second.tools[1].name)
      assert.is_nil(second.nextCursor)
      assert.equal(-32602, fake.modern(endpoint, 1, "tools/list", { cursor = "zzz" }):json().error.code)
    end)

    it("is private and per principal when it depends on who asks", function()
      add("a", function() return text("x") end, { meta = function(principal) return { ["x.y/who"] = principal.name } end })
      local body = fake.modern_body(1, "tools/list")
      local function who(token)
        local headers = fake.modern_headers(body)
        headers.authorization = token
        local result = fake.send(endpoint, { headers = headers, body = body }):json().result
        assert.equal("private", result.cacheScope)
        return result.tools[1]._meta["x.y/who"]
      end
      assert.same({ "ann", "bob", "ann" }, { who("ann"), who("bob"), who("ann") })
    end)

    it("shows a change at once", function()
      add("a", function() return text("x") end)
      assert.equal(1, #fake.modern(endpoint, 1, "tools/list"):json().result.tools)
      add("b", function() return text("x") end)
      assert.equal(2, #fake.modern(endpoint, 1, "tools/list"):json().result.tools)
    end)

    it("is an empty list when there is nothing", function()
      for method, member in pairs({ ["tools/list"] = "tools", ["prompts/list"] = "prompts", ["resources/list"] = "resources",
        ["resources/templates/list"] = "resourceTemplates" }) do
        local answer = fake.modern(endpoint, 1, method)
        assert.truthy(answer.answer:find('"' .. member .. '":[]', 1, true))
      end
    end)

    it("passes schemas on as they are", function()
      local schema = json.decode(
        '{"type":"object","$defs":{"a":{"$anchor":"x"}},"allOf":[{"required":["p"]}],"additionalProperties":false}')
      r.add_tool({ name = "a", description = "d", inputSchema = schema, outputSchema = { type = "array" }, handler = function() end })
      local tool = fake.modern(endpoint, 1, "tools/list"):json().result.tools[1]
      assert.same(schema, tool.inputSchema)
      assert.equal("array", tool.outputSchema.type)
    end)
  end)

  describe("tools/call", function()
    it("keeps the type of the id", function()
      add("a", function() return text("x") end)
      assert.truthy(fake.modern(endpoint, "1", "tools/call", { name = "a" }).answer:find('"id":"1"', 1, true))
      assert.truthy(fake.modern(endpoint, 1, "tools/call", { name = "a" }).answer:find('"id":1,', 1, true))
    end)

    it("gives the result with resultType and serverInfo", function()
      add("a", function(_, args) return { content = {}, structuredContent = json.array({ args.v }), _meta = { ["x.y/k"] = 1 } } end)
      local result = call("a", { v = 5 }):json().result
      assert.equal("complete", result.resultType)
      assert.is_true(json.is_array(result.content))
      assert.equal(5, result.structuredContent[1])
      assert.equal(1, result._meta["x.y/k"])
      assert.same(SERVER_INFO, result._meta[protocol.META.SERVER])
    end)

    for what, params in pairs({
      ["an unknown tool"] = { name = "none" }, ["arguments that are no object"] = { name = "a", arguments = json.array({}) },
    }) do
      it("answers " .. what .. " with -32602 in-band", function()
        add("a", function() return text("x") end)
        local answer = fake.modern(endpoint, 1, "tools/call", params)
        assert.equal(200, answer.status)
        assert.equal(-32602, answer:json().error.code)
      end)
    end

    it("makes an isError result of an expected failure", function()
      add("a", function() return nil, { kind = "NotFound", message = "no process 7", hint = "try another" } end)
      local result = call("a"):json().result
      assert.is_true(result.isError)
      assert.equal("no process 7\ntry another", result.content[1].text)
    end)

    it("makes -32603 of a thrown error and leaks no trace", function()
      add("a", function() error("secret /path/x.lua") end)
      local answer = call("a")
      assert.equal(200, answer.status)
      assert.equal(-32603, answer:json().error.code)
      assert.is_nil(answer.answer:find("secret", 1, true))
    end)

    it("tells when a limit of the host ended the tool", function()
      add("spin", function()
        loop.set_budget(30)
        while true do S.page_size = S.page_size end
      end)
      local result = call("spin"):json().result
      assert.is_true(result.isError)
      assert.truthy(result.content[1].text:lower():find("budget") or result.content[1].text:find("CPU"), result.content[1].text)
    end)

    it("passes a JSON-RPC error of the tool on, with its data", function()
      add("a", function(ctx)
        local ok, err = ctx:require("sampling")
        if not ok then return nil, err end
        return text("x")
      end)
      local answer = call("a")
      assert.equal(400, answer.status)
      assert.equal(-32021, answer:json().error.code)
      assert.same({ requiredCapabilities = { sampling = {} } }, answer:json().error.data)
      assert.equal(200, call("a", nil, { sampling = {} }).status)
    end)

    it("streams progress only when a token was given, growing only", function()
      add("a", function(ctx)
        for _, p in ipairs({ 1, 1, 0, 2 }) do ctx:progress(p, 2, "m") end
        return text("x")
      end)
      assert.falsy(call("a").is_stream)
      local answer = call("a", nil, nil, { _meta = { progressToken = "p" } })
      assert.is_true(answer.is_stream)
      assert.equal("no", answer.answer_headers["X-Accel-Buffering"])
      local events = answer:events()
      assert.equal(3, #events)
      assert.same({ progressToken = "p", progress = 1, total = 2, message = "m" }, events[1].data.params)
      assert.equal(2, events[2].data.params.progress)
      assert.equal("complete", events[3].data.result.resultType)
      assert.is_nil(events[1].id)
    end)

    it("logs only at the level that the request asks for", function()
      add("a", function(ctx)
        ctx:log("debug", "low")
        ctx:log("error", { high = true }, "spec")
        return text("x")
      end)
      assert.falsy(call("a").is_stream)
      local events = call("a", nil, nil, { _meta = { [protocol.META.LOG_LEVEL] = "warning" } }):events()
      assert.equal(2, #events)
      assert.same({ level = "error", data = { high = true }, logger = "spec" }, events[1].data.params)
    end)

    it("bounds the log messages of a request", function()
      add("a", function(ctx)
        for i = 1, 300 do ctx:log("error", i) end
        return text("x")
      end)
      local events = call("a", nil, nil, { _meta = { [protocol.META.LOG_LEVEL] = "debug" } }):events()
      assert.equal(201, #events)
      assert.truthy(tostring(events[200].data.params.data):find("left out"))
    end)

    it("checks the mirrored headers", function()
      add("a", function() return text("x") end, { inputSchema = { type = "object", properties = {
        region = { type = "string", ["x-mcp-header"] = "Region" } } } })
      assert.equal(-32020, call("a", { region = "eu" }):json().error.code)
      local body = fake.modern_body(1, "tools/call", { name = "a", arguments = { region = "eu" } })
      local headers = fake.modern_headers(body)
      headers["mcp-param-region"] = "eu"
      assert.equal(200, fake.send(endpoint, { headers = headers, body = body }).status)
    end)

    it("cancels the handler at once when the client hangs up, and runs its cleanup", function()
      local began, cleaned = loop.channel(1), loop.channel(1)
      local slept
      add("a", function()
        loop.on_cleanup(function() cleaned:send(true) end)
        began:send(true)
        local _, err = loop.sleep_ms(60000)
        slept = err
        return nil, err
      end)
      local req = fake.start_modern(endpoint, 1, "tools/call", { name = "a" })
      assert.is_true(began:recv(20000))
      local t0 = loop.now_ms()
      req:hang_up()
      assert.is_true(cleaned:recv(20000))
      assert.is_true(loop.now_ms() - t0 < 20000)
      assert.equal("Cancelled", slept.kind)
      req.task:await(1000)
      assert.equal("", req.answer or "")
      assert.equal(1, S.stats.cancelled)
    end)
  end)

  describe("a question", function()
    before_each(function()
      add("hello", function(ctx)
        local answer, err = ctx:elicit("who", NAME_FORM)
        if not answer then return nil, err end
        return text(answer.action == "accept" and "Hello, " .. answer.content.name or answer.action)
      end)
    end)

    it("ends the call with input_required and goes on with the answer", function()
      local first = call("hello", nil, ELICITATION):json().result
      assert.equal("input_required", first.resultType)
      assert.equal("elicitation/create", first.inputRequests.who.method)
      assert.is_nil(first.requestState)
      assert.is_nil(first.inputRequests.who.jsonrpc)
      local second = call("hello", nil, ELICITATION, { inputResponses = { who = { action = "accept", content = { name = "Ada" } } } })
      assert.equal("Hello, Ada", second:json().result.content[1].text)
    end)

    it("with a URL has no id", function()
      local question = { mode = "url", message = "Go", url = "https://x.example", elicitationId = "e" }
      add("link", function(ctx) return ctx:elicit("go", question) end)
      local result = call("link", nil, { elicitation = { url = {} } }):json().result
      assert.same({ mode = "url", message = "Go", url = "https://x.example" }, result.inputRequests.go.params)
    end)

    it("takes a decline for an answer", function()
      local result = call("hello", nil, ELICITATION, { inputResponses = { who = { action = "decline" } } }):json().result
      assert.equal("decline", result.content[1].text)
    end)

    for what, responses in pairs({ ["another key"] = { other = { action = "accept" } }, ["no answers"] = {},
      ["content that does not fit"] = { who = { action = "accept", content = { name = 5 } } } }) do
      it("asks again for " .. what, function()
        assert.equal("input_required", call("hello", nil, ELICITATION, { inputResponses = responses }):json().result.resultType)
      end)
    end

    it("refuses malformed answers", function()
      assert.equal(-32602, call("hello", nil, ELICITATION, { inputResponses = json.null }):json().error.code)
      assert.equal(-32602, call("hello", nil, ELICITATION, { inputResponses = { who = 5 } }):json().error.code)
      assert.equal(-32602, call("hello", nil, ELICITATION, { requestState = "v1.x.y" }):json().error.code)
    end)

    it("is not put to a client that cannot answer it", function()
      local answer = call("hello")
      assert.equal(400, answer.status)
      assert.equal(-32021, answer:json().error.code)
      assert.equal(400, call("hello", nil, { elicitation = { url = {} } }).status)
    end)

    it("ends the call even when the handler catches every error", function()
      add("stubborn", function(ctx)
        pcall(ctx.elicit, ctx, "who", NAME_FORM)
        return text("went on")
      end)
      assert.equal("input_required", call("stubborn", nil, ELICITATION):json().result.resultType)
    end)

    it("carries earlier answers and ctx.state through the rounds, sealed for this request", function()
      add("rounds", function(ctx, args)
        ctx.state.n = (ctx.state.n or 0) + 1
        local a, err = ctx:elicit("a", NAME_FORM)
        if not a then return nil, err end
        local b, why = ctx:elicit("b", NAME_FORM)
        if not b then return nil, why end
        return text(a.content.name .. b.content.name .. args.x .. ctx.state.n)
      end)
      local function answer(name) return { action = "accept", content = { name = name } } end
      local one = call("rounds", { x = "!" }, ELICITATION):json().result
      local retry = { inputResponses = { a = answer("A") }, requestState = one.requestState }
      local two = call("rounds", { x = "!" }, ELICITATION, retry):json().result
      assert.is_nil(two.inputRequests.a)
      assert.not_equal(one.requestState, two.requestState)
      local last = { inputResponses = { b = answer("B") }, requestState = two.requestState }
      assert.equal("AB!3", call("rounds", { x = "!" }, ELICITATION, last):json().result.content[1].text)
      assert.equal(-32602, call("rounds", { x = "?" }, ELICITATION, last):json().error.code)
      last.requestState = two.requestState .. "-TAMPERED"
      assert.equal(-32602, call("rounds", { x = "!" }, ELICITATION, last):json().error.code)
    end)
  end)

  describe("prompts", function()
    before_each(function()
      r.add_prompt({
        name = "p", description = "d",
        arguments = { { name = "a", required = true, complete = function(_, v) return { v .. "1", v .. "2" } end } },
        get = function(_, args) return { messages = { { role = "user", content = { type = "text", text = args.a } } } } end,
      })
      r.add_prompt({ name = "q", get = function(ctx)
        local answer = ctx:elicit("who", NAME_FORM)
        return { messages = { { role = "user", content = { type = "text", text = answer.content.name } } } }
      end })
    end)

    local function get(params) return fake.modern(endpoint, 1, "prompts/get", params, ELICITATION):json() end

    it("lists arguments without their functions", function()
      local list = fake.modern(endpoint, 1, "prompts/list"):json().result.prompts
      assert.same({ name = "a", required = true }, list[1].arguments[1])
    end)

    it("checks arguments", function()
      assert.equal("x", get({ name = "p", arguments = { a = "x" } }).result.messages[1].content.text)
      assert.equal(-32602, get({ name = "p" }).error.code)
      assert.equal(-32602, get({ name = "p", arguments = { a = 5 } }).error.code)
      assert.equal(-32602, get({ name = "none" }).error.code)
    end)

    it("may ask, too", function()
      assert.equal("input_required", get({ name = "q" }).result.resultType)
      local answers = { who = { action = "accept", content = { name = "Ada" } } }
      assert.equal("Ada", get({ name = "q", inputResponses = answers }).result.messages[1].content.text)
    end)

    it("completes", function()
      local function complete(ref, name)
        return fake.modern(endpoint, 1, "completion/complete", { ref = ref, argument = { name = name, value = "v" } }):json()
      end
      local ref = { type = "ref/prompt", name = "p" }
      assert.same({ values = { "v1", "v2" }, total = 2, hasMore = false }, complete(ref, "a").result.completion)
      assert.equal(0, #complete(ref, "other").result.completion.values)
      assert.equal(-32602, complete({ type = "ref/prompt", name = "none" }, "a").error.code)
      assert.equal(-32602, complete({ type = "ref/none" }, "a").error.code)
    end)

    it("suggests at most 100 values and says that there are more", function()
      r.add_template({ uriTemplate = "x://{id}", name = "x", read = function() end, complete = { id = function()
        local values = {}
        for i = 1, 150 do values[i] = i end
        return values
      end } })
      local params = { ref = { type = "ref/resource", uri = "x://{id}" }, argument = { name = "id", value = "" } }
      local completion = fake.modern(endpoint, 1, "completion/complete", params):json().result.completion
      assert.same({ 100, 150, true }, { #completion.values, completion.total, completion.hasMore })
    end)
  end)

  describe("resources", function()
    before_each(function()
      r.add_resource({ uri = "x://one", name = "one", read = function(_, uri)
        return { contents = json.array({ { uri = uri, text = "1" } }) }
      end })
      r.add_template({ uriTemplate = "h://{handle}", name = "h", read = function(_, uri, vars)
        if vars.handle == "dead" then return nil, { kind = "HandleExpired", message = "this handle has expired" } end
        return { contents = json.array({ { uri = uri, text = vars.handle } }) }
      end })
    end)

    local function read(uri) return fake.modern(endpoint, 1, "resources/read", { uri = uri }):json() end

    it("reads one, and one of a template, with caching hints", function()
      local result = read("x://one").result
      assert.equal("1", result.contents[1].text)
      assert.same({ 0, "private" }, { result.ttlMs, result.cacheScope })
      assert.equal("abc", read("h://abc").result.contents[1].text)
    end)

    it("answers an unknown one, and a dead handle, with -32602 and its URI", function()
      for _, uri in ipairs({ "x://none", "h://dead" }) do
        local err = read(uri).error
        assert.equal(-32602, err.code)
        assert.equal(uri, err.data.uri)
      end
    end)
  end)
end)
