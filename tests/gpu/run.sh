#!/usr/bin/env bash
# Runs the GPU tests of the folder that bundle.sh made of this; options go to each (--gtest_filter=...). With --bench or
# --bench-kernels first: that benchmark, with the options that follow.
#
# What lacks a library here is left out. Ends with one line for each program; exit status 0: tests have passed, and none
# failed; 77: nothing ran.
set -uo pipefail
here=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
nothing_ran=77
# Folders of libraries that the loader does not find by itself: the one that a variable names, CUDA's, else those that came
# with a package of the Python that there is.
found=
packages=$(python3 -c 'import site; print("\n".join(site.getsitepackages()))' 2>/dev/null)
find_library() {
  local name=$1 package=$2 home=$3 folder
  # Not grep -q, which stops reading: ldconfig would die of that, and the pipe fail.
  if [ -z "$home" ] && ldconfig -p 2>/dev/null | grep "${name//./\\.}" >/dev/null; then return; fi
  for folder in ${home:+"$home/lib"} "${CUDA_HOME:-/usr/local/cuda}/lib64" "${CUDA_HOME:-/usr/local/cuda}/lib" \
    ${LD_LIBRARY_PATH:+${LD_LIBRARY_PATH//:/ }} $(sed "s:\$:/nvidia/$package/lib:" <<<"$packages") \
    /usr/lib/x86_64-linux-gnu /usr/lib64; do
    if [ -e "$folder/$name" ]; then
      found+=:$folder
      return
    fi
  done
  echo "no $name on this machine; ${4} may name the folder whose lib holds it"
}
find_library libnccl.so.2 nccl "${NCCL_HOME:-}" NCCL_HOME
find_library libcublasLt.so.13 cu13 "${CUBLAS_HOME:-}" CUBLAS_HOME
unpacked=$(mktemp -d)
trap 'rm -rf "$unpacked"' EXIT
for packed in "$here"/lib/*.gz; do
  [ ! -e "$packed" ] || gzip -dc "$packed" >"$unpacked/$(basename "$packed" .gz)"
done
export LD_LIBRARY_PATH="$here/lib:$unpacked$found${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

# The libraries that a program does not find here, and versions that they lack; nothing: it can run.
lacks() {
  ldd "$1" 2>&1 | sed -n '/not found/{s/^[[:space:]]*//;s/ => not found.*//;p}' | sort -u | paste -sd ';' | sed 's/;/; /g'
}

run_benchmark() {
  local lacking
  lacking=$(lacks "$1")
  if [ -n "$lacking" ]; then
    echo "$(basename "$1"): left out, it lacks $lacking" >&2
    exit "$nothing_ran"
  fi
  "$@"
  exit
}
case "${1:-}" in
  --bench)
    shift
    run_benchmark "$here/bench/device_train_bench" "$@"
    ;;
  --bench-kernels)
    run_benchmark "$here/bench/device_kernels_bench"
    ;;
esac

worst=0
all_passed=0
summary=
for program in "$here"/bin/*; do
  name=$(basename "$program")
  lacking=$(lacks "$program")
  if [ -n "$lacking" ]; then
    summary+="$name: left out, it lacks $lacking"$'\n'
    continue
  fi
  log=$(mktemp)
  "$program" "$@" 2>&1 | tee "$log"
  status=${PIPESTATUS[0]}
  passed=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p' "$log")
  skipped=$(sed -n 's/^\[  SKIPPED \] \([0-9]*\) test.*/\1/p' "$log")
  failed=$(sed -n 's/^\[  FAILED  \] \([0-9]*\) test.*/\1/p' "$log")
  reason=
  # A few tests need none; without one they show nothing.
  if no_gpu=$(grep -o -m1 'no GPU: .*' "$log"); then
    reason=" ($no_gpu)"
  else
    all_passed=$((all_passed + ${passed:-0}))
  fi
  # A crash leaves no count.
  [ "$status" -eq 0 ] || reason+=", ended with status $status"
  summary+="$name: ${passed:-0} passed, ${failed:-0} failed, ${skipped:-0} skipped$reason"$'\n'
  [ "$status" -eq 0 ] || worst=$status
  rm -f "$log"
done
printf '%s' "$summary"
if [ "$worst" -eq 0 ] && [ "$all_passed" -eq 0 ]; then
  echo "nothing ran"
  exit "$nothing_ran"
fi
exit "$worst"
