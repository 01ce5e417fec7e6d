# Sourced by tests/check and tests/soak: builds presets, runs test programs, scripts and fuzz targets,
# and counts. A Catch2 program counts its test cases; a script prints TAP lines (`ok …`, `not ok …`)
# or ends with `N passed, N failed`. With show_tables=1 the tables that programs print (lines that
# begin with `| `) are shown.

jobs=$(nproc)

build_preset() { # PRESET [TARGET…]
  local preset=$1 log=build/$1.log
  shift
  mkdir -p build
  echo "Building preset $preset ($(date +%T))"
  if ! { cmake --preset "$preset" && cmake --build --preset "$preset" -j "$jobs" ${*:+--target "$@"}; } >"$log" 2>&1; then
    grep -E -A12 'error:|FAILED:|CMake Error' "$log" | head -n 60
    echo "The build of preset $preset failed; its whole output is in $log"
    return 1
  fi
}

begin_tests() {
  results=$(mktemp -d)
  started=$SECONDS
}

# One line for each program or script: name, passed, failed, seconds; details only when something failed.
# Written in one piece, since several may end at once.
record() { # NAME PASSED FAILED SECONDS LOG
  printf '%s\t%s\t%s\n' "$1" "$2" "$3" >>"$results/counts"
  local text
  text=$(
    [ "${show_tables:-0}" = 1 ] && grep -s '^| ' "$5"
    printf '%-44s %5s passed %3s failed %6ss' "$1" "$2" "$3" "$4"
    [ "$3" = 0 ] || { echo && tail -n 60 "$5" | sed 's/^/    | /'; }
  )
  printf '%s\n' "$text"
}

# At most one job for each core in the background; all_done waits for the rest.
one_more() { while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done; }
all_done() { wait; }

