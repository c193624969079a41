-- SPDX-License-Identifier: MIT
--- A session of revision 2025-11-25 with a server of its own, and the short words of specs about its tasks.

local fake = require("support.fake_http")
local http = require("lunette.mcp.http")
local json = require("lunette.json")
local loop = require("lunette.loop")
local registry = require("lunette.registry")
local server = require("lunette.mcp.server")

local M = {}

M.NEWEST = "2025-11-25"
M.PAGE_SIZE = 3

--- The result of a tool that says something.
function M.text(s, is_error) return { content = json.array({ { type = "text", text = s } }), isError = is_error } end

--- The messages on a stream so far; method: only those.
function M.messages(req, method)
  local list = {}
  for _, event in ipairs(req:events()) do
    if type(event.data) == "table" and (not method or event.data.method == method) then list[#list + 1] = event.data end
  end
  return list
end

--- Waits until a stream has so many messages -> those.
function M.wait_messages(req, count, method)
  req:wait(function() return #M.messages(req, method) >= count end)
  return M.messages(req, method)
end

--- Opens a server with one session that is ready.
function M.open()
  local r, n = registry.new(), 0
  local k = { S = server.new({ registry = r, page_size = M.PAGE_SIZE }), go = loop.channel(4) }
  k.endpoint = http.endpoint(k.S, { auth = fake.ALLOW_ALL })
  k.session = fake.initialize(k.endpoint, M.NEWEST, { elicitation = {} })
  fake.legacy(k.endpoint, k.session, M.NEWEST, { method = "notifications/initialized" })
  k.messages, k.wait_messages = M.messages, M.wait_messages

  function k.close()
    k.S:close()
    k.endpoint:close()
  end
  function k.add(name, task, handler)
    r.add_tool({ name = name, description = "d", inputSchema = { type = "object" }, task = task, handler = handler })
  end
  --- A tool that waits for `go`, then says what came and whether it is a task.
  function k.add_waiting(name, task)
    k.add(name, task, function(ctx)
      local word, err = k.go:recv(20000)
      if not word then return nil, err end
      return M.text(tostring(word) .. " " .. tostring(ctx.in_task))
    end)
  end
  function k.last_id() return n end
  function k.start(method, params, session)
    n = n + 1
    return fake.start_legacy(k.endpoint, session or k.session, M.NEWEST, { id = n, method = method, params = params })
  end
  function k.send(method, params, session) return k.start(method, params, session):wait_done():json() end
  --- A tools/call that asks for a task -> the answer.
  function k.call(name, task, more)
    local params = { name = name, arguments = {}, task = task or {} }
    for key, v in pairs(more or {}) do params[key] = v end
    return k.send("tools/call", params)
  end
  function k.make(name, task, more) return k.call(name, task, more).result.task end
  function k.get(id) return k.send("tasks/get", { taskId = id }).result end
  function k.wait_for(id, status)
    for _ = 1, 400 do
      local task = k.get(id)
      if task.status == status then return task end
      loop.sleep_ms(5)
    end
    error("the task never became " .. status .. " but is " .. k.get(id).status)
  end
  --- The session's own stream (GET).
  function k.open_stream(session)
    local headers = { ["mcp-session-id"] = session or k.session, accept = "text/event-stream" }
    return fake.start(k.endpoint, { method = "GET", headers = headers }):wait(function(req) return req.is_stream end)
  end
  return k
end

return M
