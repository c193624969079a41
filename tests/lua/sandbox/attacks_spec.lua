-- SPDX-License-Identifier: MIT
--- Scripts that misbehave cost their own call and nothing else: while each of these runs, another task goes on, and afterwards all works
--- and nothing is left. Time is CPU of this process, so that a busy machine does not matter; and whatever the collector has to do with a
--- server's heap, it does in small steps: so the same holds beside a heap that is large.
local loop = require("lunette.loop")
local attacks = require("support.sandbox_attacks")

local LATENCY_MS <const> = 100   -- what another task may have to wait at most
local LARGE_HEAP <const> = 800000 -- tables, 71 MB
-- What a call may leave for a while: the table of all short strings, and the stack of the coroutine that it ran in, have grown.
local LEFT_BYTES <const> = 2 << 20

--- Did the call end as it is to?
local function check_end(case, result)
  local kind, says, err = case[2], case[4], result[2]
  if kind == true then
    assert.is_true(result[1], tostring(err))
    return
  end
  assert.is_nil(result[1])
  -- Which of its limits a call meets first is the machine's matter.
  if kind == attacks.EITHER or kind == attacks.BUDGET then
    assert.is_true(err.kind == attacks.BUDGET or err.kind == attacks.MEMORY, tostring(err))
    if kind == attacks.BUDGET and err.kind == attacks.MEMORY then return end
  else
    assert.equal(kind, err.kind, tostring(err))
  end
  if says then assert.matches(says, err.message, 1, true) end
end

local TRIES <const> = 4

-- Again where it was too long: what a neighbour does to the caches and to free pages of a shared machine is CPU of this process too.
local function check_wait(case, worst)
  local tries = 1
  while worst > LATENCY_MS and tries < TRIES do worst, tries = select(2, attacks.run(case)), tries + 1 end
  assert.is_true(worst <= LATENCY_MS, ("another task waited for %.0f ms of CPU"):format(worst))
end

describe("a script in the sandbox #unit", function()
  for _, case in ipairs(attacks.ATTACKS) do
    it("costs its own call: " .. case[1], function()
      local tasks = loop.stats().tasks
      local result, worst, box = attacks.run(case)
      check_end(case, result)
      check_wait(case, worst)
      assert.equal(tasks, loop.stats().tasks)
      -- The state works, for this box too, and what the call held is gone.
      assert.same({ true, "aXc 7" }, { box:call(assert(box:load("return ('abc'):gsub('b', 'X') .. ' ' .. 3 + 4", "@good.lua"))) })
      for _ = 1, 10 do -- the table of all short strings shrinks by half each time
        collectgarbage()
        if box:memory() < LEFT_BYTES then break end
      end
      assert.is_true(box:memory() < LEFT_BYTES, ("%d bytes are left"):format(box:memory()))
    end)
  end

  describe("beside a large heap", function()
    local heap

    setup(function()
      heap = {}
      for i = 1, LARGE_HEAP do heap[i] = { i } end
    end)

    teardown(function()
      heap = nil
      collectgarbage()
    end)

    for _, case in ipairs(attacks.ATTACKS) do
      -- The others have nothing to do with what there is to collect.
      if case[2] == attacks.MEMORY or case[2] == attacks.EITHER or case[1]:find("nobody keeps") or case[1]:find("again and again") then
        it("costs its own call: " .. case[1], function()
          local result, worst = attacks.run(case)
          assert.equal(LARGE_HEAP, #heap)
          check_end(case, result)
          check_wait(case, worst)
        end)
      end
    end
  end)
end)
