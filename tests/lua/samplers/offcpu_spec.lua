-- SPDX-License-Identifier: MIT
-- Off-CPU views over a made-up capture: order, ranks, room, what is absent.
local contention = require("samplers.native_contention")
local json = require("lunette.json")
local sampled = require("support.sampled")
local wire = require("samplers.offcpu_wire")

local NO_SYNC <const> = { spans = 0, censored = 0, locks = 0, micros = 0, censored_micros = 0, locks_micros = 0 }

local function frames(n)
  local list = {}
  for i = 1, n do list[i] = { module = "libx.so", method = ("Namespace::Function%d(%s)"):format(i, ("a"):rep(60)), kind = "native" } end
  return list
end

local function stack(i, depth)
  local list = frames(depth or 3)
  return {
    leaf = list[#list], frames = list, micros = 1000 * (100 - i), count = i, censored = 0, censored_micros = 0, delay_micros = 0,
    longest_micros = 10, threads = 1, state = "S", sync = NO_SYNC, calls = i == 1 and { { name = "futex", count = 1, micros = 5 } } or {},
    wakers = {}, wakers_dropped = 0,
  }
end

local function artifact(n, depth)
  local rows = {}
  for i = 1, n do rows[i] = stack(i, depth) end
  local result = {
    stacks = function(_, first, count) return table.move(rows, first, math.min(#rows, first + count - 1), 1, {}) end,
    threads = function()
      return {
        { tid = 7, name = "worker", micros = 9, switches = 3, leaf = rows[1].leaf, state = "S", stack_rank = 1 },
        { tid = 8, name = "", micros = 0, switches = 0 },
      }
    end,
  }
  return {
    result = result, info = { micros = 5000, lost = 0, stacks = n, threads = 2 }, modules = {}, process_id = 42,
    started_unix_ms = 0, duration_ms = 1000, notes = {}, evidence = contention.of_waits(NO_SYNC, 0),
  }
end

local function ask(a, view, more)
  local data, envelope = sampled.ask(sampled.put("off-cpu-snapshot", a), view, more)
  return { data = data, error = envelope.error }
end

describe("off-cpu-snapshot", function()
  it("topStacks are ordered by time, with a label only where there is a call", function()
    local data = ask(artifact(4), "topStacks").data
    assert.same({ "topStacks", 42, 5000, 4 }, { data.view, data.processId, data.totalOffCpuMicros, #data.stacks })
    for i = 2, 4 do assert.is_true(data.stacks[i - 1].offCpuMicros >= data.stacks[i].offCpuMicros) end
    assert.equal("futex", data.stacks[1].syscallBreakdown[1].name)
    assert.is_nil(data.stacks[2].syscallBreakdown)
    assert.equal(2, #ask(artifact(4), "topStacks", { topN = 2 }).data.stacks)
  end)

  it("byThread rows have leaf and dominant state", function()
    local rows = ask(artifact(2), "byThread").data.threads
    assert.same({ 7, "worker", "S", 3, 1 },
      { rows[1].tid, rows[1].threadName, rows[1].dominantState, rows[1].switchCount, rows[1].stackRank })
    assert.matches("Function3", rows[1].topBlockingLeaf, 1, true)
    assert.same({ "(none)", nil }, { rows[2].topBlockingLeaf, rows[2].dominantState })
  end)

  it("stack counts from 1, and says how many there are", function()
    assert.equal(100 * 1000 - 2000, ask(artifact(3), "stack", { stackRank = 2 }).data.stack.offCpuMicros)
    assert.same({ "InvalidArgument", "stackRank" },
      { ask(artifact(3), "stack").error.kind, ask(artifact(3), "stack", { stackRank = 0 }).error.detail })
    local err = ask(artifact(3), "stack", { stackRank = 4 }).error
    assert.equal("OutOfRange", err.kind)
    assert.matches("3 stacks", err.message)
  end)

  it("fits deep stacks into an answer, the frames nearest to the leaf first", function()
    local list = wire.stacks(artifact(25, 200), 25)
    assert.is_true(#json.encode(list) <= wire.ROOM)
    assert.equal(25, #list)
    local last = list[1].stack[#list[1].stack]
    assert.matches("Function200", last.method, 1, true)
    assert.equal(200 - #list[1].stack, list[1].framesLeftOut)
  end)
end)
