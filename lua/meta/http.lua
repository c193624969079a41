-- SPDX-License-Identifier: MIT
---@meta
-- luacheck: ignore 212 241
-- lunette.http: an HTTP server.

---@class lunette.http
local http = {}

---@class LunetteHttpRequest
---@field method string
---@field path string
---@field query string
---@field headers table<string, string>  names in lower case
---@field body string
---@field remote string
local Request = {}

---@param status integer
---@param headers? table<string, string>
---@param body? string
---@return true?
---@return LunetteErr? err
function Request:respond(status, headers, body) end

--- Begins an answer that is written piece by piece.
---@param status integer
---@param headers? table<string, string>
---@return LunetteHttpRequest?
---@return LunetteErr? err
function Request:stream(status, headers) end

---@param text string
---@return true?
---@return LunetteErr? err  the client is gone, or does not read
function Request:write(text) end

--- Ends a streamed answer.
function Request:close() end

---@return boolean  # the client is gone
function Request:closed() end

--- Runs fn as a task when the client goes away before the answer is complete.
---@param fn fun()
function Request:on_close(fn) end

---@class LunetteHttpServer
---@field port integer
local Server = {}

function Server:close() end

---@class LunetteHttpOptions
---@field address? string
---@field port? integer      0: any
---@field tls_cert? string   PEM
---@field tls_key? string    PEM
---@field max_body? integer  bytes
---@field on_request fun(req: LunetteHttpRequest)  runs in a task for each request

---@param opts LunetteHttpOptions
---@return LunetteHttpServer?
---@return LunetteErr? err
---@nodiscard
function http.listen(opts) end

return http
