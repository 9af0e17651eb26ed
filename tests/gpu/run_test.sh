#!/usr/bin/env bash
# What the bundle's run.sh makes of programs that pass, fail, skip all their tests or lack a library; scripts stand in for
# the programs, and one for ldd.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
install -m 755 "${1:-tests/gpu/run.sh}" "$folder/run.sh"
mkdir "$folder/bin" "$folder/bench" "$folder/lib" "$folder/path"

# program PLACE LACKS STATUS LINES: it prints the lines and its options, and ends with the status.
program() {
  printf '#!/bin/sh\n# lacks: %s\nprintf "%s\\n"\necho "options: $*"\nexit %s\n' "$2" "$4" "$3" >"$folder/$1"
  chmod 755 "$folder/$1"
}
cat >"$folder/path/ldd" <<'LDD'
#!/bin/sh
printf '\tlibc.so.6 => /lib/libc.so.6 (0x0000)\n'
sed -n 's/^# lacks: \(..*\)/\t\1 => not found/p' "$1"
LDD
chmod 755 "$folder/path/ldd"

# run STATUS OPTION...: its output is in $output.
run() {
  local wanted=$1 status=0
  shift
  output=$(PATH="$folder/path:$PATH" "$folder/run.sh" "$@" 2>&1) || status=$?
  [ "$status" -eq "$wanted" ] || fail "run.sh $* ended with $status, not with $wanted"
}
says() { grep -qxF -- "$1" <<<"$output" || fail "run.sh does not say: $1"; }
fail() {
  printf '%s; it said:\n%s\n' "$1" "$output" >&2
  exit 1
}

# Without NCCL what needs none runs.
program bin/kernels_test "" 0 '[  PASSED  ] 7 tests.'
program bin/nccl_test libnccl.so.2 0 '[  PASSED  ] 5 tests.'
run 0 --gtest_filter=A
says 'kernels_test: 7 passed, 0 failed, 0 skipped'
says 'nccl_test: left out, it lacks libnccl.so.2'
says 'options: --gtest_filter=A'
! grep -q '5 tests' <<<"$output" || fail "nccl_test ran"

# Nothing can run.
program bin/kernels_test libcublasLt.so.13 0 '[  PASSED  ] 7 tests.'
run 77
says 'kernels_test: left out, it lacks libcublasLt.so.13'
says 'nothing ran'

# Everything runs, and is skipped.
program bin/kernels_test "" 0 'no GPU: none here\n[  PASSED  ] 0 tests.\n[  SKIPPED ] 7 tests, listed below:'
run 77
says 'kernels_test: 0 passed, 0 failed, 7 skipped (no GPU: none here)'

# A test that needs no GPU passes where there is none.
program bin/kernels_test "" 0 'no GPU: none here\n[  PASSED  ] 2 tests.\n[  SKIPPED ] 7 tests, listed below:'
run 77
says 'kernels_test: 2 passed, 0 failed, 7 skipped (no GPU: none here)'

# What fails counts, whatever else passes or is left out.
program bin/engine_test "" 3 '[  PASSED  ] 1 test.\n[  FAILED  ] 2 tests, listed below:'
run 3
says 'engine_test: 1 passed, 2 failed, 0 skipped, ended with status 3'

# A crash has no count, but a status.
program bin/engine_test "" 139 'Segmentation fault'
run 139
says 'engine_test: 0 passed, 0 failed, 0 skipped, ended with status 139'

# Libraries that came with a package of Python's; a folder that a variable names comes first.
cat >"$folder/path/python3" <<PYTHON
#!/bin/sh
echo $folder/packages
PYTHON
cat >"$folder/path/ldconfig" <<'LDCONFIG'
#!/bin/sh
echo 'libc.so.6 (libc6,x86-64) => /lib/libc.so.6'
LDCONFIG
chmod 755 "$folder/path/python3" "$folder/path/ldconfig"
for place in packages/nvidia/nccl mine; do
  mkdir -p "$folder/$place/lib"
  touch "$folder/$place/lib/libnccl.so.2"
done
printf '#!/bin/sh\necho "searches: $LD_LIBRARY_PATH"\n' >"$folder/bin/engine_test"
CUDA_HOME=$folder/none run 77
grep -q "searches: .*:$folder/packages/nvidia/nccl/lib" <<<"$output" || fail "it does not ask Python"
CUDA_HOME=$folder/none NCCL_HOME=$folder/mine run 77
grep -q "searches: .*:$folder/mine/lib" <<<"$output" || fail "it does not take NCCL_HOME"

program bench/device_train_bench "" 0 'tokens/s'
run 0 --bench --json
says 'options: --json'
program bench/device_train_bench libcublasLt.so.13 0 'tokens/s'
run 77 --bench --json
says 'device_train_bench: left out, it lacks libcublasLt.so.13'
