#!/usr/bin/env bash
# Packs the GPU tests for a machine with CUDA 13's driver and NCCL but neither Bazel nor the libraries of this one.
#
#   tests/gpu/bundle.sh FOLDER [BAZEL_OPTION...]    builds, then fills FOLDER (which must not exist)
#
# There: FOLDER/run.sh [GTEST_OPTION...]          the tests
#        FOLDER/run.sh --bench [OPTION...]         device_train_bench: --model=, --steps=, --type=, --json
#        FOLDER/run.sh --bench-kernels             device_kernels_bench: what each kernel reaches
set -euo pipefail
if [ $# -lt 1 ]; then
  sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
root=$(cd "$(dirname "$(readlink -f "$0")")/../.." && pwd)
folder=$(realpath -m "$1")
shift
limit_mib=60
# Bazel, with startup options where they are needed.
read -ra bazel <<<"${BAZEL:-bazel}"
tests=(nccl_contract_gpu_test device_reduce_gpu_test device_kernels_gpu_test device_engine_gpu_test two_roads_gpu_test)
benchmarks=(device_train_bench device_kernels_bench)
programs=("${tests[@]}" "${benchmarks[@]}")

if [ -e "$folder" ]; then
  echo "bundle.sh: $folder exists; name a new folder" >&2
  exit 2
fi
cd "$root"
"${bazel[@]}" build --config=cuda "$@" "${programs[@]/#///tests/gpu:}"
binaries=$("${bazel[@]}" info --config=cuda "$@" bazel-bin 2>/dev/null)
mkdir -p "$folder/bin" "$folder/bench" "$folder/lib"
install -m 755 "${tests[@]/#/$binaries/tests/gpu/}" "$folder/bin"
install -m 755 "${benchmarks[@]/#/$binaries/tests/gpu/}" "$folder/bench"
strip "$folder"/bin/* "$folder"/bench/*

# What the target machine has, or must bring itself: the C library and its loader (a newer C library runs programs of
# an older one, never the other way round), the driver, CUDA and NCCL.
provided='^(ld-linux.*|libc|libm|libdl|librt|libpthread|libresolv|libcuda|libcudart|libcublasLt|libnccl|libnvidia.*)\.so'
for program in "$folder"/bin/* "$folder"/bench/*; do
  ldd "$program"
done | awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }' | sort -u | while read -r name path; do
  [[ $name =~ $provided ]] || install -m 644 "$path" "$folder/lib/$name"
done
if missing=$(for program in "$folder"/bin/* "$folder"/bench/*; do ldd "$program"; done | grep 'not found'); then
  echo "bundle.sh: libraries are missing on this machine: $missing" >&2
  exit 1
fi

# The one large library, oneDNN, which the CPU's side of comparisons needs, is packed; run.sh unpacks it.
find "$folder/lib" -size +16M -exec gzip -9 {} +

cat >"$folder/run.sh" <<'RUN'
#!/usr/bin/env bash
# Runs the GPU tests of this folder; options go to each (--gtest_filter=...). Ends with one line for each program.
# With --bench first: the benchmark of training, with the options that follow.
set -uo pipefail
here=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
# Folders of libraries that the loader does not find by itself: CUDA's, else those that came with a Python package.
found=
find_library() {
  local name=$1 package=$2 home=$3 folder
  # Not grep -q, which stops reading: ldconfig would die of that, and the pipe fail.
  if ldconfig -p 2>/dev/null | grep "${name//./\\.}" >/dev/null; then return; fi
  for folder in ${home:+"$home/lib"} "${CUDA_HOME:-/usr/local/cuda}/lib64" "${CUDA_HOME:-/usr/local/cuda}/lib" \
    /usr/lib/x86_64-linux-gnu /usr/lib64 ${LD_LIBRARY_PATH:+${LD_LIBRARY_PATH//:/ }} \
    /usr/lib/python3*/site-packages/nvidia/"$package"/lib /usr/local/lib/python3*/*-packages/nvidia/"$package"/lib \
    /opt/*/lib/python3*/site-packages/nvidia/"$package"/lib; do
    if [ -e "$folder/$name" ]; then
      found+=:$folder
      return
    fi
  done
  echo "SKIPPED: no $name on this machine; set ${4} to the folder whose lib holds it"
  exit 0
}
find_library libnccl.so.2 nccl "${NCCL_HOME:-}" NCCL_HOME
find_library libcublasLt.so.13 cu13 "${CUBLAS_HOME:-}" CUBLAS_HOME
unpacked=$(mktemp -d)
trap 'rm -rf "$unpacked"' EXIT
for packed in "$here"/lib/*.gz; do
  [ ! -e "$packed" ] || gzip -dc "$packed" >"$unpacked/$(basename "$packed" .gz)"
done
export LD_LIBRARY_PATH="$here/lib:$unpacked$found${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
if [ "${1:-}" = --bench ]; then
  shift
  "$here/bench/device_train_bench" "$@"
  exit
fi
if [ "${1:-}" = --bench-kernels ]; then
  "$here/bench/device_kernels_bench"
  exit
fi
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
