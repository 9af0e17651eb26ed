# `./muster fuzz`, for the script muster: needs its functions, and $root and $cache.

fuzz_usage() {
  cat <<'END'
usage: ./muster fuzz [--seconds N] [--target NAME] [--asan]

Builds the fuzz targets with Clang and lets each search for inputs that break it.

  --seconds N    how long each target runs (60)
  --target NAME  this one alone, such as frame_fuzz
  --asan         with AddressSanitizer, which sees reads and writes outside of memory too

Inputs that broke a target are kept, and said; added to the target's folder NAME_corpus they are part of every
`./muster test`. What a run learned is kept for the next. The exit code is 0 where nothing was found, 1 where
something was or the build failed, and 2 for a wrong command line.
END
}

# Prints the labels of all fuzz targets, or of the one of this name.
fuzz_targets() {
  (cd "$root" && bazel query --noshow_progress --ui_event_filters=-info 'attr(tags, "\bfuzz\b", //...)') |
    sort | { if [ -n "$1" ]; then grep ":$1\$" || true; else cat; fi; }
}

# Runs a target for some seconds; says what became of it, and fails where it broke.
run_fuzz_target() {
  local label=$1 seconds=$2 folder name work status=0 inputs
  folder=${label#//}
  folder=${folder%:*}
  name=${label##*:}
  work=$(dirname "$cache")/fuzz/$name
  mkdir -p "$work/corpus" "$work/found"
  # An input that takes seconds, or memory out of all proportion, counts as one that breaks the target.
  "$root/bazel-fuzz-bin/$folder/$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
    -malloc_limit_mb=256 -print_final_stats=1 -artifact_prefix="$work/found/" \
    "$work/corpus" "$root/$folder/${name%_fuzz}_corpus" >"$work/log" 2>&1 || status=$?
  inputs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$work/log")
  if [ "$status" -eq 0 ]; then
    echo "$name: nothing found in ${inputs:-?} inputs, $seconds s"
    return
  fi
  echo "$name: FAILED after ${inputs:-?} inputs"
  echo "  input: $(sed -n 's/.*Test unit written to //p' "$work/log" | tail -n 1)"
  echo "  what the target printed: $work/log"
  return 1
}

fuzz() {
  local seconds=60 name="" flags=(--config=fuzz) targets label failed=0
  while [ $# -gt 0 ]; do
    case $1 in
      --seconds) seconds=${2:-} ;;
      --target) name=${2:-} ;;
      --asan) flags+=(--config=asan --platform_suffix=-fuzz-asan) ;;
      --help) fuzz_usage && return ;;
      *) seconds="" ;;
    esac
    if [[ ! "$seconds" =~ ^[1-9][0-9]*$ || ("$1" = --target && -z "$name") ]]; then
      fuzz_usage >&2
      return 2
    fi
    [ "$1" = --asan ] || shift
    shift
  done
  if ! install_missing clang libclang-rt-14-dev; then
    echo "muster: fuzzing needs Clang and its libFuzzer; install Debian's packages clang and libclang-rt-14-dev" >&2
    return 1
  fi
  mapfile -t targets < <(fuzz_targets "$name")
  if [ ${#targets[@]} -eq 0 ]; then
    echo "muster: there is no fuzz target ${name:-at all}; without --target all run, by name" >&2
    return 2
  fi
  say_cost 12 "the fuzz targets" "$root/bazel-fuzz-bin"
  if ! run_bazel build "${flags[@]}" "${targets[@]}"; then
    echo "muster: the build failed" >&2
    return 1
  fi
  for label in "${targets[@]}"; do
    run_fuzz_target "$label" "$seconds" || failed=$((failed + 1))
  done
  echo "${#targets[@]} targets, $failed failed"
  [ "$failed" -eq 0 ]
}
