-- SPDX-License-Identifier: MIT
-- The tasks of revision 2025-11-25: who sees one, what ends it, how many there may be.
local fake = require("support.fake_http")
local json = require("lunette.json")
local kit = require("support.task_session")
local loop = require("lunette.loop")
local protocol = require("lunette.mcp.protocol")
local session_tasks = require("lunette.mcp.session_tasks")
local tasks = require("lunette.mcp.tasks")

local NEWEST <const> = kit.NEWEST
local STATUS <const> = "notifications/tasks/status"

describe("a task of 2025-11-25", function()
  local k
  before_each(function() k = kit.open() end)
  after_each(function() k.close() end)

  describe("is hidden from", function()
    local id
    before_each(function()
      k.add_waiting("slow", "allowed")
      id = k.make("slow").taskId
    end)

    it("those who guess", function()
      for _, method in ipairs({ "tasks/get", "tasks/result", "tasks/cancel" }) do
        for _, guess in ipairs({ "guess", 5, json.null, {} }) do
          assert.equal(-32602, k.send(method, { taskId = guess }).error.code)
        end
        assert.equal(-32602, k.send(method, {}).error.code)
      end
    end)

    it("other sessions, also of the same principal", function()
      local other = fake.initialize(k.endpoint, NEWEST)
      for _, method in ipairs({ "tasks/get", "tasks/result", "tasks/cancel" }) do
        assert.equal(-32602, k.send(method, { taskId = id }, other).error.code)
      end
      assert.same({}, k.send("tasks/list", {}, other).result.tasks)
      local stream = k.open_stream(other)
      fake.legacy(k.endpoint, other, NEWEST, { method = "notifications/initialized" })
      k.send("tasks/cancel", { taskId = id })
      loop.sleep_ms(20)
      assert.equal(0, #k.messages(stream, STATUS))
    end)

    it("the modern era, as that one's is from a session", function()
      local TASKS <const> = { extensions = { [protocol.TASKS_EXTENSION] = {} } }
      for _, method in ipairs({ "tasks/get", "tasks/cancel" }) do
        assert.equal(-32602, fake.modern(k.endpoint, 1, method, { taskId = id }, TASKS):json().error.code)
      end
      local made = fake.modern(k.endpoint, 1, "tools/call", { name = "slow", arguments = {} }, TASKS):json().result
      assert.equal(-32602, k.send("tasks/get", { taskId = made.taskId }).error.code)
      assert.equal(1, #k.send("tasks/list").result.tasks)
    end)

    it("older revisions, which do not have the methods", function()
      local old = fake.initialize(k.endpoint, "2025-06-18")
      for _, method in ipairs({ "tasks/get", "tasks/result", "tasks/list", "tasks/cancel" }) do
        local answer = fake.legacy(k.endpoint, old, "2025-06-18", { id = 1, method = method, params = { taskId = id } })
        assert.equal(-32601, answer:json().error.code)
      end
      for _, method in ipairs({ "tasks/result", "tasks/list" }) do
        assert.equal(404, fake.modern(k.endpoint, 1, method, { taskId = id }).status)
      end
    end)
  end)

  describe("ends with", function()
    local cleaned
    before_each(function()
      cleaned = loop.channel(1)
      k.add("slow", "allowed", function()
        loop.on_cleanup(function() cleaned:send(true) end)
        local _, err = loop.sleep_ms(60000)
        return nil, err
      end)
    end)

    it("its session, and is forgotten", function()
      local id, stream = k.make("slow").taskId, k.open_stream()
      loop.sleep_ms(10)
      fake.send(k.endpoint, { method = "DELETE", headers = { ["mcp-session-id"] = k.session } })
      assert.is_true(cleaned:recv(1000))
      assert.same({ 0, 0 }, { k.S.tasks.n, k.S.tasks.n_active })
      assert.is_nil(k.S.tasks.tasks[id])
      assert.same({}, k.messages(stream, STATUS), "an ended session is told nothing")
    end)

    it("a cancel that comes before its handler began, and that never does", function()
      local create, ran = k.S.tasks.create, false
      function k.S.tasks.create(...)
        local task = create(...)
        task:cancel()
        return task
      end
      k.add("never", "allowed", function() ran = true end)
      local id = k.make("never").taskId
      loop.sleep_ms(20)
      assert.same({ "cancelled", false }, { k.get(id).status, ran })
    end)

    it("a session that is busy by its task is not swept away", function()
      local id = k.make("slow").taskId
      local kept = k.endpoint.sessions.sessions[k.session]
      kept.used_ms = -math.huge
      k.endpoint.sessions:sweep()
      assert.equal("working", k.get(id).status)
      k.send("tasks/cancel", { taskId = id })
      kept.used_ms = -math.huge
      k.endpoint.sessions:sweep()
      assert.same({ 0, true }, { k.S.tasks.n, kept.is_closed })
    end)

    it("its time to live, unless someone asks for it or waits for it", function()
      local min = session_tasks.MIN_TTL_MS
      session_tasks.MIN_TTL_MS = 10
      local waited, looked_at, alone = k.make("slow", { ttl = 300 }), k.make("slow", { ttl = 300 }), k.make("slow", { ttl = 300 })
      session_tasks.MIN_TTL_MS = min
      local waiting = k.start("tasks/result", { taskId = waited.taskId })
      for _ = 1, 12 do
        loop.sleep_ms(30)
        assert.equal("working", k.get(looked_at.taskId).status)
      end
      assert.is_true(cleaned:recv(1000))
      assert.equal(-32602, k.send("tasks/get", { taskId = alone.taskId }).error.code)
      assert.is_nil(waiting.done)
      assert.is_true(k.get(looked_at.taskId).ttl > 120)
      k.send("tasks/cancel", { taskId = waited.taskId })
      assert.equal(-32602, waiting:wait_done():json().error.code)
    end)

    it("the request that made it, when that is cancelled before its answer leaves", function()
      local id = k.make("slow").taskId
      local task = k.S.tasks.tasks[id]
      local request = { cancelled = true }
      session_tasks.take_over(request, task)
      request.on_answered()
      assert.equal("cancelled", task.status)
    end)
  end)

  it("is refused when there are too many, and when its session has ended", function()
    local active = tasks.MAX_ACTIVE
    tasks.MAX_ACTIVE = 1
    k.add_waiting("slow", "allowed")
    assert.equal("working", k.make("slow").status)
    local err = k.call("slow").error
    tasks.MAX_ACTIVE = active
    assert.equal(-32603, err.code)
    assert.truthy(err.message:find("too many tasks", 1, true))
    local kept = k.endpoint.sessions.sessions[k.session]
    k.endpoint.sessions:drop(kept, "spec")
    assert.is_nil((k.S.tasks:create(kept.principal, kept)))
  end)
end)
