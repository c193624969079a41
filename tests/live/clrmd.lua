-- SPDX-License-Identifier: MIT
-- What ClrMD says of a dump (heap_peer/, threads_peer/), and whether ours is the same.
local h = require("harness")

local M = {}

local PROJECTS <const> = { heap = "HeapPeer", threads = "ThreadsPeer" }

local function build(name)
  local folder, project = h.build .. "/peers/" .. name, PROJECTS[name]
  local path = ("%s/tests/live/%s_peer/%s.csproj"):format(h.source, name, project)
  assert(h.fs.mkdirs(h.build .. "/peers"))
  local built = h.loop.exec { argv = { "flock", folder .. ".lock", "dotnet", "publish", path, "-c", "Release", "-v", "quiet",
    "--artifacts-path", folder, "-o", folder .. "/out" }, timeout_ms = 300000, max_output = 200000 }
  if built and built.code == 0 then return folder .. "/out/" .. project end
  h.ok(not (built and built.stdout:find("error CS", 1, true)), "the peer compiles: " .. (built and built.stdout or ""))
  return nil, "ClrMD cannot be had: " .. (built and (built.stdout:match("error [^\n%[]*") or built.stdout:sub(1, 300)) or "no dotnet")
end

local building = {} -- name -> the task of whoever asked first

--- The peer, built once; nil and why it cannot be.
---@param name "heap"|"threads"
function M.build(name)
  building[name] = building[name] or h.loop.spawn(function() return { build(name) } end)
  local done, err = building[name]:await()
  h.ok(done, err)
  return done[1], done[2]
end

--- The runtime's library of a version, for programs that have none beside them; nil when it is not here.
---@param version string
function M.library(version)
  local folders = {
    (os.getenv("NUGET_PACKAGES") or (os.getenv("HOME") or "") .. "/.nuget/packages") .. "/microsoft.netcore.app.runtime.linux-x64/"
      .. version .. "/runtimes/linux-x64/native",
    "/usr/share/dotnet/shared/Microsoft.NETCore.App/" .. version, "/usr/lib/dotnet/shared/Microsoft.NETCore.App/" .. version,
  }
  for _, folder in ipairs(folders) do
    if h.fs.stat(folder .. "/libmscordaccore.so") then return folder .. "/libmscordaccore.so" end
  end
  return nil
end

