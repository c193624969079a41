-- SPDX-License-Identifier: MIT
-- walk: the heap of a live process or of a core dump, walked by a worker process: a live one stands only while its heap is copied.
local errors = require("lunette.errors")
local graph = require("lunette.graph")
local heap = require("lunette.heap")
local hints = require("lunette.hints")
local json = require("lunette.json")
local loop = require("lunette.loop")
local sensitive = require("lunette.sensitive")
local worker = require("lunette.worker")

local M = {}

M.TIMEOUT_MS = 600000
M.OBJECT_TIMEOUT_MS = 60000
local LEAST_MEMORY <const>, LEAST_COPY <const> = 256 << 20, 32 << 20 -- below that no walk gets anywhere
local FOR_WORKER <const>, FOR_COPY <const> = 0.8, 0.4 -- of the memory that is left
local UNLIMITED <const> = 1 << 60

local function number_in(path, pattern)
  local file = io.open(path, "r")
  local text = file and file:read("a") or ""
  if file then file:close() end
  return tonumber(text:match(pattern))
end

-- Bytes that the machine has left, or our container where that is less.
local function memory_left()
  local machine = (number_in("/proc/meminfo", "MemAvailable:%s+(%d+)") or 4 << 20) * 1024
  local limit, used = number_in("/sys/fs/cgroup/memory.max", "^(%d+)"), number_in("/sys/fs/cgroup/memory.current", "^(%d+)")
  if not limit or limit >= UNLIMITED or not used then return machine end
  return math.max(0, math.min(machine, limit - used))
end

local function limits(args)
  local left = memory_left()
  args.memoryMax = math.max(LEAST_MEMORY, math.floor(left * FOR_WORKER))
  args.copyMax = math.max(LEAST_COPY, math.floor(left * FOR_COPY))
  return args
end

-- What views answer, by the view's name.
local function sections_of(details)
  local list = {}
  for name, rows in pairs(details.sections) do list[name] = { rows = rows, total = (details.totals or {})[name] } end
  local strings = list["duplicate-strings"]
  if strings then sensitive.hide(strings.rows, "preview") end
  return list
end

local function warnings_of(details)
  local list = {}
  for i, note in ipairs(details.notes) do list[i] = note end
  return list
end

-- The runtime's own library reads names of a process that goes on: should it fall over something that changes, it is asked once more.
local function run(ctx, args, options)
  local result, err = worker.run(ctx, "heap", limits(args), options)
  if result or err.kind ~= "Internal" or not args.pid or args.freeze == "fork" then return result, err end -- an image does not change
  local second, why = worker.run(ctx, "heap", limits(args), options)
  return second, why, err
end

-- What would take too long or too much memory is refused with the figures: other ways take neither.
local function refused(err, pid)
  if not pid or err.kind ~= "LimitExceeded" and err.kind ~= "OutOfMemory" then return err end
  return errors.not_supported(err.message, {
    hints.new("inspect_heap", "Count the objects by type, without a copy.", { source = "live", processId = pid, detail = "totals" },
      "high"),
    hints.new("inspect_heap", "Take a snapshot by the runtime's own events.", { source = "gcdump", processId = pid }, "high"),
    hints.new("collect_process_dump", "Write a dump, and open it with source=dump.", { processId = pid, dumpType = "WithHeap" }),
  })
end

--- Walks a heap. What it gives is completed by heap.artifact.
---@param ctx table
---@param what { process: TargetProcess?, path: string?, retention: boolean, statics: boolean, delegates: boolean, strings: boolean,
---  freeze: string?, totals: boolean? }
---@return table?, table? err
function M.walk(ctx, what)
  local args, options = worker.target { process = what.process, dump = what.path }
  args.freeze, args.totals = what.freeze, what.totals
  args.statics, args.delegates, args.strings = what.statics, what.delegates, what.strings
  options.timeout_ms, options.no_end = M.TIMEOUT_MS, true
  options.message = what.totals and "Counting the heap's objects" or "Walking the heap"
  local began, started_unix_ms = loop.now_ns(), loop.unix_ms()
  local result <close>, err, again = run(ctx, args, options)
  if not result then return nil, refused(err, args.pid) end
  local text
  text, err = heap.details(result)
  if not text then return nil, err end
  local details
  details, err = json.decode(text, true)
  if not details then return nil, err end
  local made
  made, err = graph.open(heap.fd(result))
  if not made then return nil, err end
  local warnings = warnings_of(details)
  if again then warnings[#warnings + 1] = "Again: the first walk failed (" .. tostring(again.message) .. ")." end
  return {
    graph = made, totals = what.totals or nil, process_id = what.process and what.process.pid or details.pid,
    started_unix_ms = started_unix_ms, duration_ms = (loop.now_ns() - began) / 1e6,
    suspend_ms = details.stop and details.stop.ms, stop = details.stop,
    runtime = details.runtime, sizes = details.sizes, sections = sections_of(details), warnings = warnings,
    real_path = what.path,
  }
end

--- One object, read again where the heap came from.
---@param ctx table
---@param artifact HeapArtifact
---@param entry Handle
---@param address integer
---@return table?, table? err
function M.object(ctx, artifact, entry, address)
  local source = artifact.real_path and { dump = artifact.real_path }
    or { process = { pid = entry.process_id, start_time = entry.process_start } }
  local args, options = worker.target(source)
  args.address = ("0x%x"):format(address)
  options.timeout_ms = M.OBJECT_TIMEOUT_MS
  return worker.json(ctx, "heap-object", args, options)
end

return M
