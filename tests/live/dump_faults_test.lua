-- SPDX-License-Identifier: MIT
-- Dumps and stops that go wrong: files that are no dumps or lie elsewhere, a server that is killed while a process stands or is written,
-- two callers who remove one file, a process that somebody else traces. The process always runs on, and nothing is left behind.
local h = require("harness")
local memory = require("lunette.memory")
local proc = require("lunette.proc")

local ALL <const> = "all-scopes-token"
local METHOD <const> = { moduleVersionId = "00000000-0000-0000-0000-000000000001", metadataToken = "0x06000001" }

local function run(...) return assert(h.loop.exec { argv = { ... }, timeout_ms = 60000, max_output = 1024 * 1024 }) end

local function target_of(skip, mode, number)
  local built, why = h.build_target("net10.0")
  if not built then skip(why) end
  return h.target("net10.0", mode or "idle", number)
end

local function server_with(root, more)
  local environment = {
    MCP_ARTIFACT_ROOT = root, MCP_BEARER_TOKEN = "", MCP_LOG_LEVEL = nil,
    Auth__BearerTokens__0__Name = "plain", Auth__BearerTokens__0__Token = "live-test-token", Auth__BearerTokens__0__Scopes__0 = "root",
    Auth__BearerTokens__1__Name = "all", Auth__BearerTokens__1__Token = ALL, Auth__BearerTokens__1__Scopes__0 = "root",
    Auth__BearerTokens__1__Scopes__1 = "module-bytes-read", Auth__BearerTokens__1__Scopes__2 = "delete-artifact",
  }
  for k, v in pairs(more or {}) do environment[k] = v end
  return h.server { environment = environment }
end

local function acknowledged(server, name, arguments, options)
  local envelope = h.ok(server:call(name, arguments, options))
  local wanted = envelope.safetyApproval and envelope.safetyApproval.requiredAcknowledgement
  if not wanted then return envelope end
  local again = { _dotnetDiagnostics = { acknowledgement = wanted } }
  for k, v in pairs(arguments) do again[k] = v end
  return h.ok(server:call(name, again, options))
end

local function joined(a, b)
  local all = {}
  for _, map in ipairs { a, b } do
    for k, v in pairs(map) do all[k] = v end
  end
  return all
end

-- Whether a thread of the process stands, or somebody traces it.
local function stands(pid)
  for _, tid in ipairs(h.fs.list(("/proc/%d/task"):format(pid)) or {}) do
    local status = h.fs.read(("/proc/%d/task/%s/status"):format(pid, tid), 65536) or ""
    if status:match("\nTracerPid:%s+(%d+)") ~= "0" or status:match("\nState:%s+[tT]") then return true end
  end
  return false
end

local function runs_on(target)
  h.wait_for("the target's release", h.START_MS, function() return not stands(target.pid) end)
  h.ok(h.ok(proc.stat(target.pid), "it lives").state ~= "T", "it runs")
end