local function lines_of(argv)
  local done, rows = assert(h.loop.exec { argv = argv, timeout_ms = 120000, max_output = 32 * 1024 * 1024 }), {}
  h.eq(0, done.code, "the peer: " .. done.stderr)
  for line in done.stdout:gmatch("[^\n]+") do
    local row = {}
    for field in (line .. "\t"):gmatch("(.-)\t") do row[#row + 1] = field end
    rows[#rows + 1] = row
  end
  return rows
end

-- ---- heaps ------------------------------------------------------------------------------------------------------------------------

--- All that ClrMD tells of a heap: by what (types, segments, roots, edges), lines that are lists of their fields.
function M.heap(program, file, library)
  local all, what = {}, nil
  for _, row in ipairs(lines_of { program, "all", file, library }) do
    if row[1] == "==" then
      what = row[2]
      all[what] = {}
    else
      table.insert(all[what], row)
    end
  end
  return all
end

--- Types of one name are put together: a name may stand for several (of two load contexts).
local function add(sums, name, count, bytes)
  local sum = sums[name] or { 0, 0 }
  sums[name] = { sum[1] + count, sum[2] + bytes }
end

function M.types_agree(peers, rows, what)
  local theirs, ours = {}, {}
  for _, row in ipairs(peers.types) do
    if row[4] ~= "Free" then add(theirs, row[4], math.tointeger(row[2]), math.tointeger(row[3])) end
  end
  for _, row in ipairs(rows) do add(ours, row.typeFullName, row.instanceCount, row.totalBytes) end
  h.eq(theirs, ours, "count and bytes of every type, " .. what)
end

function M.segments_agree(peers, rows, what)
  local theirs, ours = {}, {}
  for _, row in ipairs(peers.segments) do
    local kind = row[2]
    if kind == "Ephemeral" then return end -- segments: ClrMD has three generations in one
    theirs["0x" .. row[3]] = { kind, "0x" .. row[4], math.tointeger(row[5]), math.tointeger(row[6]) }
  end
  for _, row in ipairs(rows) do
    ours[row.start] = { row.kind, row["end"], row.objectCount + row.freeObjectCount, row.usedBytes + row.freeBytes }
  end
  h.eq(theirs, ours, "kind, end, objects and bytes of every region, " .. what)
end

function M.references_agree(peers, data, what)
  local objects, references = 0, 0
  for _, row in ipairs(peers.edges) do
    objects, references = objects + 1, references + #row - 1
  end
  h.eq({ objects, references }, { data.heap.objectCount, data.heap.referenceCount }, "objects and references, " .. what)
end

local HANDLES <const> = { Strong = true, Pinned = true, WeakShort = true, WeakLong = true, Dependent = true, RefCounted = true }

local STATIC <const> = { StaticVar = true, ThreadStaticVar = true } -- ClrMD tells of few, and none at all on some runtimes

--- view: what a view of the handle answers.
function M.roots_agree(peers, view, what)
  local theirs = { handles = {}, roots = {}, finalizable = {} }
  local ours = { handles = {}, roots = {}, finalizable = {} }
  for _, row in ipairs(peers.roots) do
    if row[1] == "handle" and HANDLES[row[2]] then theirs.handles[row[2]] = (theirs.handles[row[2]] or 0) + 1 end
    if row[1] == "root" and not STATIC[row[2]] then theirs.roots[row[2]] = (theirs.roots[row[2]] or 0) + 1 end
    if row[1] == "finalizable" then theirs.finalizable[row[2]] = (theirs.finalizable[row[2]] or 0) + 1 end
  end
  for _, row in ipairs(view("gchandles").gcHandles.byKind) do
    if HANDLES[row.kind] and row.count > 0 then ours.handles[row.kind] = row.count end
  end
  for _, row in ipairs(view("roots-by-kind").rootsByKind) do
    if not STATIC[row.rootKind] then ours.roots[row.rootKind] = row.rootCount end
  end
  for _, row in ipairs(view("finalizer-queue").finalizableObjects) do ours.finalizable[row.typeFullName] = row.instanceCount end
  h.eq(theirs, ours, "handles, roots and finalizers, " .. what)
end

-- ---- threads ----------------------------------------------------------------------------------------------------------------------

local function threads_of(program, file, library)
  local threads, frames, locks = {}, {}, {}
  for _, words in ipairs(lines_of { program, file, library }) do
    if words[1] == "thread" then threads[#threads + 1] = table.concat({ words[2], words[3], "0x" .. words[4], words[5] }, " ") end
    if words[1] == "frame" then
      frames[words[2]] = frames[words[2]] or {}
      table.insert(frames[words[2]], ("0x%s %s"):format(words[3], words[5]))
    end
    if words[1] == "lock" then locks["0x" .. words[2]] = { words[3], "0x" .. words[4], tonumber(words[5]), tonumber(words[6]) } end
  end
  return threads, frames, locks
end

--- Threads, their frames that have a method, and the locks that are held. view: what a view of the handle answers, with more arguments;
--- of a snapshot with maxFramesPerThread=512.
function M.threads_agree(program, file, view, what, library)
  local threads, frames, locks = threads_of(program, file, library)
  local ours = {}
  for i, thread in ipairs(view("threads-summary", { topN = 1000 }).threads) do
    ours[i] = table.concat({ thread.managedThreadId, thread.osThreadId, thread.address, thread.isFinalizer and 1 or 0 }, " ")
    local theirs, mine = frames[tostring(thread.managedThreadId)] or {}, {}
    for k, frame in ipairs(view("stack", { threadId = thread.managedThreadId }).thread.frames) do
      mine[k] = ("%s %s"):format(frame.instructionPointer, frame.displayName:gsub(" %([^()]*:%d+%)$", ""))
    end
    h.eq(theirs, mine, ("%s: frames of thread %d"):format(what, thread.managedThreadId))
  end
  h.eq(threads, ours, what .. " threads")
  local n, held = 0, 0
  for _, lock in ipairs(view("lock-graph", { topN = 1000 }).locks) do
    if lock.source == "SyncBlock" then
      n = n + 1
      h.eq(locks[lock.objectAddress], { lock.objectTypeFullName, lock.ownerThreadAddress, lock.recursionCount, lock.waitingThreadCount },
        what .. " lock")
    end
  end
  for _ in pairs(locks) do held = held + 1 end
  h.eq(held, n, what .. " locks")
end

return M
