-- SPDX-License-Identifier: MIT
-- A folder of site scripts for a spec, and a server that serves it.
local json = require("lunette.json")
local loop = require("lunette.loop")

local M = {}

local TOKEN <const> = "0123456789abcdef-site-spec"
local PATIENCE_MS <const> = 30000
local CALL_MS <const> = 110000 -- a script that loops takes a second of CPU, and the machine may be busy

--- A new folder, gone when the test has ended.
function M.folder()
  local dir = os.tmpname()
  os.remove(dir)
  assert(os.execute("mkdir -p '" .. dir .. "'"))
  loop.on_cleanup(function() os.execute("rm -rf '" .. dir .. "'") end)
  return dir
end

--- Writes a file below a folder, over what is there.
function M.write(dir, path, body)
  local file = io.open(dir .. "/" .. path, "w")
  if not file then
    os.execute(("mkdir -p '%s/%s'"):format(dir, path:match("^(.*)/") or ""))
    file = assert(io.open(dir .. "/" .. path, "w"))
  end
  file:write(body)
  file:close()
end

--- Writes it beside and renames it, as most editors do.
function M.replace(dir, path, body)
  M.write(dir, path .. ".tmp", body)
  assert(os.rename(dir .. "/" .. path .. ".tmp", dir .. "/" .. path))
end

-- ---- a server ---------------------------------------------------------------------------------------------------------------------------

local Server = {}
Server.__index = Server

--- Waits until fn() gives something.
function M.eventually(what, fn)
  local last = loop.now_ms() + PATIENCE_MS
  local why
  while loop.now_ms() < last do
    local value, reason = fn()
    if value then return value end
    why = reason
    loop.sleep_ms(20)
  end
  error(("%s did not happen within %d s: %s"):format(what, PATIENCE_MS // 1000, tostring(why)), 2)
end

local function collect(child, into)
  loop.spawn(function()
    while true do
      local line = child:line()
      if not line then return end
      into[#into + 1] = line.text
    end
  end)
end

--- Starts lunette serve with a site folder and opens a session that listens.
---@param dir string
---@param env table?   more of its environment
function M.serve(dir, env)
  local self = setmetatable({ log = {}, heard = {}, n = 0, dir = dir }, Server)
  local all = {
    MCP_BEARER_TOKEN = TOKEN, HOME = "/nonexistent", XDG_CONFIG_HOME = "/nonexistent", LUNETTE_SITE = false, LUNETTE_SCRIPTS = false,
  }
  for name, value in pairs(env or {}) do all[name] = value end
  self.child = assert(loop.child {
    argv = { "/proc/self/exe", "serve", "--http", "127.0.0.1:0", "--site", dir }, stdout = "lines", stderr = "lines", dies_with_us = true,
    env = all,
  })
  loop.on_cleanup(function() self:close() end)
  collect(self.child, self.log)
  self.url = M.eventually("the server's start", function()
    for _, line in ipairs(self.log) do
      local url = line:match("listens on (http%S+)")
      if url then return url end
    end
    return nil, table.concat(self.log, "\n")
  end)
  self:open()
  return self
end

local function curl(self, more)
  local argv = {
    "curl", "--silent", "--show-error", "--no-buffer", "--max-time", tostring(CALL_MS // 1000), "-H", "Authorization: Bearer " .. TOKEN,
    "-H", "Accept: application/json, text/event-stream", "-H", "Content-Type: application/json",
  }
  if self.session then
    local own = { "-H", "Mcp-Session-Id: " .. self.session, "-H", "MCP-Protocol-Version: 2025-11-25" }
    table.move(own, 1, #own, #argv + 1, argv)
  end
  for _, word in ipairs(more) do argv[#argv + 1] = word end
  return argv
end

function Server:post(message, head)
  local more = { "-X", "POST", "-d", json.encode(message), self.url }
  if head then table.insert(more, 1, "-i") end
  local done = assert(loop.exec { argv = curl(self, more), timeout_ms = CALL_MS, max_output = 4 * 1024 * 1024 })
  assert(done.code == 0, done.stderr)
  return done.stdout
end

-- The answer in a body that is JSON or a stream of events.
local function answer_of(body)
  local found
  for line in body:gmatch("[^\r\n]+") do
    local data = line:match("^data: (.*)$") or (line:sub(1, 1) == "{" and line)
    local message = data and json.decode(data)
    if message and message.id ~= nil then found = message end
  end
  return found
end

--- A request -> its result, or nil and the error.
function Server:request(method, params)
  self.n = self.n + 1
  local message = answer_of(self:post({ jsonrpc = "2.0", id = self.n, method = method, params = params or {} }))
  assert(message, method .. ": no answer")
  return message.result, message.error
end

--- Calls a tool -> the envelope.
function Server:call(tool, arguments)
  local result, err = self:request("tools/call", { name = tool, arguments = arguments })
  if not result then return nil, err.message end
  local envelope = json.decode(result.content[1].text)
  if type(envelope) ~= "table" then return nil, result.content[1].text end
  return envelope
end

--- The names of what a list method lists, as a set.
function Server:names(what)
  local set = {}
  for _, one in ipairs(self:request(what .. "/list")[what]) do set[one.name] = one end
  return set
end

function Server:status()
  return json.decode(self:request("resources/read", { uri = "lunette://scripts" }).contents[1].text)
end

function Server:open()
  local body = self:post({ jsonrpc = "2.0", id = 0, method = "initialize", params = {
    protocolVersion = "2025-11-25", capabilities = { roots = { listChanged = false } }, clientInfo = { name = "spec", version = "1" },
  } }, true)
  self.session = assert(body:match("[Mm]cp%-[Ss]ession%-[Ii]d: ([^\r\n]+)"), body)
  self:post({ jsonrpc = "2.0", method = "notifications/initialized" })
  self.listener = assert(loop.child { argv = curl(self, { "-X", "GET", self.url }), stdout = "lines", dies_with_us = true })
  collect(self.listener, self.heard)
end

--- A page beside /mcp.
function Server:page(path)
  local url = self.url:gsub("/mcp$", "") .. path
  local argv = { "curl", "--silent", "--show-error", "-H", "Authorization: Bearer " .. TOKEN, url }
  return assert(loop.exec { argv = argv, timeout_ms = 60000 }).stdout
end

--- How often a notification came on the stream.
function Server:count(method)
  local n = 0
  for _, line in ipairs(self.heard) do
    if line:find('"' .. method .. '"', 1, true) then n = n + 1 end
  end
  return n
end

--- Whether the log says something.
function Server:said(text)
  for _, line in ipairs(self.log) do
    if line:find(text, 1, true) then return line end
  end
  return nil
end

function Server:close()
  if self.listener then self.listener:close() end
  self.child:kill("TERM")
  self.child:wait(10000)
  self.child:close()
end

return M
