-- SPDX-License-Identifier: MIT
-- The tasks extension: creation by opt-in, lifecycle, questions, cancellation, notifications over subscriptions/listen, bounds.
local fake = require("support.fake_http")
local http = require("lunette.mcp.http")
local json = require("lunette.json")
local loop = require("lunette.loop")
local protocol = require("lunette.mcp.protocol")
local registry = require("lunette.registry")
local server = require("lunette.mcp.server")
local tasks = require("lunette.mcp.tasks")

local TASKS <const> = { extensions = { [protocol.TASKS_EXTENSION] = {} }, elicitation = {} }

local function text(s) return { content = json.array({ { type = "text", text = s } }) } end

local function form(name)
  return { message = name, requestedSchema = { type = "object", properties = { v = { type = "string" } }, required = json.array({ "v" }) } }
end

describe("a task", function()
  local r, S, endpoint, go
  before_each(function()
    r = registry.new()
    S = server.new({ registry = r })
    endpoint = http.endpoint(S, { auth = fake.ALLOW_ALL })
    go = loop.channel(4)
  end)
  after_each(function()
    S:close()
    endpoint:close()
  end)

  local function add(name, task, handler)
    r.add_tool({ name = name, description = "d", inputSchema = { type = "object" }, task = task, handler = handler })
  end
  local function add_waiting(name, task)
    add(name, task, function(ctx)
      local ok, err = go:recv(20000)
      if not ok then return nil, err end
      return text(tostring(ctx.in_task))
    end)
  end
  local function send(method, params, capabilities) return fake.modern(endpoint, 1, method, params, capabilities or TASKS) end
  local function call(name, capabilities, more)
    local params = { name = name, arguments = {} }
    for k, v in pairs(more or {}) do params[k] = v end
    return send("tools/call", params, capabilities):json()
  end
  local function get(id) return send("tasks/get", { taskId = id }):json() end
  local function wait_for(id, status)
    for _ = 1, 200 do
      local task = get(id).result
      if task.status == status then return task end
      loop.sleep_ms(5)
    end
    error("the task never became " .. status .. ": " .. get(id).result.status)
  end

  it("is made when the client opted in, flat, and readable at once", function()
    add_waiting("slow", "allowed")
    local made = call("slow").result
    assert.equal("task", made.resultType)
    assert.equal("working", made.status)
    assert.truthy(made.createdAt:find("^%d%d%d%d%-%d%d%-%d%dT%d%d:%d%d:%d%d%.%d%d%dZ$"))
    assert.same({ 600000, 1000 }, { made.ttlMs, made.pollIntervalMs })
    for _, member in ipairs({ "task", "result", "error", "inputRequests", "requestState" }) do assert.is_nil(made[member]) end
    local seen = get(made.taskId).result
    assert.same({ "complete", "working", made.taskId }, { seen.resultType, seen.status, seen.taskId })
    go:send(true)
    local done = wait_for(made.taskId, "completed")
    assert.equal("true", done.result.content[1].text)
    assert.is_nil(done.result._meta)
  end)

  it("is not made for a client that did not", function()
    add_waiting("slow", "allowed")
    go:send(true)
    local result = call("slow", {}).result
    assert.equal("complete", result.resultType)
    assert.equal("false", result.content[1].text)
  end)

  it("may be required, or depend on the arguments", function()
    add("must", "required", function() return text("x") end)
    add("depends", function(args) return args.long == true end, function(ctx) return text(tostring(ctx.in_task)) end)
    local err = call("must", {}).error
    assert.equal(-32021, err.code)
    assert.same({ [protocol.TASKS_EXTENSION] = {} }, err.data.requiredCapabilities.extensions)
    assert.equal("task", call("must").result.resultType)
    assert.equal("complete", call("depends").result.resultType)
    assert.equal("task", call("depends", nil, { arguments = { long = true } }).result.resultType)
  end)

  it("is not what the task param of a client older than 2025-11-25 makes", function()
    add("any", "allowed", function(ctx) return text(tostring(ctx.in_task)) end)
    local id = fake.initialize(endpoint, "2025-06-18")
    local answer = fake.legacy(endpoint, id, "2025-06-18",
      { id = 1, method = "tools/call", params = { name = "any", arguments = {}, task = { ttl = 1 } } })
    assert.equal("false", answer:json().result.content[1].text)
  end)

  it("fails with a JSON-RPC error, completes with isError", function()
    add("rpc", "allowed", function() return nil, { rpc_code = -32000 - 1, message = "m", rpc_data = { a = 1 } } end)
    add("plain", "allowed", function() return nil, { kind = "NotFound", message = "gone" } end)
    add("thrown", "allowed", function() error("boom") end)
    local failed = wait_for(call("rpc").result.taskId, "failed")
    assert.same({ code = -32001, message = "m", data = { a = 1 } }, failed.error)
    assert.is_nil(failed.result)
    assert.is_true(wait_for(call("plain").result.taskId, "completed").result.isError)
    assert.equal(-32603, wait_for(call("thrown").result.taskId, "failed").error.code)
  end)

  describe("cancelled", function()
    it("stops its handler, runs its cleanup, and stays cancelled", function()
      local cleaned = loop.channel(1)
      add("slow", "allowed", function()
        loop.on_cleanup(function() cleaned:send(true) end)
        local _, err = loop.sleep_ms(60000)
        return nil, err
      end)
      local id = call("slow").result.taskId
      loop.sleep_ms(10)
      local ack = send("tasks/cancel", { taskId = id }):json().result
      assert.equal("complete", ack.resultType)
      assert.is_nil(ack.taskId)
      assert.is_true(cleaned:recv(20000))
      local seen = get(id).result
      assert.same({ "cancelled", nil, nil }, { seen.status, seen.result, seen.error })
      assert.equal("complete", send("tasks/cancel", { taskId = id }):json().result.resultType)
      assert.equal(0, S.tasks.n_active)
    end)

    it("leaves one that ended as it is", function()
      add("quick", "allowed", function() return text("x") end)
      local id = call("quick").result.taskId
      wait_for(id, "completed")
      send("tasks/cancel", { taskId = id })
      assert.equal("completed", get(id).result.status)
    end)
  end)

  describe("that asks", function()
    before_each(function()
      add("two", "allowed", function(ctx)
        local answers, err = ctx:ask({
          a = { method = "elicitation/create", params = form("A") }, b = { method = "elicitation/create", params = form("B") },
        })
        if not answers then return nil, err end
        local again, why = ctx:elicit("a", form("A again"))
        if not again then return nil, why end
        return text(answers.a.content.v .. answers.b.content.v .. again.content.v)
      end)
    end)

    local function update(id, responses) return send("tasks/update", { taskId = id, inputResponses = responses }):json() end
    local function accept(v) return { action = "accept", content = { v = v } } end

    it("shows its questions, takes answers in parts, and uses no key twice", function()
      local id = call("two").result.taskId
      local asked = wait_for(id, "input_required")
      assert.same({ "A", "B" }, { asked.inputRequests.a.params.message, asked.inputRequests.b.params.message })
      assert.is_nil(asked.requestState)
      local ack = update(id, { a = accept("1"), other = accept("x") }).result
      assert.same({ "complete", nil }, { ack.resultType, ack.taskId })
      local half = get(id).result
      assert.equal("input_required", half.status)
      assert.is_nil(half.inputRequests.a)
      update(id, { a = accept("changed"), b = { action = "accept", content = { v = 5 } } })
      assert.equal("input_required", get(id).result.status)
      update(id, { b = accept("2") })
      local again = wait_for(id, "input_required")
      local key = next(again.inputRequests)
      assert.not_equal("a", key)
      update(id, { [key] = accept("3") })
      assert.equal("123", wait_for(id, "completed").result.content[1].text)
    end)

    it("refuses malformed answers and ignores late ones", function()
      local id = call("two").result.taskId
      wait_for(id, "input_required")
      assert.equal(-32602, update(id, json.null).error.code)
      assert.equal(-32602, update(id, nil).error.code)
      assert.equal(-32602, update(id, { a = 5 }).error.code)
      send("tasks/cancel", { taskId = id })
      assert.equal("complete", update(id, { a = accept("1") }).result.resultType)
      assert.equal("cancelled", get(id).result.status)
    end)
  end)

  it("begins after its questions when the handler says so", function()
    add("late", "deferred", function(ctx)
      local answer, err = ctx:elicit("who", form("who"))
      if not answer then return nil, err end
      local before = ctx.in_task
      ctx:begin_task()
      go:recv(20000)
      return text(answer.content.v .. tostring(before) .. tostring(ctx.in_task))
    end)
    assert.equal("input_required", call("late").result.resultType)
    local retry = { inputResponses = { who = { action = "accept", content = { v = "Ada" } } } }
    local made = call("late", nil, retry).result
    assert.equal("task", made.resultType)
    go:send(true)
    assert.equal("Adafalsetrue", wait_for(made.taskId, "completed").result.content[1].text)
    go:send(true)
    assert.equal("Adafalsefalse", call("late", { elicitation = {} }, retry).result.content[1].text)
  end)

  it("goes on when the client that made it hangs up", function()
    add("late", "deferred", function(ctx)
      ctx:begin_task()
      go:recv(20000)
      return text("x")
    end)
    local id = call("late").result.taskId
    go:send(true)
    wait_for(id, "completed")
  end)

  describe("is hidden from", function()
    local id
    before_each(function()
      add("quick", "allowed", function() return text("x") end)
      id = call("quick").result.taskId
    end)

    it("clients that did not declare the extension, whatever the id", function()
      for _, method in ipairs({ "tasks/get", "tasks/update", "tasks/cancel" }) do
        for _, task in ipairs({ id, "nonsense" }) do
          local answer = send(method, { taskId = task, inputResponses = {} }, {})
          assert.same({ 400, -32021 }, { answer.status, answer:json().error.code })
        end
      end
    end)

    it("other principals", function()
      local body = fake.modern_body(1, "tasks/get", { taskId = id }, TASKS)
      local headers = fake.modern_headers(body)
      headers.authorization = "someone else"
      assert.equal(-32602, fake.send(endpoint, { headers = headers, body = body }):json().error.code)
    end)

    it("those who guess", function()
      for _, method in ipairs({ "tasks/get", "tasks/update", "tasks/cancel" }) do
        assert.equal(-32602, send(method, { taskId = "guess", inputResponses = {} }):json().error.code)
      end
    end)
  end)

  describe("bounds:", function()
    local active, kept, ttl = tasks.MAX_ACTIVE, tasks.MAX_KEPT, tasks.TTL_MS
    after_each(function() tasks.MAX_ACTIVE, tasks.MAX_KEPT, tasks.TTL_MS = active, kept, ttl end)

    it("with too many tasks a call runs plainly, or says so when it must not", function()
      tasks.MAX_ACTIVE = 1
      add("sleeper", "allowed", function() loop.sleep_ms(60000) end)
      add_waiting("must", "required")
      add_waiting("may", "allowed")
      assert.equal("task", call("sleeper").result.resultType)
      assert.equal(-32603, call("must").error.code)
      go:send(true)
      assert.equal("complete", call("may").result.resultType)
    end)

    it("a task is gone after its time to live, and its handler with it", function()
      tasks.TTL_MS = 40
      local cleaned = loop.channel(1)
      add("slow", "allowed", function()
        loop.on_cleanup(function() cleaned:send(true) end)
        loop.sleep_ms(60000)
      end)
      local id = call("slow").result.taskId
      assert.is_true(cleaned:recv(20000))
      loop.sleep_ms(60)
      assert.equal(-32602, get(id).error.code)
      assert.equal(0, S.tasks.n)
    end)

    it("a task that is looked at lives on", function()
      tasks.TTL_MS = 1000 -- a look is good for half of it: what a busy machine may take from between two of them
      add_waiting("slow", "allowed")
      local started <const>, id = loop.now_ms(), call("slow").result.taskId
      repeat
        loop.sleep_ms(20)
        assert.equal("working", get(id).result.status)
      until loop.now_ms() - started > 1.1 * tasks.TTL_MS
      assert.is_true(get(id).result.ttlMs > 1.5 * tasks.TTL_MS)
    end)
  end)

  describe("over subscriptions/listen", function()
    local function listen(filter, capabilities)
      return fake.start_modern(endpoint, "sub", "subscriptions/listen", { notifications = filter }, capabilities or TASKS)
    end

    it("tells each change in full, tagged, after the acknowledgement", function()
      add_waiting("slow", "allowed")
      local id, other = call("slow").result.taskId, call("slow").result.taskId
      local stream = listen({ taskIds = json.array({ id, "unknown" }) })
      stream:wait(function(req) return #req:events() == 1 end)
      local ack = stream:events()[1].data
      assert.equal("notifications/subscriptions/acknowledged", ack.method)
      assert.same({ id }, { table.unpack(ack.params.notifications.taskIds) })
      send("tasks/cancel", { taskId = other })
      go:send(true)
      stream:wait(function(req) return #req:events() == 2 end)
      local note = stream:events()[2].data
      assert.equal("notifications/tasks", note.method)
      assert.same({ id, "completed", "sub" }, { note.params.taskId, note.params.status, note.params._meta[protocol.META.SUBSCRIPTION] })
      assert.equal("true", note.params.result.content[1].text)
      assert.is_nil(note.params.resultType)
      stream:hang_up()
    end)

    it("tells input_required with the questions", function()
      add("asks", "allowed", function(ctx)
        go:recv(20000)
        local answer, err = ctx:elicit("k", form("K"))
        return answer and text("x") or nil, err
      end)
      local id = call("asks").result.taskId
      local stream = listen({ taskIds = json.array({ id }) })
      stream:wait(function(req) return #req:events() == 1 end)
      go:send(true)
      stream:wait(function(req) return #req:events() == 2 end)
      local params = stream:events()[2].data.params
      assert.same({ "input_required", "K" }, { params.status, params.inputRequests.k.params.message })
      send("tasks/update", { taskId = id, inputResponses = { k = { action = "decline" } } })
      stream:wait(function(req) return #req:events() == 4 end)
      assert.equal("working", stream:events()[3].data.params.status)
      assert.equal("completed", stream:events()[4].data.params.status)
      stream:hang_up()
    end)

    it("tells progress as a status message", function()
      add("steps", "allowed", function(ctx)
        go:recv(20000)
        ctx:progress(1, 4, "Collecting")
        go:recv(20000)
        return text("x")
      end)
      local id = call("steps").result.taskId
      local stream = listen({ taskIds = json.array({ id }) })
      stream:wait(function(req) return #req:events() == 1 end)
      go:send(true)
      stream:wait(function(req) return #req:events() == 2 end)
      assert.equal("Collecting (1 of 4)", stream:events()[2].data.params.statusMessage)
      stream:hang_up()
    end)

    it("needs the extension", function()
      local answer = listen({ taskIds = json.array({ "x" }) }, {}):wait_done()
      assert.same({ 400, -32021 }, { answer.status, answer:json().error.code })
    end)
  end)
end)
