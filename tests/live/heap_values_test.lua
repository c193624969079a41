-- SPDX-License-Identifier: MIT
-- Texts of a target leave by two views only, and only through both gates and the redactor: every view, the answer, the resource, the
-- picture, errors and the log are searched for what the target's strings say.
local h = require("harness")

local PLAIN <const> = "no-values-token"
local TEXTS <const> = { "the same text again", "Server=db", "hunter2", "hunter20" }
local SECRETS <const> = { "hunter2" }
local VIEWS <const> = {
  "top-types", "retention-paths", "roots-by-kind", "finalizer-queue", "fragmentation", "static-fields", "delegate-targets",
  "duplicate-strings", "gchandles", "timers", "alc", "async", "retained", "dominators", "gcroot", "objsize", "object", "diff", "growth",
}
local VALUES <const> = { "duplicate-strings", "object", "gcroot" } -- those that read what objects hold

local function build(skip)
  local done = assert(h.loop.exec { argv = { "sh", h.source .. "/tests/targets/memory/build.sh", h.targets .. "/memory", "net10.0" },
    timeout_ms = 600000, max_output = 1024 * 1024 })
  if done.code == h.SKIP then skip((done.stdout:gsub("%s+$", ""))) end
  h.eq(0, done.code, done.stdout .. done.stderr)
end

local function server_with()
  return h.server { environment = {
    MCP_ARTIFACT_ROOT = h.scratch() .. "/artifacts", MCP_BEARER_TOKEN = "",
    Auth__BearerTokens__0__Name = "all", Auth__BearerTokens__0__Token = "live-test-token", Auth__BearerTokens__0__Scopes__0 = "root",
    Auth__BearerTokens__0__Scopes__1 = "sensitive-heap-read",
    Auth__BearerTokens__1__Name = "plain", Auth__BearerTokens__1__Token = PLAIN, Auth__BearerTokens__1__Scopes__0 = "root",
  } }
end

local function call(server, tool, arguments)
  local envelope = h.ok(server:call(tool, arguments), tool)
  if envelope.safetyApproval and not envelope.data then
    arguments._dotnetDiagnostics = { acknowledgement = envelope.safetyApproval.requiredAcknowledgement }
    envelope = h.ok(server:call(tool, arguments), tool)
  end
  return envelope
end

local function holds_none(value, texts, what)
  local text = type(value) == "string" and value or h.json.encode(value)
  for _, one in ipairs(texts) do
    local at = text:find(one, 1, true)
    if at then error(("%s tells %q: %s"):format(what, one, text:sub(math.max(1, at - 200), at + 60))) end
  end
end

local function walk(server, target, more)
  local arguments = { processId = target and target.pid, includeStaticFields = true, includeDelegateTargets = true,
    includeDuplicateStrings = true, includeRetentionPaths = true, topTypes = 200 }
  for k, v in pairs(more) do arguments[k] = v end
  local envelope = call(server, "inspect_heap", arguments)
  h.eq(nil, envelope.error, "a walk")
  return envelope
end

-- The address of a string that holds a secret.
local function address_of_secret(server, handle)
  local rows = call(server, "query_snapshot", { handle = handle, view = "duplicate-strings", includeSensitiveValues = true, topN = 1000 })
    .data.duplicateStrings
  local secret = h.ok(h.find(rows, { preview = "Server=db;Password=<redacted:sensitive>" }), "the text, without its secret")
  h.ok(h.find(rows, { preview = "the same text again" }), "a text")
  return secret.exampleAddress
end

local function view(server, handle, name, more)
  local arguments = { handle = handle, view = name, topN = 1000 }
  for k, v in pairs(more) do arguments[k] = v end
  return call(server, "query_snapshot", arguments)
end

-- What views say of one object, as one token: nothing in it may hold any of the texts.
local function of_address(server, handle, before, address, texts, asked, what, views)
  for _, name in ipairs(views) do
    local baseline = (name == "diff" or name == "growth") and before or nil
    local envelope = view(server, handle, name, { address = address, baselineHandle = baseline, includeSensitiveValues = asked or nil })
    h.ok(envelope.data or envelope.error, name)
    holds_none(envelope, texts, what .. " " .. name)
  end
end

-- All that can be asked of a heap.
local function searched(server, handle, before, address, texts, asked, what)
  of_address(server, handle, before, address, texts, asked, what, VIEWS)
  for _, one in ipairs { "retention-paths", "retained" } do
    holds_none(view(server, handle, one, { typeFullName = "String" }), texts, what .. " " .. one .. " of strings")
  end
  holds_none(view(server, handle, "object", { address = "0x1234", includeSensitiveValues = asked or nil }), texts, what .. " an error")
  holds_none(h.ok(server:request("resources/read", { uri = "heap-snapshot://" .. handle })), texts, what .. " the resource")
  holds_none(call(server, "export_profile", { handle = handle, format = "heapmap" }), texts, what .. " the picture")
end

-- The holder of the strings: its array is read element by element. A text may be kept by a stack, too, so the way to it does not tell.
local function array_of(server, handle)
  local arrays = view(server, handle, "retained", { typeFullName = "System.String[]" }).data.retained.objects
  for _, array in ipairs(arrays) do
    local shown = view(server, handle, "object", { address = array.objectAddress, includeSensitiveValues = true })
    if h.json.encode(shown):find("the same text again", 1, true) then return array.objectAddress end
  end
  error("an array holds the strings")
end

local function everywhere(skip)
  build(skip)
  local server <close> = server_with()
  local target <close> = h.start({ h.targets .. "/memory/net10.0/lunette-memory", "odds", "10" }, "memory odds")
  local all = server.token
  local before, live = walk(server, target, { source = "live" }), walk(server, target, { source = "live" })
  holds_none(live, TEXTS, "the answer")
  local secret = address_of_secret(server, live.handle)
  local list = array_of(server, live.handle)
  searched(server, live.handle, before.handle, secret, SECRETS, true, "with all rights,")
  of_address(server, live.handle, nil, secret, TEXTS, false, "without the flag,", VALUES)
  of_address(server, live.handle, nil, list, TEXTS, false, "without the flag,", VALUES)
  of_address(server, live.handle, nil, list, SECRETS, true, "with all rights,", VALUES)
  server.token = PLAIN
  searched(server, live.handle, before.handle, secret, TEXTS, true, "without the scope,")
  of_address(server, live.handle, nil, list, TEXTS, true, "without the scope,", VALUES)
  server.token = all
  local elements = view(server, live.handle, "object", { address = list, includeSensitiveValues = true }).data.objectDetails.arraySample
  h.eq("the same text again", elements[1].value, "whoever may see it, sees an element")

  local file = call(server, "collect_process_dump", { processId = target.pid, dumpType = "WithHeap", confirm = true }).data.dump.filePath
  target:kill()
  local dead = walk(server, nil, { source = "dump", dumpFilePath = file })
  of_address(server, dead.handle, nil, address_of_secret(server, dead.handle), SECRETS, true, "of a dump,", VALUES)
  holds_none(server:log(), TEXTS, "the log")
end

return { { "texts leave through both gates only, secrets never", everywhere } }
