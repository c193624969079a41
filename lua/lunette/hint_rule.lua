-- SPDX-License-Identifier: MIT
-- hint_rule { … }: what to call next after a capture, and on which condition (docs/triage.md).
return require("lunette.declare").constructor("hint_rule")
