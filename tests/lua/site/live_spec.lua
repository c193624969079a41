-- SPDX-License-Identifier: MIT
-- A server with a site folder: files are added, changed, broken and repaired while a client is connected and listens.
local kit = require("support.site_kit")
local loop = require("lunette.loop")

local function tool(answer, more)
  return ([[
    return tool {
      name = "answer", description = "Answers.", risk = "low", %s
      run = function(ctx, args) return { answer = %q } end,
    }
  ]]):format(more or "", answer)
end

local function answer_is(server, wanted)
  return function()
    local e, why = server:call("answer", {})
    return e and e.data and e.data.answer == wanted, why or e and e.data and e.data.answer
  end
end

describe("a server with a site folder #unit", function()
  it("follows added, changed, broken, repaired and removed files, and tells who listens", function()
    local dir = kit.folder()
    kit.write(dir, "tools/answer.lua", tool("one"))
    local server = kit.serve(dir)
    assert.is_true(answer_is(server, "one")())
    -- changed: the tool's text differs, so its definition does, too
    kit.write(dir, "tools/answer.lua", tool("two"))
    kit.eventually("the change", answer_is(server, "two"))
    kit.eventually("the notification", function() return server:count("notifications/tools/list_changed") >= 1 end)
    server:request("resources/subscribe", { uri = "lunette://scripts" })
    -- broken: the last good version serves, and everybody who asks is told where and why
    kit.write(dir, "tools/answer.lua", tool("three", "descripton = 1,"))
    kit.eventually("the report", function() return server:said("tools/answer.lua:2: there is no field") end)
    assert.is_true(answer_is(server, "two")())
    local status = server:status()
    assert.equal(1, status.broken)
    assert.equal(dir .. "/tools/answer.lua", status.scripts[1].problems[1].file)
    assert.equal(2, status.scripts[1].problems[1].line)
    assert.matches('Did you mean "description"', status.scripts[1].problems[1].message, 1, true)
    assert.equal("the last good version serves on", status.scripts[1].effect)
    local metrics = server:page("/metrics")
    assert.matches("\nlunette_scripts_broken 1\n", metrics, 1, true)
    assert.matches('\nlunette_script_reloads{result="broken"} ', metrics, 1, true)
    kit.eventually("the word to subscribers", function() return server:count("notifications/resources/updated") >= 1 end)
    -- repaired, by renaming over it
    kit.replace(dir, "tools/answer.lua", tool("four"))
    kit.eventually("the repair", answer_is(server, "four"))
    assert.equal(0, server:status().broken)
    kit.eventually("the log of it", function() return server:said("is in use again") end)
    -- a new room, and a prompt in it
    assert.is_nil(server:names("prompts").greet)
    kit.write(dir, "playbooks/greet.md", "---\ntitle: Greet\ndescription: Says hello.\n---\nCall answer().\n")
    kit.eventually("the prompt", function() return server:names("prompts").greet end)
    kit.eventually("its notification", function() return server:count("notifications/prompts/list_changed") >= 1 end)
    -- gone
    os.remove(dir .. "/tools/answer.lua")
    kit.eventually("the end of the tool", function() return not server:names("tools").answer end)
    assert.is_table(server:names("tools").query_snapshot)
  end)

  it("sees a file that is written in pieces, a link that is swapped, and the last of many changes", function()
    local dir = kit.folder()
    kit.write(dir, "first/tools/answer.lua", tool("first"))
    kit.write(dir, "second/tools/answer.lua", tool("second"))
    os.execute(("ln -s first '%s/..data' && ln -s ..data/tools '%s/tools'"):format(dir, dir))
    local server = kit.serve(dir)
    assert.is_true(answer_is(server, "first")())
    -- as a ConfigMap is mounted anew: a second link is renamed over the first
    os.execute(("ln -s second '%s/..new' && mv -T '%s/..new' '%s/..data'"):format(dir, dir, dir))
    kit.eventually("the swap", answer_is(server, "second"))
    local body = tool("in pieces")
    local file = assert(io.open(dir .. "/second/tools/answer.lua", "w"))
    for i = 1, #body, 60 do
      file:write(body:sub(i, i + 59))
      file:flush()
      loop.sleep_ms(5)
    end
    file:close()
    kit.eventually("the whole file", answer_is(server, "in pieces"))
    for i = 1, 500 do kit.write(dir, "second/tools/answer.lua", tool("number " .. i)) end
    kit.eventually("the last change", answer_is(server, "number 500"))
  end)

  it("takes up a folder that comes later; a call under way ends on the version that it began with", function()
    local dir = kit.folder() .. "/later/site" -- not there when the server starts
    local slow = [[
      local loop = require "lunette.loop"
      return tool {
        name = "answer", description = "Answers late.", risk = "low",
        run = function() loop.sleep_ms(3000) return { answer = %q } end,
      }
    ]]
    local server = kit.serve(dir)
    kit.eventually("the log of what is missing", function() return server:said("there is no folder " .. dir) end)
    kit.write(dir, "tools/answer.lua", slow:format("old"))
    kit.eventually("the folder", function() return server:names("tools").answer end)
    local call = loop.spawn(function() return server:call("answer", {}) end)
    loop.sleep_ms(500)
    local before = server:status().generation
    kit.write(dir, "tools/answer.lua", tool("new"))
    kit.eventually("the reload", function() return server:status().generation > before end)
    assert.is_false(call:done())
    assert.is_true(answer_is(server, "new")())
    assert.equal("old", call:await(30000).data.answer)
  end)
end)
