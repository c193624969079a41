-- SPDX-License-Identifier: MIT
---@meta
-- luacheck: ignore 212 241
-- lunette.symbols: where code is in its source (docs/native-api.md, docs/symbols.md).

---@class lunette.symbols
local symbols = {}

--- A symbol path: folders, and servers that it may ask.
---@class lunette.symbols.path
local path = {}

--- How many servers it names.
---@return integer
---@nodiscard
function path:servers() end

--- Whether the list of hosts alone let a server pass.
---@return boolean
---@nodiscard
function path:by_hosts() end

---@class LunetteSymbolGate
---@field hosts? string[]       "name" or "name:port"
---@field any_host? boolean
---@field trusted? boolean      the operator's own path: the servers that it names are allowed
---@field cache? string         folder for what is fetched; without one nothing is

--- Reads a symbol path. PermissionDenied, with the server as detail: it is not allowed.
---@param text string
---@param gate LunetteSymbolGate
---@return lunette.symbols.path?
---@return LunetteErr? err
---@nodiscard
function symbols.path(text, gate) end

---@class LunetteSymbolRequest
---@field path? string          of the module's file, as this process can open it
---@field mvid? string          GUIDs as text
---@field pdb_guid? string
---@field pdb_age? integer
---@field pdb_path? string
---@field token? integer        0x06……
---@field il_offset? integer    nil: the method's first line

---@class LunetteSymbolOptions
---@field search? lunette.symbols.path
---@field search_2? lunette.symbols.path
---@field timeout_ms? integer   for servers

---@class LunetteSymbolLine
---@field why? string           no line; the rest is absent then
---@field file? string
---@field url? string           by SourceLink
---@field line? integer
---@field start_line? integer   of the method's first code, where that is in the same file
---@field end_line? integer
---@field column? integer
---@field end_column? integer
---@field il_offset? integer    where the sequence point begins
---@field exact? boolean        false: the nearest line

--- Files and lines, one entry a request. Waits.
---@param requests LunetteSymbolRequest[]
---@param options? LunetteSymbolOptions
---@return LunetteSymbolLine[]
---@nodiscard
function symbols.lines(requests, options) end

---@class LunetteSymbolModule
---@field mvid? string
---@field pdb_guid? string
---@field pdb_age? integer
---@field pdb_file? string
---@field pdb_format? "portable"|"embedded"|"windows"
---@field why? string           why there are no lines

--- What is known of modules, one entry a request. Waits.
---@param requests LunetteSymbolRequest[]
---@param options? LunetteSymbolOptions
---@return LunetteSymbolModule[]
---@nodiscard
function symbols.modules(requests, options) end

--- Functions of native code, one entry a request: by address in the file's own numbering, mangled names read. Waits.
---@param requests { path: string, address: integer, build_id?: string }[]  path: as this process can open it; build_id: hex, another
--- file has no names
---@param lines? boolean   file and line, too, by DWARF
---@return { name?: string, offset?: integer, file?: string, line?: integer }[]
---@nodiscard
function symbols.native(requests, lines) end

--- The readable form of a mangled name of C++ or Rust; another name as it is.
---@param name string
---@return string text
---@return boolean mangled
---@nodiscard
function symbols.demangle(name) end

return symbols
