-- SPDX-License-Identifier: MIT
-- lunette docs: the reference of everything as installed, site additions included, and annotation files for editors.
local annotations = require("lunette.annotations")
local app = require("lunette.app")
local config = require("lunette.config")
local fs = require("lunette.fs")
local options = require("lunette.options")
local reference = require("lunette.reference")
local site = require("lunette.site")
local sys = require("lunette.sys")
local terminal = require("lunette.terminal")
local text = require("lunette.text")

local M = {}

M.summary = "the reference of tools, views, rules as installed"
M.help = [[
usage: lunette docs [PAGE] [--site DIR]... [-o DIR]
       lunette docs --annotations DIR [--site DIR]...

Writes the reference in Markdown: all tools, collectors, views, rules, signals, hint rules and playbooks that are installed here, those of
the site folders included, and the words that declare them. Without a page the list of pages.

  PAGE               tools, collectors, views, rules, signals, hints, playbooks, redaction, event-sources, waits, declarations,
                     or all
  -o DIR             one file a page, into that folder
  --annotations DIR  write files for the Lua language server (LuaLS) instead: an editor then completes and checks site scripts
  --site DIR         a folder of site scripts; may be given several times
]]

local EXIT_OK <const>, EXIT_FAILURE <const> = 0, 1
local KNOWN <const> = { ["-o"] = "value", ["--annotations"] = "value", ["--site"] = "list", ["--scripts"] = "list", ["--config"] = "value" }

local function fail(message)
  io.stderr:write("lunette docs: ", message, "\n")
  return EXIT_FAILURE
end

local function write_file(path, body)
  local folder = path:match("^(.*)/[^/]*$")
  local ok, err = fs.mkdirs(folder)
  if not ok then return nil, tostring(err) end
  local file
  file, err = io.open(path, "w")
  if not file then return nil, err end
  ok, err = file:write(body)
  file:close()
  return ok and true or nil, err
end

-- Writes files: name -> text. The exit code.
local function write_all(dir, files)
  local names = text.keys(files)
  for _, name in ipairs(names) do
    local ok, err = write_file(dir .. "/" .. name, files[name])
    if not ok then return fail(err) end
  end
  sys.write(("%d files in %s\n"):format(#names, dir))
  return EXIT_OK
end

local function names_of_pages()
  local list = { "all" }
  for _, page in ipairs(reference.PAGES) do list[#list + 1] = page.name end
  return list
end

local function pages(which, generation)
  local files = {}
  for _, page in ipairs(reference.PAGES) do
    if which == "all" or which == page.name then files[page.name .. ".md"] = reference.render(page, generation) end
  end
  return files
end

local function print_pages(which, generation)
  for _, page in ipairs(reference.PAGES) do
    if which == "all" or which == page.name then sys.write(reference.render(page, generation), which == "all" and "\n" or "") end
  end
  return EXIT_OK
end

--- lunette docs.
---@param args string[]
function M.main(args)
  local given, why = options.parse(args, KNOWN)
  if not given then return terminal.usage("docs", why) end
  local which = given[1]
  if #given > 1 then return terminal.usage("docs", "give one page, or none: " .. table.concat(given, " ")) end
  if which and which ~= "all" and not reference.page(which) then
    local names = names_of_pages()
    local near = text.did_you_mean(which, names)
    return terminal.usage("docs", ("there is no page %s.%s"):format(which, near ~= "" and near or " There are " .. table.concat(names, ", ")
      .. "."))
  end
  local cfg = config.load { file = given.config }
  local loaded = app.load { config = cfg, layers = site.layers(cfg, site.given(given)) }
  for _, failure in ipairs(loaded.failures) do io.stderr:write("lunette docs: left out: ", failure, "\n") end
  if given.annotations then return write_all(given.annotations, annotations.files()) end
  if given.o then
    local files = pages(which or "all", loaded.generation)
    if not which or which == "all" then files["README.md"] = reference.index() end
    return write_all(given.o, files)
  end
  if not which then
    sys.write(reference.index())
    return EXIT_OK
  end
  return print_pages(which, loaded.generation)
end

return M
