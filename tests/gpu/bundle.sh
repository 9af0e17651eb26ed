#!/usr/bin/env bash
# Packs the GPU tests for a machine with CUDA 13's driver and NCCL but neither Bazel nor the libraries of this one.
#
#   tests/gpu/bundle.sh FOLDER [BAZEL_OPTION...]    builds, then fills FOLDER (which must not exist)
#
# There: FOLDER/run.sh [GTEST_OPTION...]
set -euo pipefail
if [ $# -lt 1 ]; then
  sed -n '2,6s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
root=$(cd "$(dirname "$(readlink -f "$0")")/../.." && pwd)
folder=$(realpath -m "$1")
shift
limit_mib=60
# Bazel, with startup options where they are needed.
read -ra bazel <<<"${BAZEL:-bazel}"
tests=(nccl_contract_gpu_test device_reduce_gpu_test)

if [ -e "$folder" ]; then
  echo "bundle.sh: $folder exists; name a new folder" >&2
  exit 2
fi
cd "$root"
"${bazel[@]}" build --config=cuda "$@" "${tests[@]/#///tests/gpu:}"
binaries=$("${bazel[@]}" info --config=cuda "$@" bazel-bin 2>/dev/null)
mkdir -p "$folder/bin" "$folder/lib"
for test in "${tests[@]}"; do
  install -m 755 "$binaries/tests/gpu/$test" "$folder/bin/$test"
  strip "$folder/bin/$test"
done

# What the target machine has, or must bring itself: the C library and its loader (a newer C library runs programs of
# an older one, never the other way round), the driver, CUDA and NCCL.
provided='^(ld-linux.*|libc|libm|libdl|librt|libpthread|libresolv|libcuda|libcudart|libnccl|libnvidia.*)\.so'
for test in "${tests[@]}"; do
  ldd "$folder/bin/$test"
done | awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }' | sort -u | while read -r name path; do
  [[ $name =~ $provided ]] || install -m 644 "$path" "$folder/lib/$name"
done
if missing=$(for test in "${tests[@]}"; do ldd "$folder/bin/$test"; done | grep 'not found'); then
  echo "bundle.sh: libraries are missing on this machine: $missing" >&2
  exit 1
fi

cat >"$folder/run.sh" <<'RUN'
#!/usr/bin/env bash
# Runs the GPU tests of this folder; options go to each (--gtest_filter=...). Ends with one line for each program.
set -uo pipefail
here=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
# A libnccl.so.2: the loader's own, else CUDA's folder, else one that came with a Python package.
nccl=
if ! ldconfig -p 2>/dev/null | grep -q 'libnccl\.so\.2'; then
  for folder in ${NCCL_HOME:+"$NCCL_HOME/lib"} "${CUDA_HOME:-/usr/local/cuda}/lib64" "${CUDA_HOME:-/usr/local/cuda}/lib" \
    /usr/lib/x86_64-linux-gnu ${LD_LIBRARY_PATH:+${LD_LIBRARY_PATH//:/ }} \
    /usr/lib/python3*/site-packages/nvidia/nccl/lib /usr/local/lib/python3*/*-packages/nvidia/nccl/lib \
    /opt/*/lib/python3*/site-packages/nvidia/nccl/lib; do
    if [ -e "$folder/libnccl.so.2" ]; then
      nccl=$folder
      break
    fi
  done
  if [ -z "$nccl" ]; then
    echo "SKIPPED: no libnccl.so.2 on this machine; set NCCL_HOME to the folder whose lib holds it"
    exit 0
  fi
fi
export LD_LIBRARY_PATH="$here/lib${nccl:+:$nccl}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
worst=0
summary=
for program in "$here"/bin/*; do
  log=$(mktemp)
  "$program" "$@" 2>&1 | tee "$log"
  status=${PIPESTATUS[0]}
  passed=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p' "$log")
  skipped=$(sed -n 's/^\[  SKIPPED \] \([0-9]*\) test.*/\1/p' "$log")
  failed=$(sed -n 's/^\[  FAILED  \] \([0-9]*\) test.*/\1/p' "$log")
  reason=
  [ -z "$skipped" ] || reason=" ($(grep -o -m1 'no GPU: .*' "$log"))"
  summary+="$(basename "$program"): ${passed:-0} passed, ${failed:-0} failed, ${skipped:-0} skipped$reason"$'\n'
  [ "$status" -eq 0 ] || worst=$status
  rm -f "$log"
done
printf '%s' "$summary"
exit "$worst"
RUN
chmod 755 "$folder/run.sh"

size_mib=$(du -sm "$folder" | cut -f1)
echo "bundle.sh: $folder, $size_mib MiB"
if [ "$size_mib" -ge "$limit_mib" ]; then
  echo "bundle.sh: it must stay under $limit_mib MiB" >&2
  exit 1
fi
