# `./muster test`, for the script muster: needs its functions, and $root, $cache and $packages.

test_usage() {
  cat <<'END'
usage: ./muster test [--quick | --all] [TARGET ...] [FLAG OF BAZEL ...]

Builds and runs tests; says which took longest, and how many passed.

  (nothing)  all but cases with Exhaustive in their name: whole products, many
             seeds
  --quick    tests of the folders that differ from main, and the contract suites
  --all      every test, as before a release
  TARGET     these tests alone, such as //common/mesh/... ; with --quick, these
             too; -//common/mesh/... leaves out

Flags are passed on: --test_filter='PlanTest.*' runs the cases of that name.
END
}

# Prints the folders with a BUILD file that hold the files named on standard input.
folders_of_files() {
  local file folder
  while IFS= read -r file; do
    folder=$(dirname "$file")
    while [ "$folder" != . ] && [ ! -e "$root/$folder/BUILD" ]; do folder=$(dirname "$folder"); done
    [ "$folder" = . ] || [ ! -e "$root/$folder/BUILD" ] || echo "$folder"
  done | sort -u
}

# Prints the files that differ from main: committed since, changed or new.
changed_files() {
  local base
  base=$(git -C "$root" merge-base HEAD origin/main 2>/dev/null || git -C "$root" merge-base HEAD main 2>/dev/null) ||
    base=HEAD
  git -C "$root" diff --name-only "$base" -- && git -C "$root" ls-files --others --exclude-standard
}

# Prints the test targets of --quick.
quick_targets() {
  local folder expression='attr(tags, "\bcontract\b", //...)'
  for folder in $(changed_files | folders_of_files); do expression+=" union tests(//$folder:all)"; done
  (cd "$root" && bazel query --noshow_progress --ui_event_filters=-info "$expression")
}

# Fetches what tests take from elsewhere; tests that miss it say so.
fetch_for_tests() {
  local shared=${MUSTER_SHARED_DATA:-$root/../shared/data} npm=$root/third_party/npm
  MUSTER_SHARED_DATA=$(readlink -f "$shared" || echo "$shared")
  export MUSTER_SHARED_DATA
  if ! cmp -s "$npm/package-lock.json" "$npm/node_modules/.fetched" && command -v npm >/dev/null; then
    echo "muster: fetching what tests take from npm" >&2
    npm ci --silent --ignore-scripts --no-audit --no-fund --fetch-retries=0 --fetch-timeout=20000 --prefix "$npm" &&
      cp "$npm/package-lock.json" "$npm/node_modules/.fetched"
  fi
  if [ -e "$npm/node_modules/.fetched" ]; then
    export MUSTER_NODE_MODULES="$npm/node_modules"
    install_missing chromium ||
      echo "muster: chromium could not be installed; tests of the page in a browser are skipped" >&2
  else
    echo "muster: npm is missing or cannot fetch packages; tests that need third_party/npm are skipped" >&2
  fi
  fetch_prometheus
}

# Fetches the programs of Debian's prometheus, which tests run. They are not installed: the package starts a service.
fetch_prometheus() {
  local folder=${cache%/bazel}/prometheus
  command -v promtool >/dev/null && command -v prometheus >/dev/null && return
  if [ ! -x "$folder/promtool" ]; then
    echo "muster: fetching Debian's prometheus for tests" >&2
    rm -rf "$folder" && mkdir -p "$folder" &&
      (cd "$folder" && apt-get -qq download prometheus && dpkg --fsys-tarfile prometheus_*.deb |
        tar -x --strip-components=3 ./usr/bin/prometheus ./usr/bin/promtool && rm prometheus_*.deb) 2>/dev/null || true
  fi
  if [ -x "$folder/promtool" ]; then
    export MUSTER_PROMETHEUS=$folder
  else
    echo "muster: apt-get cannot fetch prometheus; tests that need it are skipped" >&2
  fi
}

run_tests() {
  local quick='' status=0 flags=() targets=() each
  for each in "$@"; do
    case $each in
      --quick) quick=yes ;;
      --all) flags+=('--test_filter=*') ;;
      --help | -h) test_usage && exit ;;
      -//*) targets+=("$each") ;;
      -*) flags+=("$each") ;;
      //* | :*) targets+=("$each") ;;
      *) echo "muster: $each is neither a target, such as //common/mesh/... , nor a flag" >&2 && test_usage >&2 && exit 2 ;;
    esac
  done
  if [ -n "$quick" ]; then
    mapfile -t -O "${#targets[@]}" targets < <(quick_targets)
    [ ${#targets[@]} -gt 0 ] || { echo "muster: Bazel could not say which tests are quick" >&2 && exit 1; }
    echo "muster: ${#targets[@]} test programs" >&2
  fi
  [ ${#targets[@]} -gt 0 ] || targets=(//...)
  # Results of an earlier run must not be counted again.
  rm -rf "$root/bazel-testlogs/"* 2>/dev/null || true
  fetch_for_tests
  if cuda_toolkit; then
    cuda=(--config=cuda)
  else
    echo "muster: no CUDA toolkit with NCCL in ${CUDA_HOME:-/usr/local/cuda}; CUDA targets are not built" >&2
  fi
  say_cost 58 "programs and tests"
  # Many tests wait for leases, polls and other processes: half as many again as there are processors keep these busy.
  local jobs=$((($(nproc) * 3 + 1) / 2))
  run_bazel test --keep_going --jobs="$jobs" --local_test_jobs="$jobs" "${cuda[@]}" "${flags[@]}" -- "${targets[@]}" || status=$?
  exec /usr/bin/python3 "$root/tools/count_results.py" "$status" "$(readlink -f "$root/bazel-testlogs")"
}
