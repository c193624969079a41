-- SPDX-License-Identifier: MIT
-- The tasks of revision 2025-11-25 through the endpoint: who may make one, tasks/result that waits and asks, tasks/cancel, tasks/list,
-- progress and status on the session's streams.
local fake = require("support.fake_http")
local json = require("lunette.json")
local kit = require("support.task_session")
local loop = require("lunette.loop")
local protocol = require("lunette.mcp.protocol")
local session_tasks = require("lunette.mcp.session_tasks")
local sse = require("lunette.mcp.sse")
local tasks = require("lunette.mcp.tasks")

local NEWEST <const> = kit.NEWEST
local STATUS <const> = "notifications/tasks/status"
local RELATED <const> = "io.modelcontextprotocol/related-task"

local text = kit.text

local FORM <const> = {
  message = "Name?", requestedSchema = { type = "object", properties = { v = { type = "string" } }, required = json.array({ "v" }) },
}

describe("a task of 2025-11-25", function()
  local k
  before_each(function() k = kit.open() end)
  after_each(function() k.close() end)

  describe("is offered:", function()
    it("the capability, to this revision only", function()
      for version, wanted in pairs({ [NEWEST] = true, ["2025-06-18"] = false, ["2025-03-26"] = false }) do
        local _, answer = fake.initialize(k.endpoint, version)
        local expected = wanted and { list = {}, cancel = {}, requests = { tools = { call = {} } } } or nil
        assert.same(expected, answer:json().result.capabilities.tasks)
        if wanted then assert.truthy(answer.answer:find('"list":{}', 1, true), "objects, not lists") end
      end
    end)

    it("by each tool, as it was declared", function()
      for name, task in pairs({ plain = false, may = "allowed", yes = true, must = "required", later = "deferred" }) do
        k.add(name, task or nil, function() return text("x") end)
      end
      k.add("some", function() return false end, function() return text("x") end)
      local seen = {}
      for _ = 1, 2 do
        local result = k.send("tools/list", { cursor = seen.cursor }).result
        for _, tool in ipairs(result.tools) do seen[tool.name] = tool.execution.taskSupport end
        seen.cursor = result.nextCursor
      end
      assert.same({
        plain = "forbidden", may = "optional", yes = "optional", must = "required", later = "optional", some = "optional",
      }, seen)
      local old = fake.initialize(k.endpoint, "2025-06-18")
      local row = fake.legacy(k.endpoint, old, "2025-06-18", { id = 1, method = "tools/list" }):json().result.tools[1]
      assert.is_nil(row.execution)
      assert.is_nil(fake.modern(k.endpoint, 1, "tools/list"):json().result.tools[1].execution)
    end)
  end)

  describe("is made", function()
    it("when the client says so: nested, working, readable at once", function()
      k.add_waiting("slow", "allowed")
      local made = k.call("slow", { ttl = 60000 }).result
      local task = made.task
      assert.same({ "working", 60000, 1000 }, { task.status, task.ttl, task.pollInterval })
      assert.truthy(task.createdAt:find("^%d%d%d%d%-%d%d%-%d%dT%d%d:%d%d:%d%d%.%d%d%dZ$"))
      assert.equal(task.createdAt, task.lastUpdatedAt)
      assert.same({ taskId = task.taskId }, made._meta[RELATED])
      for _, member in ipairs({ "resultType", "content", "taskId" }) do assert.is_nil(made[member]) end
      for _, member in ipairs({ "ttlMs", "pollIntervalMs" }) do assert.is_nil(task[member]) end
      local seen = k.get(task.taskId)
      assert.same({ task.taskId, "working" }, { seen.taskId, seen.status })
      assert.is_nil(seen._meta)
      k.go:send("done")
      assert.is_nil(k.wait_for(task.taskId, "completed").result)
    end)

    it("with a time to live within bounds, refused when it is none", function()
      k.add("quick", "allowed", function() return text("x") end)
      assert.equal(tasks.TTL_MS, k.make("quick", {}).ttl)
      assert.equal(tasks.TTL_MS, k.make("quick", { ttl = json.null }).ttl)
      assert.equal(session_tasks.MIN_TTL_MS, k.make("quick", { ttl = 0 }).ttl)
      assert.equal(session_tasks.MAX_TTL_MS, k.make("quick", { ttl = 1e300 }).ttl)
      assert.equal(2500, k.make("quick", { ttl = 2500.7 }).ttl)
      for _, bad in ipairs({ 5, "x", json.array({ 1 }), { ttl = "1" }, { ttl = -1 }, { ttl = true } }) do
        assert.equal(-32602, k.call("quick", bad).error.code)
      end
    end)

    it("not of a tool that does not do it, and not of arguments with which it does not", function()
      k.add("plain", nil, function() return text("x") end)
      k.add("some", function(args) return args.long == true end, function(ctx) return text(tostring(ctx.in_task)) end)
      assert.equal(-32601, k.call("plain").error.code)
      assert.equal(-32601, k.call("some").error.code)
      assert.equal("working", k.make("some", {}, { arguments = { long = true } }).status)
      assert.equal("x", k.send("tools/call", { name = "plain", arguments = {}, task = json.null }).result.content[1].text)
    end)

    it("of wrong arguments that leave it open, and says what is wrong", function()
      k.add("some", function() return nil end, function() return nil, { kind = "InvalidArgument", message = "no such kind" } end)
      local id = k.make("some").taskId
      assert.equal("no such kind", k.wait_for(id, "failed").statusMessage)
      assert.is_true(k.send("tasks/result", { taskId = id }).result.isError)
    end)

    it("always of a tool that demands it: a plain call is refused", function()
      k.add("must", "required", function() return text("x") end)
      local err = k.send("tools/call", { name = "must", arguments = {} }).error
      assert.equal(-32601, err.code)
      assert.truthy(err.message:find('"task": {}', 1, true), err.message)
      assert.equal("working", k.make("must").status)
    end)

    it("at once of a tool that decides later", function()
      k.add("late", "deferred", function(ctx)
        assert(ctx:begin_task())
        return text(tostring(ctx.in_task) .. tostring(ctx:can("tasks")))
      end)
      assert.equal("truetrue", k.send("tasks/result", { taskId = k.make("late").taskId }).result.content[1].text)
    end)
  end)

  describe("and tasks/result:", function()
    it("waits for the end and gives what the call would have given, tied to the task", function()
      k.add("slow", "allowed", function()
        local word = k.go:recv(20000)
        return { content = json.array({ { type = "text", text = word } }), structuredContent = json.raw('{"a":[]}'), _meta = { mine = 1 } }
      end)
      local id = k.make("slow").taskId
      local waiting, second = k.start("tasks/result", { taskId = id }), k.start("tasks/result", { taskId = id })
      loop.sleep_ms(30)
      assert.is_nil(waiting.done)
      k.go:send("done")
      local result = waiting:wait_done():json().result
      assert.equal("done", result.content[1].text)
      assert.same({ mine = 1, [RELATED] = { taskId = id } }, result._meta)
      assert.truthy(waiting.answer:find('"structuredContent":{"a":[]}', 1, true))
      assert.same(result, second:wait_done():json().result)
      assert.same(result, k.send("tasks/result", { taskId = id }).result, "and again")
    end)

    it("gives isError as a result and a JSON-RPC error as that error; both are failed", function()
      k.add("bad", "allowed", function() return text("disk full", true) end)
      k.add("enveloped", "allowed", function() return text('{"summary":"Not allowed.","data":null}', true) end)
      k.add("rpc", "allowed", function() return nil, { rpc_code = -31000, message = "m", rpc_data = { a = 1 } } end)
      k.add("thrown", "allowed", function() error("boom") end)
      local bad, rpc, thrown = k.make("bad").taskId, k.make("rpc").taskId, k.make("thrown").taskId
      assert.equal("disk full", k.wait_for(bad, "failed").statusMessage)
      assert.equal("Not allowed.", k.wait_for(k.make("enveloped").taskId, "failed").statusMessage)
      local result = k.send("tasks/result", { taskId = bad }).result
      assert.same({ true, "disk full", id = bad }, { result.isError, result.content[1].text, id = result._meta[RELATED].taskId })
      assert.equal("m", k.wait_for(rpc, "failed").statusMessage)
      assert.same({ code = -31000, message = "m", data = { a = 1 } }, k.send("tasks/result", { taskId = rpc }).error)
      assert.equal(-32603, k.send("tasks/result", { taskId = thrown }).error.code)
    end)

    it("can be given up without harm to the task", function()
      k.add_waiting("slow", "allowed")
      local id = k.make("slow").taskId
      local waiting = k.start("tasks/result", { taskId = id })
      loop.sleep_ms(10)
      fake.legacy(k.endpoint, k.session, NEWEST, { method = "notifications/cancelled", params = { requestId = k.last_id() } })
      waiting:wait_done()
      assert.equal("", waiting.answer)
      assert.equal("working", k.get(id).status)
      k.go:send("done")
      assert.equal("done true", k.send("tasks/result", { taskId = id }).result.content[1].text)
    end)

    it("becomes a stream that is kept alive when it takes long", function()
      k.add_waiting("slow", "allowed")
      local id, after = k.make("slow").taskId, sse.STREAM_AFTER_MS
      sse.STREAM_AFTER_MS = 20
      local waiting = k.start("tasks/result", { taskId = id })
      waiting:wait(function(req) return req.is_stream end)
      sse.STREAM_AFTER_MS = after
      k.go:send("done")
      assert.equal("done true", k.messages(waiting:wait_done())[1].result.content[1].text)
    end)

    it("is an error for a task that was cancelled, before or while it waits", function()
      k.add_waiting("slow", "allowed")
      local id = k.make("slow").taskId
      local waiting = k.start("tasks/result", { taskId = id })
      loop.sleep_ms(10)
      assert.equal("cancelled", k.send("tasks/cancel", { taskId = id }).result.status)
      for _, answer in ipairs({ waiting:wait_done():json(), k.send("tasks/result", { taskId = id }) }) do
        assert.equal(-32602, answer.error.code)
        assert.same({ taskId = id, status = "cancelled" }, answer.error.data)
        assert.truthy(answer.error.message:find("cancelled", 1, true))
      end
    end)
  end)

  describe("tasks/cancel", function()
    it("stops the handler, runs its cleanup, and shows the task as cancelled", function()
      local cleaned = loop.channel(1)
      k.add("slow", "allowed", function()
        loop.on_cleanup(function() cleaned:send(true) end)
        local _, err = loop.sleep_ms(60000)
        return nil, err
      end)
      local id = k.make("slow").taskId
      loop.sleep_ms(10)
      local task = k.send("tasks/cancel", { taskId = id }).result
      assert.same({ id, "cancelled", "the client cancelled the task" }, { task.taskId, task.status, task.statusMessage })
      assert.is_nil(task._meta)
      assert.is_true(cleaned:recv(20000))
      assert.same({ "cancelled", 0, 0 }, { k.get(id).status, k.S.tasks.n_active, k.endpoint.sessions.sessions[k.session].n_tasks })
    end)

    it("is refused for a task that has ended", function()
      k.add("quick", "allowed", function() return text("x") end)
      local id = k.make("quick").taskId
      k.wait_for(id, "completed")
      assert.equal(-32602, k.send("tasks/cancel", { taskId = id }).error.code)
      assert.equal("completed", k.get(id).status)
    end)

    it("is the only cancel: that of the request that made it comes too late", function()
      k.add_waiting("slow", "allowed")
      local id = k.make("slow").taskId
      fake.legacy(k.endpoint, k.session, NEWEST, { method = "notifications/cancelled", params = { requestId = k.last_id() } })
      loop.sleep_ms(10)
      assert.equal("working", k.get(id).status)
    end)
  end)

  describe("tells on the stream of the session", function()
    it("each status that it takes on, without the tie that is in it already", function()
      k.add_waiting("slow", "allowed")
      local stream = k.open_stream()
      local id = k.make("slow").taskId
      k.go:send("done")
      local note = k.wait_messages(stream, 1, STATUS)[1]
      assert.same({ id, "completed", tasks.TTL_MS }, { note.params.taskId, note.params.status, note.params.ttl // 1 })
      assert.is_nil(note.params._meta)
      local other = k.make("slow").taskId
      k.send("tasks/cancel", { taskId = other })
      note = k.wait_messages(stream, 2, STATUS)[2]
      assert.same({ other, "cancelled" }, { note.params.taskId, note.params.status })
      loop.sleep_ms(20)
      assert.equal(2, #k.messages(stream, STATUS))
    end)

    it("progress with the token of the call for as long as it runs, and log messages", function()
      k.add("steps", "allowed", function(ctx)
        for i = 1, 3 do
          if not k.go:recv(20000) then return nil, protocol.failure("Cancelled", "x") end
          ctx:progress(i, 3, "step")
          ctx:log("info", "at " .. i)
        end
        return text("x")
      end)
      local stream = k.open_stream()
      local id = k.make("steps", {}, { _meta = { progressToken = "tok" } }).taskId
      for i = 1, 3 do
        k.go:send(true)
        local seen = k.wait_messages(stream, i, "notifications/progress")[i].params
        assert.same({ "tok", i, 3, id }, { seen.progressToken, seen.progress, seen.total, seen._meta[RELATED].taskId })
        assert.equal(id, k.wait_messages(stream, i, "notifications/message")[i].params._meta[RELATED].taskId)
        if i < 3 then assert.equal("step (" .. i .. " of 3)", k.get(id).statusMessage) end
      end
      k.wait_for(id, "completed")
      assert.equal(3, #k.messages(stream, "notifications/progress"))
    end)

    it("the end of a task that ended before its answer left, after that; and nothing of a handler that goes on", function()
      local kept, sent = k.endpoint.sessions.sessions[k.session], {}
      kept.listener.send = function(method, params) sent[#sent + 1] = { method, params.status } end
      local request = {}
      local task = k.S.tasks:create(kept.principal, kept)
      session_tasks.take_over(request, task)
      assert.is_true(request:notify("notifications/progress", {}))
      task:complete(text("x"))
      assert.same({ { "notifications/progress" } }, sent)
      request.on_answered()
      assert.same({ STATUS, "completed" }, sent[2])
      assert.is_false(request:notify("notifications/progress", {}))
      assert.equal(2, #sent)
    end)

    it("nothing before the client knows the task", function()
      k.add("quick", "allowed", function() return text("x") end)
      local stream = k.open_stream()
      local first_words
      stream.write = function(req, words)
        first_words = first_words or words:find(STATUS, 1, true)
        return getmetatable(req).__index.write(req, words)
      end
      local post = k.start("tools/call", { name = "quick", arguments = {}, task = {} })
      stream:wait(function() return first_words ~= nil end)
      assert.is_true(post.done)
      assert.equal(post:json().result.task.taskId, k.wait_messages(stream, 1, STATUS)[1].params.taskId)
    end)
  end)

  it("tells progress on the stream of a tasks/result that waits", function()
    k.add("steps", "allowed", function(ctx)
      k.go:recv(20000)
      ctx:progress(1, 2)
      k.go:recv(20000)
      return text("x")
    end)
    local stream = k.open_stream()
    local id = k.make("steps", {}, { _meta = { progressToken = 7 } }).taskId
    local waiting = k.start("tasks/result", { taskId = id })
    loop.sleep_ms(10)
    k.go:send(true)
    assert.equal(7, k.wait_messages(waiting, 1, "notifications/progress")[1].params.progressToken)
    assert.equal(0, #k.messages(stream, "notifications/progress"), "one stream only")
    k.go:send(true)
    local all = k.messages(waiting:wait_done())
    assert.equal("x", all[#all].result.content[1].text)
  end)

  describe("that asks", function()
    before_each(function()
      k.add("ask", "allowed", function(ctx)
        local answer, err = ctx:elicit("who", FORM)
        if not answer then return nil, err end
        return text(answer.action .. " " .. tostring(answer.content and answer.content.v))
      end)
    end)
    local function question(post, i)
      local list = k.wait_messages(post, i or 1, "elicitation/create")
      return list[i or 1]
    end
    local function reply(id, result, err) fake.legacy(k.endpoint, k.session, NEWEST, { id = id, result = result, error = err }) end

    it("waits for tasks/result, asks on its stream, and works on", function()
      local stream = k.open_stream()
      local id = k.make("ask").taskId
      k.wait_for(id, "input_required")
      local waiting = k.start("tasks/result", { taskId = id })
      local asked = question(waiting)
      assert.same({ "Name?", id }, { asked.params.message, asked.params._meta[RELATED].taskId })
      assert.equal("input_required", k.get(id).status)
      reply(asked.id, { action = "accept", content = { v = "Ada" } })
      local all = k.messages(waiting:wait_done())
      assert.equal("accept Ada", all[#all].result.content[1].text)
      local statuses = {}
      for _, note in ipairs(k.wait_messages(stream, 3, STATUS)) do statuses[#statuses + 1] = note.params.status end
      assert.same({ "input_required", "working", "completed" }, statuses)
    end)

    it("asks the next one when the one who waited gave up", function()
      local id = k.make("ask").taskId
      local first = k.start("tasks/result", { taskId = id })
      question(first)
      fake.legacy(k.endpoint, k.session, NEWEST, { method = "notifications/cancelled", params = { requestId = k.last_id() } })
      first:wait_done()
      assert.equal("input_required", k.get(id).status)
      local second = k.start("tasks/result", { taskId = id })
      reply(question(second).id, { action = "decline" })
      local all = k.messages(second:wait_done())
      assert.equal("decline nil", all[#all].result.content[1].text)
    end)

    it("fails when the client answers with an error or with what does not fit", function()
      for message, give in pairs({
        ["nobody here"] = function(q) reply(q, nil, { code = -1, message = "nobody here" }) end,
        ["does not fit"] = function(q) reply(q, { action = "accept", content = { v = 5 } }) end,
      }) do
        local id = k.make("ask").taskId
        local waiting = k.start("tasks/result", { taskId = id })
        give(question(waiting).id)
        local all = k.messages(waiting:wait_done())
        assert.is_true(all[#all].result.isError)
        assert.truthy(k.get(id).statusMessage:find(message, 1, true), k.get(id).statusMessage)
      end
    end)

    it("several things at once gets each answer", function()
      k.add("two", "allowed", function(ctx)
        local answers, err = ctx:ask({
          a = { method = "elicitation/create", params = FORM }, b = { method = "elicitation/create", params = FORM },
        })
        if not answers then return nil, err end
        return text(answers.a.content.v .. answers.b.content.v)
      end)
      local waiting = k.start("tasks/result", { taskId = k.make("two").taskId })
      for i = 1, 2 do reply(question(waiting, i).id, { action = "accept", content = { v = "x" } }) end
      local all = k.messages(waiting:wait_done())
      assert.equal("xx", all[#all].result.content[1].text)
    end)

    it("can be cancelled while it waits for the answer", function()
      local id = k.make("ask").taskId
      local waiting = k.start("tasks/result", { taskId = id })
      local asked = question(waiting)
      assert.equal("cancelled", k.send("tasks/cancel", { taskId = id }).result.status)
      local all = k.messages(waiting:wait_done())
      assert.same({ "notifications/cancelled", asked.id }, { all[#all - 1].method, all[#all - 1].params.requestId })
      assert.equal(-32602, all[#all].error.code)
    end)
  end)

  describe("tasks/list", function()
    it("shows the tasks of the session, the oldest first, by pages", function()
      k.add("quick", "allowed", function() return text("x") end)
      assert.same({}, k.send("tasks/list").result.tasks)
      local ids = {}
      for i = 1, 7 do ids[i] = k.make("quick").taskId end
      k.wait_for(ids[7], "completed")
      local seen, cursor, pages = {}, nil, 0
      repeat
        local result = k.send("tasks/list", { cursor = cursor }).result
        assert.is_nil(result._meta)
        for _, task in ipairs(result.tasks) do seen[#seen + 1] = task.taskId end
        cursor, pages = result.nextCursor, pages + 1
      until not cursor
      assert.same(ids, seen)
      assert.equal(3, pages)
      local row = k.send("tasks/list").result.tasks[1]
      assert.same({ "completed", tasks.TTL_MS, 1000 }, { row.status, row.ttl, row.pollInterval })
      assert.equal(-32602, k.send("tasks/list", { cursor = "none" }).error.code)
    end)
  end)
end)
