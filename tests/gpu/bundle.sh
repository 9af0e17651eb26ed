#!/usr/bin/env bash
# Packs the GPU tests for a machine with CUDA 13's driver and libraries, and NCCL for some of them, but neither Bazel nor
# the libraries of this one.
#
#   tests/gpu/bundle.sh FOLDER [BAZEL_OPTION...]    builds, then fills FOLDER (which must not exist)
#
# There: FOLDER/run.sh [GTEST_OPTION...]          the tests
#        FOLDER/run.sh --bench [OPTION...]         device_train_bench: --model=, --steps=, --type=, --json
#        FOLDER/run.sh --bench-kernels             device_kernels_bench: what each kernel reaches
set -euo pipefail
if [ $# -lt 1 ]; then
  sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
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

install -m 755 tests/gpu/run.sh "$folder"

size_mib=$(du -sm "$folder" | cut -f1)
echo "bundle.sh: $folder, $size_mib MiB"
if [ "$size_mib" -ge "$limit_mib" ]; then
  echo "bundle.sh: it must stay under $limit_mib MiB" >&2
  exit 1
fi