run_program() { # PRESET PROGRAM TIMEOUT [FILTER]
  local preset=$1 program=$2 limit=$3 log="$results/$1.$2.log" begin=$SECONDS code passed failed
  timeout -k 10 "$limit" "build/$preset/bin/$program" "${@:4}" >"$log" 2>&1 </dev/null
  code=$?
  passed=$(sed -n 's/^All tests passed (.* in \([0-9]*\) test cases\{0,1\})$/\1/p;
    s/^test cases: *[0-9]* *| *\([0-9]*\) passed.*/\1/p' "$log" | tail -n 1)
  failed=$(sed -n 's/^test cases:.*| *\([0-9]*\) failed.*/\1/p' "$log" | tail -n 1)
  passed=${passed:-0} failed=${failed:-0}
  if [ $code != 0 ] && [ "$failed" = 0 ]; then
    failed=1
    [ $code = 124 ] && echo "no end within $limit s" >>"$log" || echo "ended with code $code" >>"$log"
  fi
  [ $code = 0 ] && [ "$passed" = 0 ] && failed=1 && echo "no test case ran" >>"$log"
  record "$preset/$program${4:+ $4}" "$passed" "$failed" $((SECONDS - begin)) "$log"
}

# Programs under these labels look at no clock: several run at once. The others have the machine alone.
together='base|ops|kernels|config|schedule|data|layers|tensor_parallel|model|optimizer|planner|checkpoint|mutation'

run_listed() { # PRESET LABELS FACTOR: the programs of build/PRESET/tests.txt under labels that match
  local label program limit
  while IFS=$'\t' read -r label program limit; do
    [[ $label =~ ^($2)$ && $label =~ ^($together)$ ]] || continue
    one_more
    run_program "$1" "$program" $((limit * $3)) &
  done <"build/$1/tests.txt"
  all_done
  while IFS=$'\t' read -r label program limit; do
    [[ $label =~ ^($2)$ && ! $label =~ ^($together)$ ]] || continue
    run_program "$1" "$program" $((limit * $3))
  done <"build/$1/tests.txt"
}

run_programs() { # PRESET LABEL ("" for all)
  if [ -n "$2" ] && ! cut -f1 "build/$1/tests.txt" | grep -qxF -- "$2"; then
    echo "tests/check: no tests carry the label $2 (see --list)" >&2
    exit 2
  fi
  run_listed "$1" "${2:-.*}" 1
}

run_script() { # SCRIPT [ARGUMENT…]
  local name log begin=$SECONDS passed failed code
  name="${*#tests/}"
  log=$results/$(basename "$1")${2:+.$2}.log
  timeout -k 10 900 "$@" >"$log" 2>&1 </dev/null
  code=$?
  passed=$(grep -c '^ok ' "$log")
  failed=$(grep -c '^not ok ' "$log")
  if tail -n 1 "$log" | grep -qE '^[0-9]+ passed, [0-9]+ failed$'; then
    passed=$(tail -n 1 "$log" | sed 's/ .*//')
    failed=$(tail -n 1 "$log" | sed 's/.*, \([0-9]*\) failed/\1/')
  fi
  if [ $code != 0 ] && [ "$failed" = 0 ]; then
    failed=1
    echo "ended with code $code" >>"$log"
  fi
  [ $code = 0 ] && [ "$passed" = 0 ] && [ "$failed" = 0 ] && failed=1 && echo "nothing was tested" >>"$log"
  [ "$failed" = 0 ] || grep -A20 -E '^(not ok |FAILED)' "$log" >>"$log.short"
  [ -s "$log.short" ] && mv "$log.short" "$log"
  record "$name" "$passed" "$failed" $((SECONDS - begin)) "$log"
}

# Scripts that look at a clock, or kill processes and wait for what follows, have the machine alone.
alone='cli|launch|lost_rank|mpi|orchestrators|processes'

run_scripts() {
  local script
  for script in tests/checks/*.sh tests/checks/*.py; do
    [ -x "$script" ] && [[ ! $(basename "$script" .sh) =~ ^($alone)$ ]] || continue
    one_more
    run_script "$script" &
  done
  all_done
  for script in tests/checks/*.sh; do
    [ -x "$script" ] && [[ $(basename "$script" .sh) =~ ^($alone)$ ]] && run_script "$script"
  done
}

# Each host language: its binding, its samples, the conformance list.
run_bindings() {
  local language
  for language in go rust java csharp python; do
    one_more
    run_script tests/bindings/$language.sh &
  done
  all_done
}

# Hosts that drop handles, throw in handlers, close twice and call after that.
run_host_abuse() {
  local language
  for language in java go csharp; do run_script tests/bindings/$language.sh abuse; done
}

# ThreadSanitizer has something to see only where threads are. A test that keeps its handles to the end
# of the process keeps a finished thread too, so leaked threads are counted elsewhere (tests/host).
threaded='device|ops|kernels|data|comm|world|trainer|faults|capi|host'

run_sanitizer() { # asan | tsan
  local label program limit labels='.*' targets=""
  [ "$1" = tsan ] && labels=$threaded
  mkdir -p build
  [ "$1" = asan ] && targets=fuzz_targets
  cmake --preset "$1" >"build/$1.log" 2>&1 && while IFS=$'\t' read -r label program limit; do
    [[ $label =~ ^($labels)$ ]] && targets="$targets $program"
  done <"build/$1/tests.txt"
  if ! build_preset "$1" $targets; then
    record "$1/build" 0 1 0 "build/$1.log"
    return
  fi
  ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1:use_sigaltstack=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
    TSAN_OPTIONS=halt_on_error=1:report_thread_leaks=0:suppressions=$PWD/tests/support/tsan.supp \
    run_listed "$1" "$labels" 4
}

fuzz_target() { # PROGRAM SECONDS
  local name log begin=$SECONDS code
  name=$(basename "$1")
  log=$results/$name.log
  mkdir -p "build/fuzz/corpus/$name"
  timeout -k 10 $(($2 + 120)) "$1" -max_total_time="$2" -timeout=5 -rss_limit_mb=4096 -verbosity=0 \
    -artifact_prefix="build/fuzz/$name-" "build/fuzz/corpus/$name" >"$log" 2>&1 </dev/null
  code=$?
  record "fuzz/$name" $((code == 0)) $((code != 0)) $((SECONDS - begin)) "$log"
}

run_fuzz() { # SECONDS_EACH
  if ! build_preset asan fuzz_targets test_checkpoint; then
    record fuzz/build 0 1 0 build/asan.log
    return
  fi
  local target log=$results/seeds.log # hostile files of the checkpoint formats
  PLAIT_FUZZ_CORPORA=build/fuzz/corpus build/asan/bin/test_checkpoint "[.seeds]" >"$log" 2>&1 ||
    record fuzz/seeds 0 1 0 "$log"
  for target in build/asan/bin/fuzz_*; do
    [ -x "$target" ] || continue
    one_more
    fuzz_target "$target" "$1" &
  done
  all_done
}

end_tests() {
  local passed failed
  passed=$(awk -F '\t' '{n += $2} END {print n + 0}' "$results/counts")
  failed=$(awk -F '\t' '{n += $3} END {print n + 0}' "$results/counts")
  if [ "$failed" != 0 ]; then
    echo "Failed:"
    awk -F '\t' '$3 != 0 {print "  " $1}' "$results/counts"
  fi
  echo "Took $(((SECONDS - started) / 60)) min $(((SECONDS - started) % 60)) s"
  echo "$passed passed, $failed failed"
  rm -rf "$results"
  [ "$failed" = 0 ]
}
