# Sourced by scripts of tests/checks that drive programs: goes to an empty directory of its own, which goes
# away with the script, and judges what stands in the files out and err there. The program is $PLAIT, by
# default that of the release build. A script ends with `exit $bad`.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export PLAIT=${PLAIT:-$root/build/release/bin/plait}
export LC_ALL=C.UTF-8
unset JAVA_TOOL_OPTIONS JDK_JAVA_OPTIONS _JAVA_OPTIONS # of which a JVM speaks on stderr
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
number=0 bad=0

judge() { # CODE WHAT: 0 is ok
  number=$((number + 1))
  if [ "$1" = 0 ]; then
    echo "ok $number - $2"
  else
    echo "not ok $number - $2"
    cat out err 2>/dev/null | sed 's/^/# /' | head -n 12
    bad=1
  fi
}
run() { "$PLAIT" "$@" >out 2>err </dev/null; }
# expect CODE PATTERN WHAT ARGUMENT…: the exit code, and a line of stderr that begins with `plait: PATTERN`,
# among as many that begin with `plait: ` as error_lines says where it is set.
expect() {
  local code=$1 pattern=$2 what=$3
  shift 3
  run "$@"
  local got=$?
  [ $got = "$code" ] || echo "exit code $got, expected $code" >>err
  [ $got = "$code" ] && grep -q -- "^plait: $pattern" err &&
    [ "$(grep -c '^plait: ' err)" = "${error_lines:-$(grep -c '^plait: ' err)}" ]
  judge $? "$what"
}
check() { python3 -c "import json, math; $1" 2>>err; } # PYTHON
numbers() { # METRICS: what equal runs have in common, a line for each step
  python3 -c '
import json, sys
for line in map(json.loads, open(sys.argv[1])):
    if "loss" in line: print(*(repr(line[key]) for key in ("step", "loss", "grad_norm", "lr")))' "$1"
}
