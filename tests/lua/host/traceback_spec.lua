-- SPDX-License-Identifier: MIT
-- debug.traceback as scripts get it: the manual's, but of the innermost levels only, so that a deep recursion stays cheap to tell.
describe("debug.traceback #unit", function()
  local function lines(text) return select(2, text:gsub("\n", "")) + 1 end

  it("starts with the message, then names script and line", function()
    local text = debug.traceback("what", 1)
    assert.matches("^what\nstack traceback:\n\t[^\n]*traceback_spec%.lua:7: in ", text)
    assert.matches("^stack traceback:\n\t[^\n]*traceback_spec%.lua:9: in ", debug.traceback())
    assert.matches("\n\t%[C%]: in %?$", debug.traceback(nil, 1))
  end)

  it("hands back a message that is no text", function()
    local raised = { kind = "X" }
    assert.equal(raised, debug.traceback(raised))
  end)

  it("tells of another coroutine", function()
    local co = coroutine.create(function() coroutine.yield() end)
    coroutine.resume(co)
    assert.matches("traceback_spec%.lua:19: in ", debug.traceback(co))
    assert.matches("^here\nstack traceback:", debug.traceback(co, "here"))
  end)

  it("keeps to the innermost levels of a deep recursion", function()
    local function deep(n)
      if n == 0 then return debug.traceback("end"), nil end
      local text = deep(n - 1)
      return text, n
    end
    local text = deep(50000)
    assert.equal(27, lines(text)) -- the message, the heading, 24 levels and what stands for the rest
    assert.matches("\n\t%.%.%.$", text)
  end)
end)
