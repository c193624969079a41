-- SPDX-License-Identifier: MIT
-- The tasks of revision 2025-11-25 through the endpoint: who may make one, its life, tasks/result that waits and asks, progress and status
-- on the session's streams, isolation, bounds.
local fake = require("support.fake_http")
local http = require("lunette.mcp.http")
local json = require("lunette.json")
local loop = require("lunette.loop")
local protocol = require("lunette.mcp.protocol")
local registry = require("lunette.registry")
local server = require("lunette.mcp.server")
local session_tasks = require("lunette.mcp.session_tasks")
local tasks = require("lunette.mcp.tasks")

local NEWEST <const> = "2025-11-25"
local RELATED <const> = "io.modelcontextprotocol/related-task"

local function text(s, is_error) return { content = json.array({ { type = "text", text = s } }), isError = is_error } end

local FORM <const> = {
  message = "Name?", requestedSchema = { type = "object", properties = { v = { type = "string" } }, required = json.array({ "v" }) },
}

describe("a task of 2025-11-25", function()
  local r, S, endpoint, go, session, n
  before_each(function()
    r = registry.new()
    S = server.new({ registry = r, page_size = 3 })
    endpoint = http.endpoint(S, { auth = fake.ALLOW_ALL })
    go = loop.channel(4)
    session, n = fake.initialize(endpoint, NEWEST, { elicitation = {} }), 0
    fake.legacy(endpoint, session, NEWEST, { method = "notifications/initialized" })
  end)
  after_each(function()
    S:close()
    endpoint:close()
  end)

  local function add(name, task, handler)
    r.add_tool({ name = name, description = "d", inputSchema = { type = "object" }, task = task, handler = handler })
  end
  -- Waits for `go`, then says what came.
  local function add_waiting(name, task)
    add(name, task, function(ctx)
      local word, err = go:recv(5000)
      if not word then return nil, err end
      return text(tostring(word) .. " " .. tostring(ctx.in_task))
    end)
  end
  local function start(method, params, of)
    n = n + 1
    return fake.start_legacy(endpoint, of or session, NEWEST, { id = n, method = method, params = params })
  end
  local function send(method, params, of) return start(method, params, of):wait_done():json() end
  local function call(name, task, more)
    local params = { name = name, arguments = {}, task = task or {} }
    for k, v in pairs(more or {}) do params[k] = v end
    return send("tools/call", params)
  end
  local function make(name, task, more) return call(name, task, more).result.task end
  local function get(id) return send("tasks/get", { taskId = id }).result end
  local function wait_for(id, status)
    for _ = 1, 400 do
      local task = get(id)
      if task.status == status then return task end
      loop.sleep_ms(5)
    end
    error("the task never became " .. status .. " but is " .. get(id).status)
  end
  local function open_stream(of)
    local headers = { ["mcp-session-id"] = of or session, accept = "text/event-stream" }
    return fake.start(endpoint, { method = "GET", headers = headers }):wait(function(req) return req.is_stream end)
  end
  local function messages(req, method)
    local list = {}
    for _, event in ipairs(req:events()) do
      if type(event.data) == "table" and (not method or event.data.method == method) then list[#list + 1] = event.data end
    end
    return list
  end
  local function wait_messages(req, count, method)
    req:wait(function() return #messages(req, method) >= count end)
    return messages(req, method)
  end

  describe("is offered:", function()
    it("the capability, to this revision only", function()
      for version, wanted in pairs({ [NEWEST] = true, ["2025-06-18"] = false, ["2025-03-26"] = false }) do
        local _, answer = fake.initialize(endpoint, version)
        local expected = wanted and { list = {}, cancel = {}, requests = { tools = { call = {} } } } or nil
        assert.same(expected, answer:json().result.capabilities.tasks)
        if wanted then assert.truthy(answer.answer:find('"list":{}', 1, true), "objects, not lists") end
      end
    end)

    it("by each tool, as it was declared", function()
      for name, task in pairs({ plain = false, may = "allowed", yes = true, must = "required", later = "deferred" }) do
        add(name, task or nil, function() return text("x") end)
      end
      add("some", function() return false end, function() return text("x") end)
      local seen = {}
      for _ = 1, 2 do
        local result = send("tools/list", { cursor = seen.cursor }).result
        for _, tool in ipairs(result.tools) do seen[tool.name] = tool.execution.taskSupport end
        seen.cursor = result.nextCursor
      end
      assert.same({
        plain = "forbidden", may = "optional", yes = "optional", must = "required", later = "optional", some = "optional",
      }, seen)
      local old = fake.initialize(endpoint, "2025-06-18")
      local row = fake.legacy(endpoint, old, "2025-06-18", { id = 1, method = "tools/list" }):json().result.tools[1]
      assert.is_nil(row.execution)
      assert.is_nil(fake.modern(endpoint, 1, "tools/list"):json().result.tools[1].execution)
    end)
  end)

  describe("is made", function()
    it("when the client says so: nested, working, readable at once", function()
      add_waiting("slow", "allowed")
      local made = call("slow", { ttl = 60000 }).result
      local task = made.task
      assert.same({ "working", 60000, 1000 }, { task.status, task.ttl, task.pollInterval })
      assert.truthy(task.createdAt:find("^%d%d%d%d%-%d%d%-%d%dT%d%d:%d%d:%d%d%.%d%d%dZ$"))
      assert.equal(task.createdAt, task.lastUpdatedAt)
      assert.same({ taskId = task.taskId }, made._meta[RELATED])
      for _, member in ipairs({ "resultType", "content", "taskId" }) do assert.is_nil(made[member]) end
      for _, member in ipairs({ "ttlMs", "pollIntervalMs" }) do assert.is_nil(task[member]) end
      local seen = get(task.taskId)
      assert.same({ task.taskId, "working" }, { seen.taskId, seen.status })
      assert.is_nil(seen._meta)
      go:send("done")
      assert.is_nil(wait_for(task.taskId, "completed").result)
    end)

    it("with a time to live within bounds, refused when it is none", function()
      add("quick", "allowed", function() return text("x") end)
      assert.equal(tasks.TTL_MS, make("quick", {}).ttl)
      assert.equal(tasks.TTL_MS, make("quick", { ttl = json.null }).ttl)
      assert.equal(session_tasks.MIN_TTL_MS, make("quick", { ttl = 0 }).ttl)
      assert.equal(session_tasks.MAX_TTL_MS, make("quick", { ttl = 1e300 }).ttl)
      assert.equal(2500, make("quick", { ttl = 2500.7 }).ttl)
      for _, bad in ipairs({ 5, "x", json.array({ 1 }), { ttl = "1" }, { ttl = -1 }, { ttl = true } }) do
        assert.equal(-32602, call("quick", bad).error.code)
      end
    end)

    it("not of a tool that does not do it, and not of arguments with which it does not", function()
      add("plain", nil, function() return text("x") end)
      add("some", function(args) return args.long == true end, function(ctx) return text(tostring(ctx.in_task)) end)
      assert.equal(-32601, call("plain").error.code)
      assert.equal(-32601, call("some").error.code)
      assert.equal("working", make("some", {}, { arguments = { long = true } }).status)
      assert.equal("x", send("tools/call", { name = "plain", arguments = {}, task = json.null }).result.content[1].text)
    end)

    it("of wrong arguments that leave it open, and says what is wrong", function()
      add("some", function() return nil end, function() return nil, { kind = "InvalidArgument", message = "no such kind" } end)
      local id = make("some").taskId
      assert.equal("no such kind", wait_for(id, "failed").statusMessage)
      assert.is_true(send("tasks/result", { taskId = id }).result.isError)
    end)

    it("always of a tool that demands it: a plain call is refused", function()
      add("must", "required", function() return text("x") end)
      local err = send("tools/call", { name = "must", arguments = {} }).error
      assert.equal(-32601, err.code)
      assert.truthy(err.message:find('"task": {}', 1, true), err.message)
      assert.equal("working", make("must").status)
    end)

    it("at once of a tool that decides later", function()
      add("late", "deferred", function(ctx)
        assert(ctx:begin_task())
        return text(tostring(ctx.in_task) .. tostring(ctx:can("tasks")))
      end)
      assert.equal("truetrue", send("tasks/result", { taskId = make("late").taskId }).result.content[1].text)
    end)
  end)

  describe("and tasks/result:", function()
    it("waits for the end and gives what the call would have given, tied to the task", function()
      add("slow", "allowed", function()
        local word = go:recv(5000)
        return { content = json.array({ { type = "text", text = word } }), structuredContent = json.raw('{"a":[]}'), _meta = { mine = 1 } }
      end)
      local id = make("slow").taskId
      local waiting, second = start("tasks/result", { taskId = id }), start("tasks/result", { taskId = id })
      loop.sleep_ms(30)
      assert.is_nil(waiting.done)
      go:send("done")
      local result = waiting:wait_done():json().result
      assert.equal("done", result.content[1].text)
      assert.same({ mine = 1, [RELATED] = { taskId = id } }, result._meta)
      assert.truthy(waiting.answer:find('"structuredContent":{"a":[]}', 1, true))
      assert.same(result, second:wait_done():json().result)
      assert.same(result, send("tasks/result", { taskId = id }).result, "and again")
    end)

    it("gives isError as a result and a JSON-RPC error as that error; both are failed", function()
      add("bad", "allowed", function() return text("disk full", true) end)
      add("enveloped", "allowed", function() return text('{"summary":"Not allowed.","data":null}', true) end)
      add("rpc", "allowed", function() return nil, { rpc_code = -31000, message = "m", rpc_data = { a = 1 } } end)
      add("thrown", "allowed", function() error("boom") end)
      local bad, rpc, thrown = make("bad").taskId, make("rpc").taskId, make("thrown").taskId
      assert.equal("disk full", wait_for(bad, "failed").statusMessage)
      assert.equal("Not allowed.", wait_for(make("enveloped").taskId, "failed").statusMessage)
      local result = send("tasks/result", { taskId = bad }).result
      assert.same({ true, "disk full", id = bad }, { result.isError, result.content[1].text, id = result._meta[RELATED].taskId })
      assert.equal("m", wait_for(rpc, "failed").statusMessage)
      assert.same({ code = -31000, message = "m", data = { a = 1 } }, send("tasks/result", { taskId = rpc }).error)
      assert.equal(-32603, send("tasks/result", { taskId = thrown }).error.code)
    end)

    it("can be given up without harm to the task", function()
      add_waiting("slow", "allowed")
      local id = make("slow").taskId
      local waiting = start("tasks/result", { taskId = id })
      loop.sleep_ms(10)
      fake.legacy(endpoint, session, NEWEST, { method = "notifications/cancelled", params = { requestId = n } })
      waiting:wait_done()
      assert.equal("", waiting.answer)
      assert.equal("working", get(id).status)
      go:send("done")
      assert.equal("done true", send("tasks/result", { taskId = id }).result.content[1].text)
    end)

    it("is an error for a task that was cancelled, before or while it waits", function()
      add_waiting("slow", "allowed")
      local id = make("slow").taskId
      local waiting = start("tasks/result", { taskId = id })
      loop.sleep_ms(10)
      assert.equal("cancelled", send("tasks/cancel", { taskId = id }).result.status)
      for _, answer in ipairs({ waiting:wait_done():json(), send("tasks/result", { taskId = id }) }) do
        assert.equal(-32602, answer.error.code)
        assert.same({ taskId = id, status = "cancelled" }, answer.error.data)
        assert.truthy(answer.error.message:find("cancelled", 1, true))
      end
    end)
  end)

  describe("tasks/cancel", function()
    it("stops the handler, runs its cleanup, and shows the task as cancelled", function()
      local cleaned = loop.channel(1)
      add("slow", "allowed", function()
        loop.on_cleanup(function() cleaned:send(true) end)
        local _, err = loop.sleep_ms(60000)
        return nil, err
      end)
      local id = make("slow").taskId
      loop.sleep_ms(10)
      local task = send("tasks/cancel", { taskId = id }).result
      assert.same({ id, "cancelled", "the client cancelled the task" }, { task.taskId, task.status, task.statusMessage })
      assert.is_nil(task._meta)
      assert.is_true(cleaned:recv(1000))
      assert.same({ "cancelled", 0, 0 }, { get(id).status, S.tasks.n_active, endpoint.sessions.sessions[session].n_tasks })
    end)

    it("is refused for a task that has ended", function()
      add("quick", "allowed", function() return text("x") end)
      local id = make("quick").taskId
      wait_for(id, "completed")
      assert.equal(-32602, send("tasks/cancel", { taskId = id }).error.code)
      assert.equal("completed", get(id).status)
    end)

    it("is the only cancel: that of the request that made it comes too late", function()
      add_waiting("slow", "allowed")
      local id = make("slow").taskId
      fake.legacy(endpoint, session, NEWEST, { method = "notifications/cancelled", params = { requestId = n } })
      loop.sleep_ms(10)
      assert.equal("working", get(id).status)
    end)
  end)

  describe("tells on the stream of the session", function()
    it("each status that it takes on, without the tie that is in it already", function()
      add_waiting("slow", "allowed")
      local stream = open_stream()
      local id = make("slow").taskId
      go:send("done")
      local note = wait_messages(stream, 1)[1]
      assert.equal("notifications/tasks/status", note.method)
      assert.same({ id, "completed", tasks.TTL_MS }, { note.params.taskId, note.params.status, note.params.ttl // 1 })
      assert.is_nil(note.params._meta)
      local other = make("slow").taskId
      send("tasks/cancel", { taskId = other })
      note = wait_messages(stream, 2)[2]
      assert.same({ other, "cancelled" }, { note.params.taskId, note.params.status })
      loop.sleep_ms(20)
      assert.equal(2, #messages(stream))
    end)

    it("progress with the token of the call for as long as it runs, and log messages", function()
      add("steps", "allowed", function(ctx)
        for i = 1, 3 do
          if not go:recv(5000) then return nil, protocol.failure("Cancelled", "x") end
          ctx:progress(i, 3, "step")
          ctx:log("info", "at " .. i)
        end
        return text("x")
      end)
      local stream = open_stream()
      local id = make("steps", {}, { _meta = { progressToken = "tok" } }).taskId
      for i = 1, 3 do
        go:send(true)
        local seen = wait_messages(stream, i, "notifications/progress")[i].params
        assert.same({ "tok", i, 3, id }, { seen.progressToken, seen.progress, seen.total, seen._meta[RELATED].taskId })
        assert.equal(id, wait_messages(stream, i, "notifications/message")[i].params._meta[RELATED].taskId)
        if i < 3 then assert.equal("step (" .. i .. " of 3)", get(id).statusMessage) end
      end
      wait_for(id, "completed")
      assert.equal(3, #messages(stream, "notifications/progress"))
    end)

    it("nothing before the client knows the task", function()
      add("quick", "allowed", function() return text("x") end)
      local stream = open_stream()
      local first_words
      stream.write = function(req, words)
        first_words = first_words or words
        return getmetatable(req).__index.write(req, words)
      end
      local post = start("tools/call", { name = "quick", arguments = {}, task = {} })
      stream:wait(function() return first_words ~= nil end)
      assert.is_true(post.done)
      assert.equal(post:json().result.task.taskId, wait_messages(stream, 1)[1].params.taskId)
    end)
  end)

  it("tells progress on the stream of a tasks/result that waits", function()
    add("steps", "allowed", function(ctx)
      go:recv(5000)
      ctx:progress(1, 2)
      go:recv(5000)
      return text("x")
    end)
    local stream = open_stream()
    local id = make("steps", {}, { _meta = { progressToken = 7 } }).taskId
    local waiting = start("tasks/result", { taskId = id })
    loop.sleep_ms(10)
    go:send(true)
    assert.equal(7, wait_messages(waiting, 1, "notifications/progress")[1].params.progressToken)
    assert.equal(0, #messages(stream, "notifications/progress"), "one stream only")
    go:send(true)
    local all = messages(waiting:wait_done())
    assert.equal("x", all[#all].result.content[1].text)
  end)

  describe("that asks", function()
    before_each(function()
      add("ask", "allowed", function(ctx)
        local answer, err = ctx:elicit("who", FORM)
        if not answer then return nil, err end
        return text(answer.action .. " " .. tostring(answer.content and answer.content.v))
      end)
    end)
    local function question(post, i)
      local list = wait_messages(post, i or 1, "elicitation/create")
      return list[i or 1]
    end
    local function reply(id, result, err) fake.legacy(endpoint, session, NEWEST, { id = id, result = result, error = err }) end

    it("waits for tasks/result, asks on its stream, and works on", function()
      local stream = open_stream()
      local id = make("ask").taskId
      wait_for(id, "input_required")
      local waiting = start("tasks/result", { taskId = id })
      local asked = question(waiting)
      assert.same({ "Name?", id }, { asked.params.message, asked.params._meta[RELATED].taskId })
      assert.equal("input_required", get(id).status)
      reply(asked.id, { action = "accept", content = { v = "Ada" } })
      local all = messages(waiting:wait_done())
      assert.equal("accept Ada", all[#all].result.content[1].text)
      local statuses = {}
      for _, note in ipairs(wait_messages(stream, 3)) do statuses[#statuses + 1] = note.params.status end
      assert.same({ "input_required", "working", "completed" }, statuses)
    end)

    it("asks the next one when the one who waited gave up", function()
      local id = make("ask").taskId
      local first = start("tasks/result", { taskId = id })
      question(first)
      fake.legacy(endpoint, session, NEWEST, { method = "notifications/cancelled", params = { requestId = n } })
      first:wait_done()
      assert.equal("input_required", get(id).status)
      local second = start("tasks/result", { taskId = id })
      reply(question(second).id, { action = "decline" })
      local all = messages(second:wait_done())
      assert.equal("decline nil", all[#all].result.content[1].text)
    end)

    it("fails when the client answers with an error or with what does not fit", function()
      for message, give in pairs({
        ["nobody here"] = function(q) reply(q, nil, { code = -1, message = "nobody here" }) end,
        ["does not fit"] = function(q) reply(q, { action = "accept", content = { v = 5 } }) end,
      }) do
        local id = make("ask").taskId
        local waiting = start("tasks/result", { taskId = id })
        give(question(waiting).id)
        local all = messages(waiting:wait_done())
        assert.is_true(all[#all].result.isError)
        assert.truthy(get(id).statusMessage:find(message, 1, true), get(id).statusMessage)
      end
    end)

    it("several things at once gets each answer", function()
      add("two", "allowed", function(ctx)
        local answers, err = ctx:ask({
          a = { method = "elicitation/create", params = FORM }, b = { method = "elicitation/create", params = FORM },
        })
        if not answers then return nil, err end
        return text(answers.a.content.v .. answers.b.content.v)
      end)
      local waiting = start("tasks/result", { taskId = make("two").taskId })
      for i = 1, 2 do reply(question(waiting, i).id, { action = "accept", content = { v = "x" } }) end
      local all = messages(waiting:wait_done())
      assert.equal("xx", all[#all].result.content[1].text)
    end)

    it("can be cancelled while it waits for the answer", function()
      local id = make("ask").taskId
      local waiting = start("tasks/result", { taskId = id })
      local asked = question(waiting)
      assert.equal("cancelled", send("tasks/cancel", { taskId = id }).result.status)
      local all = messages(waiting:wait_done())
      assert.same({ "notifications/cancelled", asked.id }, { all[#all - 1].method, all[#all - 1].params.requestId })
      assert.equal(-32602, all[#all].error.code)
    end)
  end)

  describe("tasks/list", function()
    it("shows the tasks of the session, the oldest first, by pages", function()
      add("quick", "allowed", function() return text("x") end)
      assert.same({}, send("tasks/list").result.tasks)
      local ids = {}
      for i = 1, 7 do ids[i] = make("quick").taskId end
      wait_for(ids[7], "completed")
      local seen, cursor, pages = {}, nil, 0
      repeat
        local result = send("tasks/list", { cursor = cursor }).result
        assert.is_nil(result._meta)
        for _, task in ipairs(result.tasks) do seen[#seen + 1] = task.taskId end
        cursor, pages = result.nextCursor, pages + 1
      until not cursor
      assert.same(ids, seen)
      assert.equal(3, pages)
      local row = send("tasks/list").result.tasks[1]
      assert.same({ "completed", tasks.TTL_MS, 1000 }, { row.status, row.ttl, row.pollInterval })
      assert.equal(-32602, send("tasks/list", { cursor = "none" }).error.code)
    end)
  end)

  describe("is hidden from", function()
    local id
    before_each(function()
      add_waiting("slow", "allowed")
      id = make("slow").taskId
    end)

    it("those who guess", function()
      for _, method in ipairs({ "tasks/get", "tasks/result", "tasks/cancel" }) do
        for _, guess in ipairs({ "guess", 5, json.null, {} }) do
          assert.equal(-32602, send(method, { taskId = guess }).error.code)
        end
        assert.equal(-32602, send(method, {}).error.code)
      end
    end)

    it("other sessions, also of the same principal", function()
      local other = fake.initialize(endpoint, NEWEST)
      for _, method in ipairs({ "tasks/get", "tasks/result", "tasks/cancel" }) do
        assert.equal(-32602, send(method, { taskId = id }, other).error.code)
      end
      assert.same({}, send("tasks/list", {}, other).result.tasks)
      local stream = open_stream(other)
      fake.legacy(endpoint, other, NEWEST, { method = "notifications/initialized" })
      send("tasks/cancel", { taskId = id })
      loop.sleep_ms(20)
      assert.equal(0, #messages(stream))
    end)

    it("the modern era, as that one's is from a session", function()
      local TASKS <const> = { extensions = { [protocol.TASKS_EXTENSION] = {} } }
      for _, method in ipairs({ "tasks/get", "tasks/cancel" }) do
        assert.equal(-32602, fake.modern(endpoint, 1, method, { taskId = id }, TASKS):json().error.code)
      end
      local made = fake.modern(endpoint, 1, "tools/call", { name = "slow", arguments = {} }, TASKS):json().result
      assert.equal(-32602, send("tasks/get", { taskId = made.taskId }).error.code)
      assert.equal(1, #send("tasks/list").result.tasks)
    end)

    it("older revisions, which do not have the methods", function()
      local old = fake.initialize(endpoint, "2025-06-18")
      for _, method in ipairs({ "tasks/get", "tasks/result", "tasks/list", "tasks/cancel" }) do
        local answer = fake.legacy(endpoint, old, "2025-06-18", { id = 1, method = method, params = { taskId = id } })
        assert.equal(-32601, answer:json().error.code)
      end
      for _, method in ipairs({ "tasks/result", "tasks/list" }) do
        assert.equal(404, fake.modern(endpoint, 1, method, { taskId = id }).status)
      end
    end)
  end)

  describe("ends with", function()
    local cleaned
    before_each(function()
      cleaned = loop.channel(1)
      add("slow", "allowed", function()
        loop.on_cleanup(function() cleaned:send(true) end)
        local _, err = loop.sleep_ms(60000)
        return nil, err
      end)
    end)

    it("its session, and is forgotten", function()
      make("slow")
      loop.sleep_ms(10)
      fake.send(endpoint, { method = "DELETE", headers = { ["mcp-session-id"] = session } })
      assert.is_true(cleaned:recv(1000))
      assert.same({ 0, 0 }, { S.tasks.n, S.tasks.n_active })
    end)

    it("a session that is busy by its task is not swept away", function()
      local id = make("slow").taskId
      local kept = endpoint.sessions.sessions[session]
      kept.used_ms = -math.huge
      endpoint.sessions:sweep()
      assert.equal("working", get(id).status)
      send("tasks/cancel", { taskId = id })
      kept.used_ms = -math.huge
      endpoint.sessions:sweep()
      assert.same({ 0, true }, { S.tasks.n, kept.is_closed })
    end)

    it("its time to live, unless someone asks for it or waits for it", function()
      local min = session_tasks.MIN_TTL_MS
      session_tasks.MIN_TTL_MS = 10
      local waited, looked_at, alone = make("slow", { ttl = 60 }), make("slow", { ttl = 60 }), make("slow", { ttl = 60 })
      session_tasks.MIN_TTL_MS = min
      local waiting = start("tasks/result", { taskId = waited.taskId })
      for _ = 1, 12 do
        loop.sleep_ms(10)
        assert.equal("working", get(looked_at.taskId).status)
      end
      assert.is_true(cleaned:recv(1000))
      assert.equal(-32602, send("tasks/get", { taskId = alone.taskId }).error.code)
      assert.is_nil(waiting.done)
      assert.is_true(get(looked_at.taskId).ttl > 120)
      send("tasks/cancel", { taskId = waited.taskId })
      assert.equal(-32602, waiting:wait_done():json().error.code)
    end)

    it("the request that made it, when that is cancelled before its answer leaves", function()
      local id = make("slow").taskId
      local task = S.tasks.tasks[id]
      local request = { cancelled = true }
      session_tasks.take_over(request, task)
      request.on_answered()
      assert.equal("cancelled", task.status)
    end)
  end)

  it("is refused when there are too many, and when its session has ended", function()
    local active = tasks.MAX_ACTIVE
    tasks.MAX_ACTIVE = 1
    add_waiting("slow", "allowed")
    assert.equal("working", make("slow").status)
    local err = call("slow").error
    tasks.MAX_ACTIVE = active
    assert.equal(-32603, err.code)
    assert.truthy(err.message:find("too many tasks", 1, true))
    local kept = endpoint.sessions.sessions[session]
    endpoint.sessions:drop(kept, "spec")
    assert.is_nil((S.tasks:create(kept.principal, kept)))
  end)
end)
