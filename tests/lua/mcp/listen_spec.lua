-- SPDX-License-Identifier: MIT
-- subscriptions/listen: the acknowledgement first, only what was asked for, until either side ends it.
local fake = require("support.fake_http")
local http = require("lunette.mcp.http")
local json = require("lunette.json")
local protocol = require("lunette.mcp.protocol")
local registry = require("lunette.registry")
local server = require("lunette.mcp.server")
local sse = require("lunette.mcp.sse")
local subscriptions = require("lunette.mcp.subscriptions")

describe("subscriptions/listen", function()
  local r, S, endpoint
  before_each(function()
    r = registry.new()
    S = server.new({ registry = r })
    endpoint = http.endpoint(S, { auth = fake.ALLOW_ALL })
  end)
  after_each(function()
    S:close()
    endpoint:close()
  end)

  local function listen(id, filter)
    local req = fake.start_modern(endpoint, id, "subscriptions/listen", { notifications = filter })
    return req:wait(function(x) return x.done or #x:events() >= 1 end)
  end
  local function add_tool(name)
    r.add_tool({ name = name, description = "d", inputSchema = { type = "object" }, handler = function() end })
  end
  local function method(req, i) return req:events()[i].data.method end

  it("acknowledges what it honors, tagged with the id of the request in its type", function()
    for _, id in ipairs({ "listen-1", 17 }) do
      local req = listen(id, {
        toolsListChanged = true, promptsListChanged = false, resourceSubscriptions = json.array({ "x://1" }), more = 1,
      })
      local ack = req:events()[1].data
      assert.equal("notifications/subscriptions/acknowledged", ack.method)
      assert.equal(id, ack.params._meta[protocol.META.SUBSCRIPTION])
      assert.same({ toolsListChanged = true, resourceSubscriptions = json.array({ "x://1" }) }, ack.params.notifications)
      req:hang_up()
      req.task:await(1000)
    end
    assert.equal(0, S.hub.n)
  end)

  it("sends the kinds that were asked for and no other", function()
    local tools, all = listen(1, { toolsListChanged = true }), listen(2, {
      toolsListChanged = true, promptsListChanged = true, resourcesListChanged = true, resourceSubscriptions = json.array({ "x://1" }) })
    r.add_prompt({ name = "p", get = function() end })
    r.add_resource({ uri = "x://1", name = "n", read = function() end })
    r.resource_updated("x://1")
    r.resource_updated("x://2")
    add_tool("a")
    all:wait(function(req) return #req:events() == 5 end)
    tools:wait(function(req) return #req:events() == 2 end)
    local seen = {}
    for i = 2, 5 do seen[method(all, i)] = all:events()[i].data.params._meta[protocol.META.SUBSCRIPTION] end
    assert.same({ ["notifications/tools/list_changed"] = 2, ["notifications/prompts/list_changed"] = 2,
      ["notifications/resources/list_changed"] = 2, ["notifications/resources/updated"] = 2 }, seen)
    assert.equal("notifications/tools/list_changed", method(tools, 2))
    assert.equal(1, tools:events()[2].data.params._meta[protocol.META.SUBSCRIPTION])
  end)

  it("tells many changes of a list once", function()
    local req = listen(1, { toolsListChanged = true, promptsListChanged = true })
    for i = 1, 20 do add_tool("t" .. i) end
    req:wait(function(x) return #x:events() == 2 end)
    r.add_prompt({ name = "p", get = function() end })
    req:wait(function(x) return #x:events() == 3 end)
    assert.equal("notifications/prompts/list_changed", method(req, 3))
  end)

  it("ends with its result when the server stops", function()
    local req = listen("a", { toolsListChanged = true })
    S:close()
    req:wait_done()
    local last = req:events()[2].data
    assert.equal("a", last.id)
    assert.same({ "complete", "a" }, { last.result.resultType, last.result._meta[protocol.META.SUBSCRIPTION] })
  end)

  it("is forgotten when the client hangs up", function()
    local before = sse.count()
    local req = listen(1, { toolsListChanged = true })
    assert.same({ 1, before + 1 }, { S.hub.n, sse.count() })
    req:hang_up()
    req.task:await(1000)
    assert.same({ 0, before }, { S.hub.n, sse.count() })
  end)

  it("keeps the stream alive with comments", function()
    local every = sse.KEEP_ALIVE_MS
    sse.KEEP_ALIVE_MS = 10
    local req = listen(1, { toolsListChanged = true })
    req:wait(function(x) return x.answer:find(": keep-alive\n\n: keep-alive\n\n", 1, true) end)
    sse.KEEP_ALIVE_MS = every
    assert.equal(1, #req:events())
    req:hang_up()
  end)

  for what, filter in pairs({
    ["no filter"] = json.null, ["a list"] = json.array({}), ["a kind that is no boolean"] = { toolsListChanged = 1 },
    ["URIs that are no list"] = { resourceSubscriptions = "x" },
    ["URIs that are no strings"] = { resourceSubscriptions = json.array({ 1 }) },
  }) do
    it("refuses " .. what, function()
      assert.equal(-32602, fake.modern(endpoint, 1, "subscriptions/listen", { notifications = filter }):json().error.code)
    end)
  end

  it("refuses more than a process or a principal may have open", function()
    local max = subscriptions.MAX_LISTENERS
    subscriptions.MAX_LISTENERS = 1
    listen(1, { toolsListChanged = true })
    local answer = fake.modern(endpoint, 2, "subscriptions/listen", { notifications = {} })
    subscriptions.MAX_LISTENERS = max
    assert.equal(-32603, answer:json().error.code)
    for i = 2, 64 do listen(i, {}) end
    assert.equal(-32603, fake.modern(endpoint, 65, "subscriptions/listen", { notifications = {} }):json().error.code)
  end)
end)
