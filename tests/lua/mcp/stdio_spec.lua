-- SPDX-License-Identifier: MIT
-- MCP over lines: both eras interleaved, cancellation by notification, questions, the end of input.
local fake = require("support.fake_http")
local json = require("lunette.json")
local loop = require("lunette.loop")
local mcp = require("lunette.mcp")
local protocol = require("lunette.mcp.protocol")
local registry = require("lunette.registry")
local server = require("lunette.mcp.server")
local stdio = require("lunette.mcp.stdio")

local ROOT <const> = { name = "stdio", is_root = true, scopes = { root = true } }

local function text(s) return { content = json.array({ { type = "text", text = s } }) } end

describe("mcp.stdio", function()
  local r, S, link, lines
  before_each(function()
    r = registry.new()
    S = server.new({ registry = r })
    lines = loop.channel(256)
    link = stdio.new_link(S, ROOT, function(line)
      assert(not line:find("\n"))
      return lines:send(line)
    end)
  end)
  after_each(function() S:close() end)

  local function add(name, handler, more)
    local def = { name = name, description = "d", inputSchema = { type = "object" }, handler = handler }
    for k, v in pairs(more or {}) do def[k] = v end
    r.add_tool(def)
  end
  local function put(message)
    local line = type(message) == "table" and json.encode(message) or message
    return loop.spawn(function() link:line(line) end)
  end
  local function read(timeout_ms)
    local line, err = lines:recv(timeout_ms or 1000)
    if not line then return nil, err end
    return assert(json.decode(line))
  end
  local function modern(id, method, params, capabilities) return put(fake.modern_body(id, method, params, capabilities)) end
  local function initialize(version, capabilities)
    put({ jsonrpc = "2.0", id = 0, method = "initialize",
      params = { protocolVersion = version, capabilities = capabilities or {}, clientInfo = { name = "c", version = "1" } } })
    return read()
  end

  it("answers both eras in one process, in any order", function()
    modern(1, "server/discover")
    assert.equal("complete", read().result.resultType)
    assert.equal("2025-11-25", initialize("2025-11-25").result.protocolVersion)
    put({ jsonrpc = "2.0", method = "notifications/initialized" })
    put({ jsonrpc = "2.0", id = 2, method = "tools/list" })
    assert.is_nil(read().result.resultType)
    modern(3, "tools/list")
    assert.equal("complete", read().result.resultType)
  end)

  it("answers a legacy request before initialize with an error, and ping", function()
    put({ jsonrpc = "2.0", id = 1, method = "tools/list" })
    assert.equal(-32600, read().error.code)
    put({ jsonrpc = "2.0", id = 2, method = "ping" })
    assert.same({}, read().result)
  end)

  it("answers what is no JSON without an id, and reads on", function()
    put("{nope")
    local answer = read()
    assert.same({ -32700, nil }, { answer.error.code, answer.id })
    loop.spawn(function() link:line(nil) end)
    assert.truthy(read().error.message:find("longer than"))
    put("   ")
    put({ jsonrpc = "2.0", id = 5, method = 5 })
    assert.same({ 5, -32600 }, (function(x) return { x.id, x.error.code } end)(read()))
  end)

  it("names the versions when it refuses one", function()
    local body = fake.modern_body(1, "server/discover")
    body.params._meta[protocol.META.VERSION] = "2030-01-01"
    put(body)
    local err = read().error
    assert.same({ -32022, "2030-01-01" }, { err.code, err.data.requested })
  end)

  it("runs requests at the same time", function()
    local go = loop.channel(1)
    add("slow", function()
      go:recv(20000)
      return text("slow")
    end)
    add("quick", function() return text("quick") end)
    modern(1, "tools/call", { name = "slow" })
    modern(2, "tools/call", { name = "quick" })
    assert.equal(2, read().id)
    go:send(true)
    assert.equal(1, read().id)
  end)

  it("cancels by notification in both eras and then says nothing more for that id", function()
    local ended = loop.channel(2)
    add("long", function(ctx)
      ctx:progress(1)
      local _, err = loop.sleep_ms(60000)
      ctx:progress(2)
      ended:send(err)
      return nil, err
    end)
    initialize("2025-06-18")
    for _, era in ipairs({ "modern", "legacy" }) do
      if era == "modern" then
        modern("m", "tools/call", { name = "long", _meta = { progressToken = 1 } })
      else
        put({ jsonrpc = "2.0", id = "m", method = "tools/call", params = { name = "long", _meta = { progressToken = 1 } } })
      end
      assert.equal(1, read().params.progress)
      put({ jsonrpc = "2.0", method = "notifications/cancelled", params = { requestId = "other" } })
      put({ jsonrpc = "2.0", method = "notifications/cancelled", params = { requestId = "m" } })
      assert.equal("Cancelled", ended:recv(20000).kind)
      assert.is_nil((read(50)))
    end
  end)

  it("asks a legacy client and takes its answer", function()
    add("ask", function(ctx)
      local answer, err = ctx:sample("s", { messages = json.array({}), maxTokens = 5 })
      if not answer then return nil, err end
      return text(answer.content.text)
    end)
    initialize("2025-03-26", { sampling = {} })
    put({ jsonrpc = "2.0", id = 1, method = "tools/call", params = { name = "ask" } })
    local asked = read()
    assert.equal("sampling/createMessage", asked.method)
    put({ jsonrpc = "2.0", id = asked.id, result = { role = "assistant", model = "m", content = { type = "text", text = "yes" } } })
    assert.equal("yes", read().result.content[1].text)
  end)

  it("never asks a modern client by request", function()
    add("ask", function(ctx)
      local answer, err = ctx:roots("r")
      return answer and text("x") or nil, err
    end)
    modern(1, "tools/call", { name = "ask" }, { roots = {} })
    assert.equal("input_required", read().result.resultType)
  end)

  it("carries several listens at once, and ends one by notification", function()
    for _, id in ipairs({ "a", "b" }) do
      modern(id, "subscriptions/listen", { notifications = { toolsListChanged = true } })
      assert.equal("notifications/subscriptions/acknowledged", read().method)
    end
    put({ jsonrpc = "2.0", method = "notifications/cancelled", params = { requestId = "a" } })
    loop.sleep_ms(10)
    add("new", function() end)
    assert.equal("b", read().params._meta[protocol.META.SUBSCRIPTION])
    assert.is_nil((read(60)))
    assert.equal(1, S.hub.n)
  end)

  it("tells legacy clients of changes, once they are ready", function()
    initialize("2025-11-25")
    add("early", function() end)
    assert.is_nil((read(60)))
    put({ jsonrpc = "2.0", method = "notifications/initialized" })
    loop.sleep_ms(5)
    add("new", function() end)
    assert.equal("notifications/tools/list_changed", read().method)
  end)

  it("carries the tasks of 2025-11-25: progress, questions and status between the answers, until the link ends", function()
    local seen = {}
    local function line_where(check)
      for _, line in ipairs(seen) do
        if check(line) then return line end
      end
      repeat
        seen[#seen + 1] = assert(read())
      until check(seen[#seen])
      return seen[#seen]
    end
    local function ask(id, method, params)
      put({ jsonrpc = "2.0", id = id, method = method, params = params })
      return line_where(function(line) return line.id == id and not line.method end)
    end
    local function told(method) return line_where(function(line) return line.method == method end) end
    initialize("2025-11-25", { elicitation = {} })
    put({ jsonrpc = "2.0", method = "notifications/initialized" })
    local form = { message = "Who?", requestedSchema = { type = "object", properties = { v = { type = "string" } } } }
    add("both", function(ctx)
      ctx:progress(1, 2)
      local answer, err = ctx:elicit("who", form)
      return answer and text(answer.content.v) or nil, err
    end, { task = "allowed" })
    local call = { name = "both", arguments = {}, task = {}, _meta = { progressToken = 9 } }
    local made = ask(2, "tools/call", call).result.task
    assert.equal(9, told("notifications/progress").params.progressToken)
    put({ jsonrpc = "2.0", id = 3, method = "tasks/result", params = { taskId = made.taskId } })
    put({ jsonrpc = "2.0", id = told("elicitation/create").id, result = { action = "accept", content = { v = "Ada" } } })
    assert.equal("Ada", line_where(function(line) return line.id == 3 end).result.content[1].text)
    assert.equal("completed", line_where(function(line) return line.params and line.params.status == "completed" end).params.status)
    assert.equal("working", ask(4, "tools/call", call).result.task.status)
    assert.equal(2, #ask(5, "tasks/list").result.tasks)
    link:finish()
    assert.same({ 0, 0 }, { S.tasks.n, S.tasks.n_active })
  end)

  it("answers batches in 2025-03-26 only", function()
    local batch = json.array({ { jsonrpc = "2.0", id = 1, method = "ping" }, { jsonrpc = "2.0", id = 2, method = "ping" } })
    put(batch)
    assert.equal(-32600, read().error.code)
    initialize("2025-03-26")
    put(batch)
    assert.equal(2, #read())
  end)

  it("lets running requests answer at the end of input, but not for long", function()
    add("short", function()
      loop.sleep_ms(30)
      return text("made it")
    end)
    local ended = loop.channel(1)
    add("long", function()
      local _, err = loop.sleep_ms(60000)
      ended:send(err)
      return nil, err
    end)
    modern(1, "subscriptions/listen", { notifications = {} })
    read()
    modern(2, "tools/call", { name = "short" })
    modern(3, "tools/call", { name = "long" })
    loop.sleep_ms(5)
    local t0 = loop.now_ms()
    link:finish()
    assert.is_true(loop.now_ms() - t0 < stdio.GRACE_MS + 20000)
    assert.equal("made it", read().result.content[1].text)
    assert.equal("Cancelled", ended:recv(20000).kind)
    assert.is_nil((read(50)))
  end)
end)

describe("mcp.call_local", function()
  local seen
  before_each(function()
    registry.add_tool({ name = "spec_local", description = "d", inputSchema = { type = "object" }, handler = function(ctx, args)
      ctx:progress(1, 2, "half")
      ctx:log("warning", "careful")
      seen = { ctx.transport, ctx.principal.is_root, ctx:can("elicitation"), ctx:can("sampling") }
      if args.fail then return nil, { kind = "NotFound", message = "no" } end
      local answer, err = ctx:elicit("k", { message = "sure?" })
      if not answer then return nil, err end
      return text(answer.action)
    end })
  end)
  after_each(function() registry.remove_tool("spec_local") end)

  it("runs a tool with the caller's own progress, log and questions", function()
    local progress, logs, asked = {}, {}, nil
    local result = assert(mcp.call_local("spec_local", {}, {
      on_progress = function(p, total, message) progress = { p, total, message } end,
      on_log = function(level, data) logs = { level, data } end,
      elicit = function(params)
        asked = params.message
        return { action = "accept" }
      end,
    }))
    assert.equal("accept", result.content[1].text)
    assert.same({ "cli", true, true, false }, seen)
    assert.same({ 1, 2, "half" }, progress)
    assert.same({ "warning", "careful" }, logs)
    assert.equal("sure?", asked)
  end)

  it("gives failures as a result, and protocol errors as nil, err", function()
    assert.is_true(mcp.call_local("spec_local", { fail = true }).isError)
    local result, err = mcp.call_local("none_such", {})
    assert.is_nil(result)
    assert.equal(-32602, err.rpc_code)
    result, err = mcp.call_local("spec_local", {})
    assert.is_nil(result)
    assert.equal(-32021, err.rpc_code)
  end)
end)