--- Each name is refused as what it is, and as nothing of the process or the runtime; none hangs.
local function files_that_are_no_dumps()
  local root = h.scratch() .. "/artifacts"
  assert(h.fs.mkdirs(root .. "/folder"))
  run("sh", "-c", ([[cd '%s' && : > empty && echo text > text && truncate -s 900G huge && mkfifo -m 600 fifo && ln -s /etc/passwd link &&
    ln -s loop loop && head -c 64 '%s' > head && cp '%s' program]]):format(root, h.lunette, h.lunette))
  local server <close> = server_with(root)
  local kinds = {
    ["/etc/passwd"] = "InvalidArtifactPath", ["../x"] = "InvalidArtifactPath", ["a/../../x"] = "InvalidArtifactPath",
    ["link"] = "InvalidArtifactPath", ["loop"] = "InvalidArtifactPath", ["/proc/self/mem"] = "InvalidArtifactPath",
    ["/dev/zero"] = "InvalidArtifactPath",
  }
  local names = { "empty", "text", "huge", "fifo", "folder", "head", "program", "none", "x\ny", ("x"):rep(5000) }
  for name in pairs(kinds) do names[#names + 1] = name end
  local tools = { collect_thread_snapshot = {}, inspect_heap = { source = "dump" }, capture_method_bytes = METHOD }
  for _, name in ipairs(names) do
    for tool, more in pairs(tools) do
      local envelope = acknowledged(server, tool, joined(more, { dumpFilePath = name }))
      local err = h.ok(envelope.error, ("%s of %s fails"):format(tool, name:sub(1, 30)))
      local wanted = kinds[name]
      h.ok(wanted and err.kind == wanted or not wanted and (err.kind == "InvalidArgument" or err.kind == "ArtifactNotFound"
        or err.kind == "InvalidArtifactPath" or name == "program" and err.kind == "NotSupported"),
        ("%s of %s: %s: %s"):format(tool, name:sub(1, 30), err.kind, err.message))
    end
  end
  h.ok(server:call("inspect_process", {}), "it serves")
end

local function without_a_server(skip)
  local target <close> = target_of(skip)
  for _, text in ipairs { "stopping", "loading", "walking" } do
    local server = server_with(h.scratch() .. "/artifacts")
    local call = h.loop.spawn(function() pcall(acknowledged, server, "collect_thread_snapshot", { processId = target.pid }) return true end)
    -- as soon as it stands, or has stood
    h.wait_for("the stop", h.START_MS, function() return stands(target.pid) or call:done() end)
    if text ~= "stopping" then h.loop.sleep_ms(text == "loading" and 5 or 15) end
    server:stop("KILL")
    call:cancel("the server is dead")
    runs_on(target)
  end
  h.ok(target:command("quit", "^BYE"), "it runs on")
end

--- The process is written to the end and runs on. (What is left of the folder goes with a later dump: test_artifacts.c.)
local function a_killed_server(skip)
  local target <close> = target_of(skip)
  local root = h.scratch() .. "/artifacts"
  local server = server_with(root)
  local call = h.loop.spawn(function()
    return server:call("collect_process_dump", { processId = target.pid, dumpType = "Full", confirm = true })
  end)
  local function stage()
    for _, name in ipairs(h.fs.list(root) or {}) do
      if name:find("^%.lunette%-%x+$") then return name end
    end
  end
  h.wait_for("the folder", h.START_MS, function() return stage() or call:done() end)
  server:stop("KILL")
  call:cancel("the server is dead")
  runs_on(target)
  h.no_session(target)
  local other <close> = server_with(root)
  h.eq("dump_written", h.ok(other:call("collect_process_dump", { processId = target.pid, confirm = true })).data.kind, "the next one")
  runs_on(target)
end

local function removed_once(skip)
  local target <close> = target_of(skip)
  local server <close> = server_with(h.scratch() .. "/artifacts")
  local dump = h.ok(server:call("collect_process_dump", { processId = target.pid, confirm = true })).data.dump
  local name = dump.filePath:match("[^/]+$")
  local remove = function() return acknowledged(server, "get_bytes", { kind = "delete", artifactPath = name }, { token = ALL }) end
  local removed, gone = 0, 0
  for _, envelope in ipairs(h.together { remove, remove, remove }) do
    h.ok(envelope.data or envelope.error, "an answer")
    removed = removed + (envelope.data and 1 or 0)
    gone = gone + (envelope.error and envelope.error.kind == "ArtifactNotFound" and 1 or 0)
  end
  h.eq({ 1, 2 }, { removed, gone }, "one removes it, and the others are told that it is gone")
end

--- createdump attaches too: a process with another tracer gives no dump, and the answer names him.
local function traced(skip)
  local target <close> = target_of(skip)
  local root = h.scratch() .. "/artifacts"
  local server <close> = server_with(root)
  local holder <close> = assert(memory.start { job = "selftest", args = h.json.encode { how = "stop", pid = target.pid } })
  h.wait_for("the stop", h.START_MS, function() return stands(target.pid) end)
  local envelope = h.ok(server:call("collect_process_dump", { processId = target.pid, confirm = true }))
  h.ok(envelope.error and (envelope.error.kind == "PermissionDenied" or envelope.error.kind == "EndpointUnavailable"),
    "it stands: " .. h.json.encode(envelope.error or envelope.data))
  h.ok(envelope.error.message:find(tostring(holder.pid), 1, true) or envelope.error.kind == "EndpointUnavailable", envelope.error.message)
  holder:close()
  runs_on(target)
  h.eq("dump_written", h.ok(server:call("collect_process_dump", { processId = target.pid, confirm = true })).data.kind, "then it works")
end

return {
  { "files that are no dumps, or lie elsewhere", files_that_are_no_dumps },
  { "a server that is killed while a process stands", without_a_server },
  { "a server that is killed while a dump is written", a_killed_server },
  { "a file is removed once", removed_once },
  { "a process that somebody traces gives no dump", traced },
}
