-- SPDX-License-Identifier: MIT
-- The kinds of collect_sample that this build does not collect: their arguments and scopes are checked as if it did, then the answer says
-- what is missing.
local errors = require("lunette.errors")

local M = {}

local MAX_METHODS <const> = 10

local function check_methods(args)
  if not args.includeSensitiveValues then
    return nil, errors.invalid("includeSensitiveValues", "includeSensitiveValues must be true: the values of parameters may be secret.")
  end
  if #args.methods < 1 or #args.methods > MAX_METHODS then
    return nil, errors.invalid("methods", ("methods holds 1 to %d filters; got %d."):format(MAX_METHODS, #args.methods))
  end
  return true
end

M.method_params = {
  scopes = { "eventpipe", "sensitive-parameter-read" },
  risk = {
    level = "critical", target_impact = "high", data_exposure = "secrets", reason = "It instruments methods and reads their parameters.",
    side_effects = { "loads a profiler into the target for the window" },
  },
  task = true, data_field = "methodParams", payload = "MethodParamsCapture", check = check_methods,
  missing = "this build has no profiler that captures parameters, whatever Diagnostics:AllowMethodParameterCapture says",
}

return M
