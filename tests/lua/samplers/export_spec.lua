-- SPDX-License-Identifier: MIT
-- export_profile, the resources of call trees, and `lunette profile`, over recordings of programs with known hot methods.
local crypto = require("lunette.crypto")
local export_profile = require("tools.export_profile")
local fs = require("lunette.fs")
local handles = require("lunette.handles")
local json = require("lunette.json")
local kit = require("support.framework_kit")
local loop = require("lunette.loop")
local pprof_of = require("support.pprof")
local recordings = require("lunette.recordings")
local resources = require("lunette.resources")
local sampled = require("support.sampled")

local MAX <const> = 64 * 1024 * 1024

local function call(arguments, options)
  local envelope = kit.call(export_profile, arguments, sampled.ctx(options))
  if envelope.data then assert(kit.conforms(envelope, export_profile)) end
  return envelope
end

-- The written file's content; it is taken away.
local function content_of(envelope)
  local path = envelope.data.path
  local text = assert(fs.read(path, MAX))
  local stat = assert(fs.stat(path))
  assert.equal(tonumber("600", 8), stat.mode & tonumber("777", 8))
  assert(fs.remove(path))
  return text
end

-- "root;…;leaf" -> count
local function stacks_of(folded)
  local stacks, n = {}, 0
  for stack, count in folded:gmatch("([^\n]*) (%d+)\n") do
    stacks[stack] = math.tointeger(count)
    n = n + stacks[stack]
  end
  return stacks, n
end

