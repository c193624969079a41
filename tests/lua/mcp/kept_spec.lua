-- SPDX-License-Identifier: MIT
-- Lists that the transport gives again by itself: over a real socket, with each request's own id, and never an old list.
local json = require("lunette.json")
local loop = require("lunette.loop")
local registry = require("lunette.registry")
local http = require("lunette.mcp.http")
local server = require("lunette.mcp.server")

local META <const> = '"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}'
local PEOPLE <const> = { ["Bearer one"] = "one", ["Bearer two"] = "two" }

local function authenticate(headers)
  local name = PEOPLE[headers.authorization]
  if not name then return nil, { status = 401, www_authenticate = "Bearer" } end
  return { name = name, scopes = { [name] = true } }
end

local function tool(name, visible)
  local function handler() return { content = {} } end
  return { name = name, description = "d", inputSchema = { type = "object" }, visible = visible, handler = handler }
end

describe("mcp lists over HTTP #unit", function()
  local R, listener

  local function list(id, token)
    local r = assert(loop.exec({ timeout_ms = 10000, argv = {
      "curl", "-sS", "--noproxy", "*", ("http://127.0.0.1:%d/mcp"):format(listener.port),
      "-H", "Authorization: Bearer " .. (token or "one"), "-H", "Content-Type: application/json",
      "-H", "Accept: application/json, text/event-stream", "-H", "MCP-Protocol-Version: 2026-07-28",
      "-H", "Mcp-Method: tools/list", "-d", ('{"jsonrpc":"2.0","id":%s,"method":"tools/list","params":{%s}}'):format(id, META),
    } }))
    local answer, names = assert(json.decode(r.stdout)), {}
    for i, row in ipairs(answer.result and answer.result.tools or {}) do names[i] = row.name end
    return answer.id, table.concat(names, " ")
  end

  setup(function()
    R = registry.new()
    R.add_tool(tool("a"))
    listener = assert(http.serve(server.new({ registry = R }), { port = 0, auth = { authenticate = authenticate } }))
  end)
  teardown(function() listener.close() end)

  it("carry the id of each request, text or number", function()
    for _, id in ipairs({ "1", '"x y"', "2", '"1"' }) do
      assert.same({ json.decode(id), "a" }, { list(id) })
    end
  end)

  it("show a change at once", function()
    list("1")
    R.add_tool(tool("b"))
    assert.same({ 7, "a b" }, { list("7") })
    R.remove_tool("b")
    assert.same({ 8, "a" }, { list("8") })
  end)

  it("are told apart by who asks", function()
    R.add_tool(tool("c", function(principal) return principal.name == "two" end))
    assert.same({ "a", "a c", "a", "a c" }, { select(2, list("1", "one")), select(2, list("2", "two")), select(2, list("3", "one")),
      select(2, list("4", "two")) })
    local id, names = list("5", "three")
    assert.same({ nil, "" }, { id, names })
  end)
end)
