-- SPDX-License-Identifier: MIT
-- The Lua half of fuzz_mcp.c. An input is an HTTP request (a line "METHOD PATH", header lines, an empty line, the body), or "STDIO" and
-- then lines. Whatever it holds: each request is answered once, with valid JSON, and nothing that it started is left when the client goes.
local root = debug.getinfo(1, "S").source:match("^@(.*)/tests/fuzz/[^/]*$")
package.path = package.path .. ";" .. root .. "/tests/lua/?.lua"

local crypto = require("lunette.crypto")
local fake = require("support.fake_http")
local http = require("lunette.mcp.http")
local json = require("lunette.json")
local loop = require("lunette.loop")
local registry = require("lunette.registry")
local server = require("lunette.mcp.server")
local stdio = require("lunette.mcp.stdio")
local streams = require("lunette.mcp.streams")
local tasks = require("lunette.mcp.tasks")

local cover = _G.cover
local END_MS <const> = 2000

-- Every task counts its lines.
local spawn = loop.spawn
loop.spawn = function(fn, ...)
  return spawn(function(...)
    cover()
    return fn(...)
  end, ...)
end

local function text(s) return { content = json.array({ { type = "text", text = tostring(s) } }) } end

local FORM <const> = {
  message = "m", requestedSchema = { type = "object", properties = { v = { type = "string" } }, required = json.array({ "v" }) },
}

local function add_tools(r)
  local function tool(name, handler, task, properties)
    r.add_tool({ name = name, description = "d", task = task, handler = handler,
      inputSchema = { type = "object", properties = properties or {} } })
  end
  tool("echo", function(ctx, args)
    ctx:progress(1, 2, "m")
    ctx:log("info", args)
    return { content = json.array({}), structuredContent = args }
  end, nil, { v = { type = "string", ["x-mcp-header"] = "V" }, n = { type = "integer", ["x-mcp-header"] = "N" } })
  tool("ask", function(ctx)
    ctx.state.n = 1
    local answers, err = ctx:ask({ a = { method = "elicitation/create", params = FORM }, b = { method = "roots/list" } })
    return answers and text(answers.a.action) or nil, err
  end)
  tool("task", function(ctx)
    local answer, err = ctx:elicit("k", FORM)
    return answer and text(answer.action) or nil, err
  end, "allowed")
  tool("late", function(ctx)
    ctx:begin_task()
    return text(ctx.in_task)
  end, "deferred")
  tool("fail", function(_, args) return nil, { kind = "NotFound", message = tostring(args.m) } end)
end

local function add_others(r)
  r.add_prompt({
    name = "p", arguments = { { name = "a", required = true, complete = function(_, v) return { v, v .. "x" } end } },
    get = function(_, args) return { messages = { { role = "user", content = { type = "text", text = args.a } } } } end,
  })
  r.add_resource({ uri = "x://1", name = "n", read = function(_, uri) return { contents = json.array({ { uri = uri, text = "t" } }) } end })
  r.add_template({ uriTemplate = "h://{id}/x", name = "h", read = function(_, uri, vars)
    return { contents = json.array({ { uri = uri, text = vars.id } }) }
  end })
end

-- An input can name the tasks that it makes: t1, t2 ...
local n_ids = 0
function crypto.uuid()
  n_ids = n_ids + 1
  return "t" .. n_ids
end

tasks.MAX_ACTIVE = 4
streams.KEEP_MS = 1 -- a timer for each ended stream would pile up
stdio.GRACE_MS = 1

local function parse(input)
  local head, body = input:match("^(.-)\n\n(.*)$")
  if not head then head, body = input, "" end
  local first, rest = head:match("^([^\n]*)\n?(.*)$")
  local method, path = first:match("^(%u+) (/%S*)$")
  local headers = { accept = false }
  for line in rest:gmatch("[^\n]+") do
    local name, value = line:match("^([%w-]+): ?(.*)$")
    if name then headers[name:lower()] = value end
  end
  return { method = method or "POST", path = path or "/mcp", headers = headers, body = body }
end

local function check_json(what, body)
  local value, err = json.decode(body)
  if value == nil then error(what .. " is no JSON: " .. tostring(err) .. ": " .. body) end
  if not utf8.len(body) then error(what .. " is no UTF-8") end
end

local function check_answer(req)
  if not req.status then error("a request without answer") end
  if req.status >= 500 and req.status ~= 503 then error("status " .. req.status .. ": " .. req.answer) end
  if req.is_stream then
    req:events()
  elseif req.answer ~= "" then
    check_json("an answer", req.answer)
  end
end

-- Lets what is ready run; a stream that stays open is hung up, and what a session still runs ends with it.
local function settle(req, end_session)
  for _ = 1, 6 do
    if req.done then break end
    loop.sleep_ms(0)
  end
  local waits = not req.done
  if waits then req:hang_up() end
  end_session()
  local ok, err = req.task:await(END_MS)
  if err and err.kind == "Timeout" then error("a request outlives its client") end
  if not ok and err and err.kind ~= "Cancelled" then error(tostring(err)) end
  if not waits or req.status then check_answer(req) end
end

local function run_http(endpoint, input, version)
  local opts = parse(input)
  local id = version and fake.initialize(endpoint, version, { elicitation = {}, roots = {}, sampling = {} })
  if id then
    opts.headers["mcp-session-id"] = opts.headers["mcp-session-id"] or id
    opts.headers["mcp-protocol-version"] = opts.headers["mcp-protocol-version"] or version
  end
  local req = fake.start(endpoint, opts)
  settle(req, function()
    if id then fake.send(endpoint, { method = "DELETE", headers = { ["mcp-session-id"] = id } }) end
  end)
end

local function run_stdio(S, input)
  local link = stdio.new_link(S, { name = "stdio", is_root = true, scopes = {} }, function(line)
    if line:find("\n", 1, true) then error("a message of two lines") end
    check_json("a line", line)
    return true
  end)
  local running = {}
  for line in input:gmatch("[^\n]+") do running[#running + 1] = loop.spawn(function() link:line(line) end) end
  for _ = 1, 5 do loop.sleep_ms(0) end
  link:finish()
  for _, task in ipairs(running) do
    local _, err = task:await(END_MS)
    if err and err.kind == "Timeout" then error("a line outlives the end of input") end
  end
end

return function(input)
  cover()
  n_ids = 0
  local r = registry.new()
  add_tools(r)
  add_others(r)
  local S = server.new({ registry = r })
  local endpoint = http.endpoint(S, { auth = fake.ALLOW_ALL })
  local version, rest = input:match("^SESSION (%S+)\n(.*)$")
  if input:sub(1, 6) == "STDIO\n" then
    run_stdio(S, input:sub(7))
  else
    run_http(endpoint, rest or input, version and (#version < 20) and version or nil)
  end
  endpoint:close()
  S:close()
end