-- The same out of the open and close events of a speedscope file.
local function stacks_of_speedscope(text)
  local file = assert(json.decode(text))
  local profile, names, open, last, stacks = file.profiles[1], {}, {}, 0, {}
  for i, frame in ipairs(file.shared.frames) do names[i - 1] = frame.name end
  for _, event in ipairs(profile.events) do
    if event.at > last then
      local stack = table.concat(open, ";")
      stacks[stack] = (stacks[stack] or 0) + event.at - last
    end
    last = event.at
    if event.type == "O" then
      open[#open + 1] = names[event.frame]
    else
      assert.equal(names[event.frame], table.remove(open))
    end
  end
  assert.equal(0, #open)
  assert.equal(profile.endValue, last)
  return stacks, profile
end

describe("export_profile #unit", function()
  after_each(handles.clear)

  it("writes every sample once, in whatever format", function()
    local data, envelope = sampled.capture("cpu", "cpu")
    local folded = call { handle = envelope.handle, format = "folded" }
    local text = content_of(folded)
    assert.equal(#text, folded.data.bytes)
    assert.equal(crypto.hex(crypto.sha256(text)), folded.data.sha256)
    assert.equal("samples", folded.data.counted)
    assert.equal("profile://" .. envelope.handle .. "/folded", folded.data.resourceUri)
    local stacks, n = stacks_of(text)
    assert.equal(data.totalSamples, n)
    local hot = 0
    for stack, count in pairs(stacks) do
      hot = hot + (stack:find("lunette-target!Lunette.Target.Hot.TightLoop(int32)", 1, true) and count or 0)
    end
    assert.is_true(hot > 100, hot)
    local same = stacks_of_speedscope(content_of(call { handle = envelope.handle, format = "speedscope" }))
    assert.same(stacks, same)
    local pprof = content_of(call { handle = envelope.handle, format = "pprof" })
    assert.equal("\x1f\x8b", pprof:sub(1, 2))
  end)

  local LOOP <const> = "lunette-target!Lunette.Target.Hot.TightLoop(int32)"

  -- A capture of which the source of one method is known, as sources.add leaves it.
  local function sourced()
    local data, envelope, artifact = sampled.capture("cpu", "cpu")
    local frame = artifact.profile:match("Hot.TightLoop")[1].frame
    artifact.sources = { [frame] = { file = "/src/Hot.cs", line = 120, start_line = 119, end_line = 120 } }
    return content_of(call { handle = envelope.handle, format = "pprof" }), data
  end

  it("tells pprof files and lines where they are known, and nowhere else", function()
    local content, data = sourced()
    local functions, samples = pprof_of.read(content)
    assert.equal(data.totalSamples, samples)
    local count = functions[LOOP].count
    assert.is_true(count > 100, count)
    assert.same({ file = "/src/Hot.cs", line = 120, start_line = 119, count = count }, functions[LOOP])
    for name, at in pairs(functions) do
      if name ~= LOOP then assert.same({ count = at.count }, at, name) end
    end
  end)

  it("is read by pprof itself", function()
    local content, data = sourced()
    local raw, why = pprof_of.tool(content, "-raw")
    if not raw then return pending(why) end
    assert.matches(LOOP .. " /src/Hot.cs:120", raw, 1, true)
    local top = assert(pprof_of.tool(content, "-top"))
    assert.matches(("Total samples = %d "):format(data.totalSamples), top, 1, true)
    local functions = pprof_of.read(content)
    assert.matches(("\n%%s+%d%%s[^\n]*Hot%%.TightLoop%%(int32%%)\n"):format(functions[LOOP].count), top)
  end)

  it("makes a page that needs nothing else, with the tree in it", function()
    local data, envelope = sampled.capture("cpu", "cpu")
    local answer = call { handle = envelope.handle }
    assert.equal("flamegraph", answer.data.format)
    assert.equal("profile://" .. envelope.handle .. "/flame", answer.data.flameUri)
    local page = content_of(answer)
    assert.is_nil(page:find("{{data}}", 1, true))
    assert.is_nil(page:find("https?://"))
    local tree = assert(json.decode(page:match('<script type="application/json" id="data">(.-)</script>')))
    assert.same({ data.totalSamples, data.totalSamples, 0 }, { tree.total, tree.v[1], tree.left_out })
    assert.equal(#tree.f, #tree.v)
    assert.equal(#tree.f, #tree.d)
    assert.is_nil(tree.before)
  end)

  it("counts bytes of allocations, samples when asked", function()
    local data, envelope = sampled.capture("allocation", "sites")
    local answer = call { handle = envelope.handle, format = "folded" }
    assert.equal("bytes", answer.data.counted)
    local _, bytes = stacks_of(content_of(answer))
    assert.equal(data.totalBytes, bytes)
    local _, ticks = stacks_of(content_of(call { handle = envelope.handle, format = "folded", countSamples = true }))
    assert.equal(data.totalEvents, ticks)
  end)

  it("compares with an earlier capture of the same kind only", function()
    local _, before = sampled.capture("cpu", "stand")
    local _, after = sampled.capture("cpu", "cpu")
    local _, other = sampled.capture("allocation", "sites")
    local page = content_of(call { handle = after.handle, baselineHandle = before.handle })
    local tree = assert(json.decode(page:match('<script type="application/json" id="data">(.-)</script>')))
    assert.same({ handles.get(after.handle).artifact.info.samples, handles.get(before.handle).artifact.info.samples },
      { tree.total, tree.before })
    assert.equal("InvalidArgument", call({ handle = after.handle, baselineHandle = other.handle }).error.kind)
    local folded = call { handle = after.handle, baselineHandle = before.handle, format = "folded" }
    assert.same({ "InvalidArgument", "baselineHandle" }, { folded.error.kind, folded.error.detail })
  end)

  it("refuses what it cannot export, and says what can be", function()
    assert.equal("HandleNotFound", call({ handle = "NOSUCH" }).error.kind)
    local id = sampled.put("gc-events", { process_id = 1, started_unix_ms = 0, duration_ms = 1, notes = {} })
    local envelope = call { handle = id }
    assert.equal("UnsupportedHandleKind", envelope.error.kind)
    assert.equal("collect_sample", envelope.hints[1].nextTool)
    assert.equal("InvalidArgument", call({ handle = id, format = "svg" }).error.kind)
  end)

  it("asks for the scope of the handle", function()
    local _, envelope = sampled.capture("cpu", "cpu")
    local denied = call({ handle = envelope.handle }, { scopes = { "eventpipe" } })
    assert.is_nil(denied.data)
    assert.is_string(denied.error.kind)
  end)

  it("tells when the artifact root cannot be written to", function()
    local _, envelope = sampled.capture("cpu", "cpu")
    local root = recordings.root
    recordings.root = function() return "/proc/nonexistent" end
    local answer = call { handle = envelope.handle, format = "folded" }
    recordings.root = root
    assert.equal("Internal", answer.error.kind)
    assert.matches("MCP_ARTIFACT_ROOT", answer.error.message, 1, true)
  end)
end)

describe("resources of call trees #unit", function()
  local registry

  before_each(function()
    registry = require("lunette.registry").new()
    resources.register(registry, require("lunette.sys").home)
  end)
  after_each(handles.clear)

  local function read(uri, options)
    local def, vars = registry.resource(uri), {}
    if not def then def, vars = registry.match_template(uri) end
    return def.read(kit.ctx(options), uri, vars)
  end

  it("read the same content", function()
    local data, envelope = sampled.capture("cpu", "cpu")
    local folded = assert(read("profile://" .. envelope.handle .. "/folded")).contents[1]
    assert.equal("text/plain", folded.mimeType)
    assert.equal(data.totalSamples, select(2, stacks_of(folded.text)))
    local pprof = assert(read("profile://" .. envelope.handle .. "/pprof")).contents[1]
    assert.same({ "application/gzip", "\x1f\x8b" }, { pprof.mimeType, crypto.unbase64(pprof.blob):sub(1, 2) })
    local flame = assert(read("profile://" .. envelope.handle .. "/flame")).contents[1]
    assert.equal(data.totalSamples, json.decode(flame.text).total)
    local page = assert(read("ui://lunette/flamegraph")).contents[1]
    assert.equal("text/html;profile=mcp-app", page.mimeType)
    assert.matches('id="data">null</script>', page.text, 1, true)
  end)

  it("refuse another format, another kind, and who may not ask", function()
    local _, envelope = sampled.capture("cpu", "cpu")
    local got, err = read("profile://" .. envelope.handle .. "/svg")
    assert.is_nil(got)
    assert.matches("flamegraph, folded, pprof, speedscope", err.message, 1, true)
    local id = sampled.put("gc-events", { process_id = 1, started_unix_ms = 0, duration_ms = 1, notes = {} })
    got, err = read("profile://" .. id .. "/folded")
    assert.is_nil(got)
    assert.matches("no call tree", err.message, 1, true)
    got = read("profile://" .. envelope.handle .. "/folded", { scopes = { "eventpipe" } })
    assert.is_nil(got)
  end)
end)

describe("lunette profile", function()
  local function run(...)
    local done = assert(loop.exec {
      argv = { "/proc/self/exe", "profile", ... }, timeout_ms = 60000, max_output = 1024 * 1024,
      env = { HOME = "/nonexistent", XDG_CONFIG_HOME = "/nonexistent", LUNETTE_SITE = false, LUNETTE_SCRIPTS = false },
    })
    return done.code, done.stdout, done.stderr
  end

  it("prints the hottest methods and writes the file that is asked for", function()
    local out = os.tmpname()
    assert(fs.remove(out))
    local code, stdout, stderr = run(sampled.path("cpu"), "--top", "20", "-o", out .. ".folded.txt")
    assert.equal(0, code, stderr)
    assert.matches("self   total  samples  method", stdout, 1, true)
    assert.matches("%d%.%d %%.- lunette%-target!Lunette%.Target%.Hot%.", stdout)
    assert.matches("wrote ", stderr, 1, true)
    local _, n = stacks_of(assert(fs.read(out .. ".folded.txt", MAX)))
    assert.is_true(n > 5000)
    assert(fs.remove(out .. ".folded.txt"))
  end)

  it("tells types and methods of allocations by bytes", function()
    local code, stdout, stderr = run(sampled.path("sites"), "--allocations", "--top", "3")
    assert.equal(0, code, stderr)
    local types, methods = stdout:match("share      bytes  type\n(.-)\n\n   self   total      bytes  method\n(.*)$")
    local data = sampled.capture("allocation", "sites")
    local rows = {}
    for share, name in types:gmatch("([%d.]+) %% +[%d.]+ %a+  (%C+)") do rows[#rows + 1] = { tonumber(share), name } end
    assert.equal(3, #rows)
    for i, row in ipairs(rows) do
      assert.equal(data.topByBytes[i].typeName, row[2])
      assert.near(100 * data.topByBytes[i].totalBytes / data.totalBytes, row[1], 0.06)
    end
    local share, method = methods:match("([%d.]+) %%[^!]*!(%C+)")
    assert.equal(data.topBySite[1].frame.method, method)
    assert.near(100 * data.topBySite[1].totalBytes / data.totalBytes, tonumber(share), 0.06)
  end)

  it("says what should be known of a capture", function()
    local code, stdout, stderr = run(sampled.path("stand"), "--top", "0")
    assert.equal(0, code, stderr)
    assert.matches("\nNote: Unresolved: 1 of 1009 samples have a leaf without a name", stdout, 1, true)
  end)

  it("says what is wrong with a command line, or a file", function()
    local function fails(want_code, text, ...)
      local code, _, stderr = run(...)
      assert.equal(want_code, code, stderr)
      assert.matches(text, stderr, 1, true)
    end
    fails(2, "give one process id, or one recording")
    fails(2, "does not tell the format", sampled.path("cpu"), "-o", "x.svg")
    fails(2, 'Did you mean "folded"', sampled.path("cpu"), "-o", "x", "--format", "foldd")
    fails(2, "--against colours a flame graph", sampled.path("cpu"), "--against", "y.nettrace")
    fails(2, "--seconds is a whole number", "1", "--seconds", "x")
    fails(1, "no file", "/nonexistent.nettrace")
  end)
end)
