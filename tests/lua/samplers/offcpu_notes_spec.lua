-- SPDX-License-Identifier: MIT
-- collect_sample(kind="off_cpu") over a made-up capture of the kernel: what it says of what is missing, and its errors.
local process = require("lunette.process")

local function info(changes)
  local given = {
    elapsed_ms = 1000, micros = 0, threads = 0, switches = 1, censored = 0, censored_micros = 0, preempted = 0, preempted_micros = 0,
    delay_micros = 0, lost = 0, places_dropped = 0, stacks_dropped = 0, threads_dropped = 0, calls_dropped = 0, threads_missing = 0,
    stacks_cut = 0, stacks_lost = 0, walked = 0, kernel_names = true, unnamed = 0, wakers_of_others = true, standing = 0, before = 0,
    records = 0, syscalls_traced = false, spans = 0, unwoken = 0,
    sync = { spans = 0, censored = 0, locks = 0, micros = 0, censored_micros = 0, locks_micros = 0 },
  }
  for name, value in pairs(changes) do given[name] = value end
  return given
end

-- The notes of a window that has such an info, or nil and the error with which it did not open.
local function run(changes, fault)
  local was, without_socket, loaded = package.loaded["lunette.offcpu"], process.without_socket, package.loaded["samplers.off_cpu"]
  local result = {
    info = function() return info(changes) end, stacks = function() return {} end, threads = function() return {} end,
    close = function() end,
  }
  package.loaded["lunette.offcpu"] = {
    open = function()
      if fault then return nil, fault end
      return setmetatable({ run = function() return true end, finish = function() return result end }, { __close = function() end })
    end,
  }
  process.without_socket = function() return { pid = 42, digest = { runtime = "NativeAot" } } end
  package.loaded["samplers.off_cpu"] = nil
  local _ <close> = setmetatable({}, { __close = function()
    package.loaded["lunette.offcpu"], process.without_socket, package.loaded["samplers.off_cpu"] = was, without_socket, loaded
  end })
  local data, err = require("samplers.off_cpu").run({ progress = function() end }, { durationSeconds = 1, topN = 5, depth = "Detail" })
  if not data then return nil, err end
  return table.concat(data.notes, "\n")
end

describe("off_cpu", function()
  it("says how many rows of system calls a stack did not show, and nothing when it showed all", function()
    assert.matches("SyscallRowsDropped: a stack shows 8 system calls at most; 3 rows", run { calls_dropped = 3 })
    assert.equal("", run {})
  end)

  it("counts what was lost, cut and not watched", function()
    local notes = run { lost = 7, threads_missing = 2, stacks_cut = 4, walked = 9, target_ended = true }
    for _, text in ipairs { "RecordsLost: .* 7 records", "ThreadsMissing: 2 threads", "StacksCut: 4 of 9", "EndedEarly" } do
      assert.matches(text, notes)
    end
  end)

  it("tells the waits that an end of the window cut off, the first as well", function()
    local notes = run { before = 3, standing = 2 }
    assert.matches("OpenAtStart: 3 waits had begun before the window", notes)
    assert.matches("Standing: 2 threads", notes)
  end)

  it("counts the waits of which nobody knows who ended them, if they are not just a few", function()
    assert.equal("", run { spans = 200, unwoken = 2 })
    assert.matches("WakersUnseen: of 3 of 200 waits", run { spans = 200, unwoken = 3 })
  end)

  it("says by what system calls are named where the kernel hides its names", function()
    assert.matches("NoKernelNames: .*traced instead", run { kernel_names = false, syscalls_traced = true })
    assert.matches("NoKernelNames: .*have no names", run { kernel_names = false })
  end)

  it("without privilege is PermissionDenied, without the tracing files NotSupported, each with its cure and whom to ask", function()
    for _, kind in ipairs { "PermissionDenied", "NotSupported" } do
      local notes, err = run({}, { kind = kind, message = "the kernel says no", hint = "say please", detail = "tracefs" })
      assert.is_nil(notes)
      assert.same({ kind, "tracefs", "inspect_process" }, { err.kind, err.detail, err.hints[1].nextTool })
      assert.matches("say please", err.message)
    end
  end)
end)
