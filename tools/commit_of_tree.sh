#!/usr/bin/env bash
# Bazel's workspace status command of stamped builds: the commit of this tree, as common/base/version.h shows it.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
commit=$(git rev-parse --short=10 HEAD 2>/dev/null) || commit=unknown
[ -z "$(git status --porcelain 2>/dev/null)" ] || commit="$commit with changes"
echo "STABLE_MUSTER_COMMIT $commit"
