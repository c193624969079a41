-- SPDX-License-Identifier: MIT
-- Events that a runtime's buffer dropped, kind by kind: of a recording, a block of events is cut out. The sequence numbers of the rest tell
-- how many are missing, as they do when a runtime dropped them. Each kind must say so.
local fs = require("lunette.fs")
local scopes = require("lunette.scopes")

local RECORDINGS <const> = (os.getenv("LUNETTE_SOURCE_DIR") or ".") .. "/tests/data/recordings/"
local MARK <const> = "!FastSerialization.1"
local TRACE_BYTES <const> = 48 -- the object that describes the trace has no size of its own

--- The objects of a stream: the bytes before their size, whether it has one, their content.
local function objects_of(bytes)
  local at, list = bytes:find(MARK, 1, true) + #MARK, {}
  local head = bytes:sub(1, at - 1)
  while bytes:byte(at) == 5 do
    local name_bytes = string.unpack("<i4", bytes, at + 11)
    local content = at + 15 + name_bytes + 1
    local object = { name = bytes:sub(at + 15, at + 14 + name_bytes), tag = bytes:sub(at, content - 1) }
    if object.name == "Trace" then
      object.content = bytes:sub(content, content + TRACE_BYTES - 1)
      at = content + TRACE_BYTES + 1
    else
      local size = string.unpack("<i4", bytes, content)
      local first = (content + 3 + 3) // 4 * 4 + 1 -- aligned from the start of the file
      object.content, object.sized = bytes:sub(first, first + size - 1), true
      at = first + size + 1
    end
    list[#list + 1] = object
  end
  return head, list, bytes:sub(at)
end

local function count(list, name)
  local n = 0
  for _, object in ipairs(list) do n = n + (object.name == name and 1 or 0) end
  return n
end

--- The stream without the middle one of its objects of a name: what the threads wrote before it tells what they should have written.
local function without(bytes, name)
  local text, list, tail = objects_of(bytes)
  local seen, n = 0, count(list, name) // 2 + 1
  for _, object in ipairs(list) do
    seen = seen + (object.name == name and 1 or 0)
    if object.name ~= name or seen ~= n then
      text = text .. object.tag
      if object.sized then
        text = text .. string.pack("<i4", #object.content)
        text = text .. ("\0"):rep(-#text % 4)
      end
      text = text .. object.content .. "\6"
    end
  end
  return text .. tail
end

local function caller()
  local ctx = { transport = "cli", era = "modern", in_task = false, principal = scopes.principal("spec", { "root" }), state = {} }
  function ctx.can() return false end
  function ctx.progress() end
  return ctx
end

local function run(module, bytes)
  local path = os.tmpname()
  assert(fs.write_private(path, bytes))
  local payload, extras = require("collectors." .. module).run(caller(),
    { traceFilePath = path, durationSeconds = 5, depth = "Detail", maxEvents = 100 })
  os.remove(path)
  return payload or error(tostring(extras and extras.message or extras))
end

-- Of each kind a recording of several blocks; what the runtime dropped is a matter of the stream, whatever the kind looks for in it.
local KINDS <const> = {
  { "datas", "datas" }, { "startup", "waits" }, { "gc", "datas" }, { "catalog", "source" }, { "exceptions", "throw" }, { "jit", "holds" },
  { "threadpool", "pool" }, { "contention", "fights" }, { "wait_handles", "waits" }, { "allocations_sampled", "alloc" },
  { "crash_guard", "throw" },
}

describe("what a runtime's buffer dropped is said by", function()
  for _, kind in ipairs(KINDS) do
    local module, name = table.unpack(kind)
    it(module, function()
      local bytes = assert(fs.read(RECORDINGS .. name .. ".nettrace", 16 * 1024 * 1024))
      assert.equal(bytes, without(bytes, "no such block")) -- what is put together again is what was taken apart
      assert.equal(0, run(module, bytes).cost.eventsLost)
      local payload = run(module, without(bytes, "EventBlock"))
      assert.is_true(payload.cost.eventsLost > 0)
      assert.matches("EventsLost: the target dropped " .. payload.cost.eventsLost .. " event", table.concat(payload.notes, "\n"), 1, true)
    end)
  end
end)
