#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs what the MCP tests need from npm. usage: install.sh WORK     Exit code 77: cannot be had here.
set -u
WORK=$1
mkdir -p "$WORK"
. "$(dirname "$0")/lib.sh"
need_npm
