-- SPDX-License-Identifier: MIT
-- Names of waits: what comes with the product, what a site adds, what is wrong with one.
local app = require("lunette.app")
local build = require("lunette.generation.build")
local generation = require("lunette.generation")
local kinds = require("lunette.kinds")
local kit = require("support.site_kit")
local site = require("lunette.site")
local view = require("lunette.view")
local waits = require("samplers.waits")

-- The reason of a name, as the profile looks for it: the first that fits.
local function reason_of(names, method)
  for _, one in ipairs(names) do
    local begin = one.name:match("^(.*)%*$")
    if one.name == method or begin and method:sub(1, #begin) == begin then return one.reason end
  end
  return nil
end

describe("names of waits", function()
  it("are those of .NET, few enough for a profile, each with one label", function()
    local found = waits.current()
    assert.equal(0, found.dropped)
    assert.is_true(#found.names > 20 and #found.names <= waits.MAX)
    local seen = {}
    for _, one in ipairs(found.names) do
      assert.is_nil(seen[one.name], one.name)
      seen[one.name] = true
    end
    local wanted = {
      ["System.Threading.Monitor.Wait"] = "Monitor.Wait", ["System.Threading.WaitHandle.WaitOneNoCheck"] = "WaitHandle.Wait",
      ["System.Threading.LowLevelLifoSemaphore.WaitNative"] = "ThreadPool worker idle wait",
      ["System.Threading.SemaphoreSlim.WaitCore"] = "Semaphore.Wait", ["System.Threading.Tasks.Task.Wait"] = "Task.Wait (blocking)",
      ["Interop+Sys.Poll"] = "Socket I/O", ["System.Threading.Thread.Join"] = "Thread.Join",
    }
    for method, reason in pairs(wanted) do assert.equal(reason, reason_of(found.names, method), method) end
    for _, method in ipairs { "System.Threading.SpinWait.SpinOnce", "System.Threading.SpinLock.Enter", "App.Worker.Wait", "" } do
      assert.is_nil(reason_of(found.names, method), method)
    end
  end)
end)

describe("names of waits of a site", function()
  local was
  before_each(function() was = generation.newest() end)
  after_each(function() generation.use(was) end)

  local function load_site(files)
    local dir = kit.folder()
    for path, body in pairs(files) do kit.write(dir, path, body) end
    kinds.use(generation.current)
    local g = build.build(site.named({ site.PRODUCT, dir }))
    generation.use(g)
    return g
  end

  local function names_with(files)
    local g = load_site(files)
    return waits.current().names, g
  end

  it("stand before those of the product", function()
    local names = names_with { ["waits/ours.lua"] = [[
      return waits { reasons = {
        { reason = "Acme queue", names = { "Acme.Queue.Take", "Acme.Locks.*" } },
        { reason = "Pool", names = { "System.Threading.LowLevelLifoSemaphore.*" } },
      } }]] }
    assert.same({ "Acme queue", "Acme queue", "Pool", "Monitor.Wait" }, { reason_of(names, "Acme.Queue.Take"),
      reason_of(names, "Acme.Locks.Gate.Enter"), reason_of(names, "System.Threading.LowLevelLifoSemaphore.Wait"),
      reason_of(names, "System.Threading.Monitor.Wait") })
  end)

  it("can take the place of the product's, or add to them", function()
    local names = names_with { ["waits/dotnet.lua"] = [[
      local base = ...
      return extend(base, { reasons = function(old) old[#old + 1] = { reason = "More", names = { "A.B" } } return old end })]] }
    assert.same({ "More", "Thread.Sleep" }, { reason_of(names, "A.B"), reason_of(names, "System.Threading.Thread.Sleep") })
    names = names_with { ["waits/dotnet.lua"] = 'return disable "other names"' }
    assert.equal(0, #names)
  end)

  it("that are none are told with the line", function()
    local _, g = names_with { ["waits/bad.lua"] = 'return waits {\n  reasons = { { reason = "x", names = { "A.*.B" } } },\n}' }
    assert.is_nil(g:find("waits/bad"))
    assert.matches("waits/bad.lua:2", g.problems[1].file .. ":" .. g.problems[1].line, 1, true)
    assert.matches("* only at its end", g.problems[1].message, 1, true)
  end)

  it("label samples, and a view of a site can ask the profile", function()
    local sampled = require("support.sampled")
    load_site {
      ["waits/ours.lua"] = 'return waits { reasons = { { reason = "Burning", names = { "Lunette.Target.Standing.Burn" } } } }',
      ["views/cpu-sample/leader.lua"] = [[
        return view { kind = "cpu-sample", name = "leader", options = { "topN:1" }, payload = "any", scopes = { "investigation-export" },
          project = function(artifact, opts)
            return { method = artifact.profile:top_methods({ top = opts.topN })[1].method, samples = artifact.info.samples }
          end,
        }]],
    }
    local data, envelope, artifact = sampled.capture("cpu", "stand")
    local row = sampled.row(sampled.ask(envelope.handle, "top-methods", { topN = 500 }).methods, "Standing.Burn()")
    assert.same({ "Burning", row.exclusiveSamples }, { row.waitReason, row.selfSamples.waitingSamples })
    local found = assert(view.project("cpu-sample", "leader", { artifact = artifact, id = envelope.handle }, { topN = 1 }, sampled.ctx()))
    assert.equal(data.totalSamples, found.samples)
    assert.matches("Monitor.Wait", found.method, 1, true)
  end)
end)

describe("lunette docs", function()
  it("lists the names of waits", function()
    app.load({})
    local reference = require("lunette.reference")
    local page = reference.render(reference.page("waits"), generation.current())
    assert.matches("System.Threading.Monitor.Wait", page, 1, true)
    assert.matches("lua/waits/dotnet.lua", page, 1, true)
  end)
end)
