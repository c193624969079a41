-- SPDX-License-Identifier: MIT
-- Legacy sessions through the endpoint: handshake, streams that can be resumed, questions to the client, cancellation, batches.
local fake = require("support.fake_http")
local http = require("lunette.mcp.http")
local json = require("lunette.json")
local loop = require("lunette.loop")
local registry = require("lunette.registry")
local server = require("lunette.mcp.server")
local sessions = require("lunette.mcp.sessions")
local streams = require("lunette.mcp.streams")
local tool = require("lunette.tool")

local NEWEST <const> = "2025-11-25"

local function text(s) return { content = json.array({ { type = "text", text = s } }) } end

local FORM <const> = {
  mode = "form", message = "Name?", requestedSchema = { type = "object", properties = { name = { type = "string" } } },
}

describe("a legacy session", function()
  local r, S, endpoint
  before_each(function()
    r = registry.new()
    S = server.new({ registry = r, server_info = { name = "spec", version = "1", title = "Spec", websiteUrl = "https://x" } })
    endpoint = http.endpoint(S, { auth = fake.ALLOW_ALL })
  end)
  after_each(function() endpoint:close() end)

  local function add(name, handler, more)
    local def = { name = name, description = "d", title = "T", inputSchema = { type = "object" }, handler = handler }
    for k, v in pairs(more or {}) do def[k] = v end
    r.add_tool(def)
  end

  local function start_call(id, name, version, more)
    local params = { name = name, arguments = {} }
    for k, v in pairs(more or {}) do params[k] = v end
    return fake.start_legacy(endpoint, id, version or NEWEST, { id = 1, method = "tools/call", params = params })
  end

  describe("initialize", function()
    for asked, given in pairs({ ["2025-11-25"] = "2025-11-25", ["2025-06-18"] = "2025-06-18", ["2025-03-26"] = "2025-03-26",
      ["2024-11-05"] = "2025-11-25", ["2026-07-28"] = "2025-11-25", ["nonsense"] = "2025-11-25" }) do
      it("answers " .. asked .. " with " .. given, function()
        local id, answer = fake.initialize(endpoint, asked)
        assert.truthy(id:find("^[\x21-\x7e]+$") and #id >= 32)
        local result = answer:json().result
        assert.equal(given, result.protocolVersion)
        assert.is_nil(result.resultType)
        assert.is_nil(result.capabilities.extensions)
        assert.equal(given == "2025-11-25" and "https://x" or nil, result.serverInfo.websiteUrl)
      end)
    end

    it("refuses unusable params", function()
      local answer = fake.send(endpoint, { body = { jsonrpc = "2.0", id = 1, method = "initialize", params = {} } })
      assert.equal(-32602, answer:json().error.code)
      assert.is_nil(answer.answer_headers["Mcp-Session-Id"])
    end)
  end)

  describe("the session id", function()
    it("is needed, must be known, and ends with DELETE", function()
      local function list(id) return fake.legacy(endpoint, id, NEWEST, { id = 1, method = "tools/list" }) end
      assert.equal(400, list(nil).status)
      local unknown = list("unknown")
      assert.equal(404, unknown.status)
      assert.equal(-32001, unknown:json().error.code)
      local id = fake.initialize(endpoint, NEWEST)
      assert.equal(200, list(id).status)
      assert.equal(204, fake.send(endpoint, { method = "DELETE", headers = { ["mcp-session-id"] = id } }).status)
      assert.equal(404, list(id).status)
      assert.equal(404, fake.send(endpoint, { method = "DELETE", headers = { ["mcp-session-id"] = id } }).status)
    end)

    it("is bound to the principal", function()
      local id = fake.initialize(endpoint, NEWEST)
      local headers = { ["mcp-session-id"] = id, authorization = "someone else" }
      assert.equal(404, fake.send(endpoint, { headers = headers, body = { jsonrpc = "2.0", id = 1, method = "tools/list" } }).status)
    end)

    it("goes on with any legacy version header, and with none", function()
      local id = fake.initialize(endpoint, "2025-06-18")
      for _, version in ipairs({ "2025-11-25", "2025-03-26", false }) do
        local answer = fake.send(endpoint, {
          headers = { ["mcp-session-id"] = id, ["mcp-protocol-version"] = version or nil },
          body = { jsonrpc = "2.0", id = 1, method = "ping" },
        })
        assert.equal('{"jsonrpc":"2.0","id":1,"result":{}}', answer.answer)
      end
      assert.equal(400, fake.legacy(endpoint, id, "1999-01-01", { id = 1, method = "ping" }).status)
    end)

    it("expires when nothing happens", function()
      local id = fake.initialize(endpoint, NEWEST)
      endpoint.sessions.sessions[id].used_ms = loop.now_ms() - sessions.IDLE_MS - 1
      endpoint.sessions:sweep()
      assert.equal(404, fake.legacy(endpoint, id, NEWEST, { id = 1, method = "ping" }).status)
    end)

    it("of the idlest makes room for a new one", function()
      local max = sessions.MAX_SESSIONS
      sessions.MAX_SESSIONS = 2
      local first = fake.initialize(endpoint, NEWEST)
      local second = fake.initialize(endpoint, NEWEST)
      endpoint.sessions.sessions[second].used_ms = 0
      local third = fake.initialize(endpoint, NEWEST)
      sessions.MAX_SESSIONS = max
      assert.equal(2, endpoint.sessions.n)
      assert.is_nil(endpoint.sessions.sessions[second])
      assert.truthy(endpoint.sessions.sessions[first] and endpoint.sessions.sessions[third])
    end)
  end)

  it("takes notifications with 202 and no body", function()
    local id = fake.initialize(endpoint, NEWEST)
    local answer = fake.legacy(endpoint, id, NEWEST, { method = "notifications/initialized" })
    assert.same({ 202, "" }, { answer.status, answer.answer })
  end)

  it("answers an unknown method in-band", function()
    local id = fake.initialize(endpoint, NEWEST)
    local answer = fake.legacy(endpoint, id, NEWEST, { id = 1, method = "server/discover" })
    assert.same({ 200, -32601 }, { answer.status, answer:json().error.code })
  end)

  it("lists what its revision knows", function()
    add("a", function() end, { outputSchema = { type = "array" } })
    add("b", function() end, { outputSchema = { type = "object" } })
    local function tools(version)
      local id = fake.initialize(endpoint, version)
      local result = fake.legacy(endpoint, id, version, { id = 1, method = "tools/list" }):json().result
      assert.is_nil(result.ttlMs)
      assert.is_nil(result.resultType)
      return result.tools
    end
    assert.is_nil(tools(NEWEST)[1].outputSchema)
    assert.same({ type = "object" }, tools(NEWEST)[2].outputSchema)
    assert.same({ "T" }, { tools("2025-06-18")[1].title })
    assert.is_nil(tools("2025-03-26")[1].title)
    assert.is_nil(tools("2025-03-26")[2].outputSchema)
  end)

  it("gets structured content that is an object, and no other", function()
    local value
    add("a", function() return { content = {}, structuredContent = value } end)
    for _, other in ipairs({ json.array({ 1 }), json.raw("[1]"), 5 }) do
      value = other
      local result = start_call(fake.initialize(endpoint, NEWEST), "a"):wait_done():json().result
      assert.is_nil(result.structuredContent)
      assert.is_true(json.is_array(result.content))
    end
    for _, object in ipairs({ { k = 1 }, json.raw('{"k":1}'), json.raw(' {"k":1}') }) do
      value = object
      local result = start_call(fake.initialize(endpoint, NEWEST), "a"):wait_done():json().result
      assert.same({ k = 1 }, result.structuredContent)
    end
  end)

  it("reads resources, and answers unknown ones with -32002", function()
    local id = fake.initialize(endpoint, NEWEST)
    local err = fake.legacy(endpoint, id, NEWEST, { id = 1, method = "resources/read", params = { uri = "x://none" } }):json().error
    assert.same({ -32002, "x://none" }, { err.code, err.data.uri })
  end)

  describe("logging", function()
    it("follows logging/setLevel", function()
      add("a", function(ctx)
        ctx:log("info", "i")
        ctx:log("error", "e")
        return text("x")
      end)
      local id = fake.initialize(endpoint, NEWEST)
      local function levels()
        local found = {}
        for _, event in ipairs(start_call(id, "a"):wait_done():events()) do
          if event.data and event.data.method then found[#found + 1] = event.data.params.level end
        end
        return found
      end
      assert.same({ "info", "error" }, levels())
      local answer = fake.legacy(endpoint, id, NEWEST, { id = 1, method = "logging/setLevel", params = { level = "error" } })
      assert.same({}, answer:json().result)
      assert.same({ "error" }, levels())
      answer = fake.legacy(endpoint, id, NEWEST, { id = 1, method = "logging/setLevel", params = { level = "loud" } })
      assert.equal(-32602, answer:json().error.code)
    end)
  end)

  describe("streams", function()
    before_each(function()
      add("steps", function(ctx)
        ctx:progress(1, 2)
        ctx:progress(2, 2)
        return text("x")
      end)
    end)

    it("begin with a priming event from 2025-11-25 on", function()
      local events = start_call(fake.initialize(endpoint, NEWEST), "steps", NEWEST, { _meta = { progressToken = 5 } }):wait_done():events()
      assert.same({ 4, "1-0", "1000", "" }, { #events, events[1].id, events[1].retry, events[1].data })
      assert.same({ "1-1", 5 }, { events[2].id, events[2].data.params.progressToken })
      assert.same({ "1-3", 1 }, { events[4].id, events[4].data.id })
    end)

    it("have none before: older clients would try to read it", function()
      local id = fake.initialize(endpoint, "2025-06-18")
      local events = start_call(id, "steps", "2025-06-18", { _meta = { progressToken = 5 } }):wait_done():events()
      assert.equal(3, #events)
      assert.equal("notifications/progress", events[1].data.method)
    end)

    it("are resumed after the last event that was read, and only that stream", function()
      local go = loop.channel(1)
      add("slow", function(ctx)
        ctx:progress(1)
        go:recv(20000)
        ctx:progress(2)
        return text("done")
      end)
      local id = fake.initialize(endpoint, NEWEST)
      local post = start_call(id, "slow", NEWEST, { _meta = { progressToken = "p" } })
      post:wait(function(req) return #req:events() == 2 end)
      post:hang_up()
      go:send(true)
      local get = fake.start(endpoint, { method = "GET", headers = {
        ["mcp-session-id"] = id, ["last-event-id"] = "1-1", accept = "text/event-stream",
      } })
      get:wait_done()
      local events = get:events()
      assert.equal(2, #events)
      assert.same({ "1-2", 2 }, { events[1].id, events[1].data.params.progress })
      assert.equal("done", events[2].data.result.content[1].text)
    end)

    it("are not resumed from an id that was never given", function()
      local id = fake.initialize(endpoint, NEWEST)
      for _, last in ipairs({ "9-9", "0-7", "x", "1-0-0" }) do
        local answer = fake.send(endpoint, { method = "GET", headers = { ["mcp-session-id"] = id, ["last-event-id"] = last } })
        assert.equal(400, answer.status)
      end
    end)

    it("can be closed by the server in the middle of a call", function()
      local go = loop.channel(1)
      add("poll", function(ctx)
        local suspended = ctx:suspend_stream(250)
        go:recv(20000)
        return text(tostring(suspended))
      end)
      local id = fake.initialize(endpoint, NEWEST)
      local post = start_call(id, "poll"):wait_done()
      assert.truthy(post.answer:find("retry: 250\n\n", 1, true))
      local get = fake.start(endpoint, { method = "GET", headers = { ["mcp-session-id"] = id, ["last-event-id"] = "1-0" } })
      get:wait(function(req) return req.is_stream end)
      go:send(true)
      get:wait_done()
      assert.equal("true", get:events()[1].data.result.content[1].text)
    end)

    it("of a GET carry list changes and resource updates", function()
      r.add_resource({ uri = "x://1", name = "one", read = function() end })
      local id = fake.initialize(endpoint, NEWEST)
      local get = fake.start(endpoint, { method = "GET", headers = { ["mcp-session-id"] = id, accept = "text/event-stream" } })
      get:wait(function(req) return req.is_stream end)
      local function subscribe(method) return fake.legacy(endpoint, id, NEWEST, { id = 1, method = method, params = { uri = "x://1" } }) end
      r.resource_updated("x://1")
      assert.equal('{"jsonrpc":"2.0","id":1,"result":{}}', subscribe("resources/subscribe").answer)
      r.resource_updated("x://1")
      add("new", function() end)
      get:wait(function(req) return #req:events() == 2 end)
      assert.equal("notifications/resources/updated", get:events()[1].data.method)
      assert.equal("notifications/tools/list_changed", get:events()[2].data.method)
      assert.equal('{"jsonrpc":"2.0","id":1,"result":{}}', subscribe("resources/unsubscribe").answer)
      r.resource_updated("x://1")
      r.add_prompt({ name = "p", get = function() end })
      get:wait(function(req) return #req:events() == 3 end)
      assert.equal("notifications/prompts/list_changed", get:events()[3].data.method)
    end)

    it("of a second GET take over from the first", function()
      local id = fake.initialize(endpoint, NEWEST)
      local headers = { ["mcp-session-id"] = id, accept = "text/event-stream" }
      local first = fake.start(endpoint, { method = "GET", headers = headers }):wait(function(req) return req.is_stream end)
      local second = fake.start(endpoint, { method = "GET", headers = headers }):wait(function(req) return req.is_stream end)
      first:wait_done()
      assert.is_nil(first.close_hook)
      add("new", function() end)
      second:wait(function(req) return #req:events() == 1 end)
      assert.equal(0, #first:events())
    end)
  end)

  describe("questions to the client", function()
    before_each(function()
      add("ask", function(ctx)
        local answer, err = ctx:elicit("who", FORM)
        if not answer then return nil, err end
        return text(answer.action .. " " .. tostring(answer.content and answer.content.name))
      end)
    end)

    local function ask(version, capabilities)
      local id = fake.initialize(endpoint, version, capabilities)
      local post = start_call(id, "ask", version)
      return post, id
    end

    local function question(post)
      post:wait(function(req)
        local events = req:events()
        return #events > 0 and type(events[#events].data) == "table"
      end)
      local events = post:events()
      return events[#events].data
    end

    it("go out on the stream of the call, and the answer comes by POST", function()
      local post, id = ask(NEWEST, { elicitation = {} })
      local asked = question(post)
      assert.equal("elicitation/create", asked.method)
      assert.equal("form", asked.params.mode)
      local reply = { id = asked.id, result = { action = "accept", content = { name = "Ada" } } }
      assert.equal(202, fake.legacy(endpoint, id, NEWEST, reply).status)
      post:wait_done()
      local events = post:events()
      assert.equal("accept Ada", events[#events].data.result.content[1].text)
    end)

    it("with a URL get an id in 2025-11-25", function()
      add("link", function(ctx)
        local answer, err = ctx:elicit("go", { mode = "url", message = "Go", url = "https://x.example" })
        return answer and text(answer.action) or nil, err
      end)
      local id = fake.initialize(endpoint, NEWEST, { elicitation = { url = {} } })
      local post = start_call(id, "link")
      local asked = question(post)
      assert.truthy(#asked.params.elicitationId >= 32)
      fake.legacy(endpoint, id, NEWEST, { id = asked.id, result = { action = "accept" } })
      local events = post:wait_done():events()
      assert.equal("accept", events[#events].data.result.content[1].text)
    end)

    it("have no mode before 2025-11-25", function()
      local post = ask("2025-06-18", { elicitation = {} })
      assert.is_nil(question(post).params.mode)
    end)

    it("that the client refuses end the tool with isError", function()
      local post, id = ask(NEWEST, { elicitation = {} })
      local asked = question(post)
      fake.legacy(endpoint, id, NEWEST, { id = asked.id, error = { code = -1, message = "no user here" } })
      local events = post:wait_done():events()
      assert.is_true(events[#events].data.result.isError)
      assert.truthy(events[#events].data.result.content[1].text:find("no user here"))
    end)

    it("whose answer does not fit end the tool with isError", function()
      local post, id = ask(NEWEST, { elicitation = {} })
      fake.legacy(endpoint, id, NEWEST, { id = question(post).id, result = { action = "accept", content = { name = 5 } } })
      local events = post:wait_done():events()
      assert.is_true(events[#events].data.result.isError)
    end)

    it("are not put to clients that did not declare them", function()
      local result = ask(NEWEST, {}):wait_done():json().result
      assert.is_true(result.isError)
      assert.equal("the client must declare the capability 'elicitation' for this request", result.content[1].text)
      assert.is_true(ask("2025-03-26", { elicitation = {} }):wait_done():json().result.isError)
      -- what a declared tool hands on is an answer of its own shape
      local declared = tool({ name = "asks", description = "d", risk = "low", run = function(ctx) return ctx:elicit("who", FORM) end })
      r.add_tool(declared:definition())
      result = start_call(fake.initialize(endpoint, NEWEST, {}), "asks"):wait_done():json().result
      assert.equal("NotSupported", result.structuredContent.error.kind)
    end)
  end)

  describe("cancellation", function()
    local began, ended
    before_each(function()
      began, ended = loop.channel(1), loop.channel(1)
      add("long", function()
        began:send(true)
        local _, err = loop.sleep_ms(60000)
        ended:send(err or false)
        return nil, err
      end)
    end)

    it("by notification stops the handler and sends no response", function()
      local id = fake.initialize(endpoint, NEWEST)
      local post = start_call(id, "long")
      began:recv(20000)
      fake.legacy(endpoint, id, NEWEST, { method = "notifications/cancelled", params = { requestId = 1, reason = "enough" } })
      assert.equal("Cancelled", ended:recv(20000).kind)
      post:wait_done()
      assert.equal("", post.answer)
    end)

    it("ignores ids that it does not know", function()
      local id = fake.initialize(endpoint, NEWEST)
      for _, params in ipairs({ { requestId = 99 }, { requestId = "1" }, {} }) do
        local answer = fake.legacy(endpoint, id, NEWEST, { method = "notifications/cancelled", params = params })
        assert.equal(202, answer.status)
      end
    end)

    it("is not what a disconnect means", function()
      local id = fake.initialize(endpoint, NEWEST)
      local post = start_call(id, "long")
      began:recv(20000)
      post:hang_up()
      assert.is_nil((ended:recv(100)))
      endpoint.sessions:drop(endpoint.sessions.sessions[id], "spec")
      assert.equal("Cancelled", ended:recv(20000).kind)
    end)

    it("comes with the end of the session", function()
      local id = fake.initialize(endpoint, NEWEST)
      start_call(id, "long")
      began:recv(20000)
      fake.send(endpoint, { method = "DELETE", headers = { ["mcp-session-id"] = id } })
      assert.equal("Cancelled", ended:recv(20000).kind)
    end)
  end)

  it("runs a request id once at a time, and a bounded number of requests", function()
    local go = loop.channel(1)
    add("wait", function()
      go:recv(20000)
      return text("x")
    end)
    local id = fake.initialize(endpoint, NEWEST)
    local first = start_call(id, "wait")
    assert.equal(-32600, start_call(id, "wait"):wait_done():json().error.code)
    local max = sessions.MAX_IN_FLIGHT
    sessions.MAX_IN_FLIGHT = 1
    local other = fake.legacy(endpoint, id, NEWEST, { id = 2, method = "ping" })
    sessions.MAX_IN_FLIGHT = max
    assert.equal(-32603, other:json().error.code)
    go:send(true)
    assert.equal("x", first:wait_done():json().result.content[1].text)
  end)

  describe("batches", function()
    local function post(id, version, list)
      return fake.send(endpoint, { headers = { ["mcp-session-id"] = id, ["mcp-protocol-version"] = version }, body = list })
    end
    local PING <const> = { jsonrpc = "2.0", id = 1, method = "ping" }
    local NOTE <const> = { jsonrpc = "2.0", method = "notifications/initialized" }

    it("are answered in 2025-03-26", function()
      local id = fake.initialize(endpoint, "2025-03-26")
      local answer = post(id, "2025-03-26", json.array({ PING, NOTE, { jsonrpc = "2.0", id = "b", method = "nothing" } }))
      local list = answer:json()
      assert.equal(2, #list)
      assert.same({ 1, "b", -32601 }, { list[1].id, list[2].id, list[2].error.code })
      assert.equal(202, post(id, "2025-03-26", json.array({ NOTE })).status)
    end)

    it("are refused when empty, too long, broken, or of another revision", function()
      local id = fake.initialize(endpoint, "2025-03-26")
      local many = json.array({})
      for i = 1, 40 do many[i] = { jsonrpc = "2.0", id = i, method = "ping" } end
      assert.equal(400, post(id, "2025-03-26", json.array({})).status)
      assert.equal(400, post(id, "2025-03-26", many).status)
      assert.equal(400, post(id, "2025-03-26", json.array({ PING, 5 })).status)
      assert.equal(400, post(fake.initialize(endpoint, NEWEST), NEWEST, json.array({ PING })).status)
    end)
  end)
end)

describe("mcp.streams", function()
  it("keeps the newest events of a stream and counts what it let go", function()
    local dropped = 0
    local set = streams.new_set(function(n) dropped = dropped + n end)
    local stream = set:new()
    for i = 1, streams.MAX_EVENTS + 10 do stream:emit(tostring(i)) end
    assert.equal(10, dropped)
    stream:emit(("x"):rep(streams.MAX_BYTES + 1))
    assert.equal(stream.first, stream.last)
    assert.is_true(streams.total_bytes() >= streams.MAX_BYTES)
    set:close()
    assert.equal(0, streams.total_bytes())
  end)

  it("keeps a bounded number of ended streams", function()
    local set = streams.new_set()
    for _ = 1, streams.MAX_STREAMS + 5 do set:new():finish("x") end
    local n = 0
    for _ in pairs(set.streams) do n = n + 1 end
    assert.equal(streams.MAX_STREAMS + 1, n)
    assert.is_nil(set:find("1-0"))
    assert.truthy(set:find(("%d-0"):format(streams.MAX_STREAMS + 5)))
    set:close()
  end)
end)
