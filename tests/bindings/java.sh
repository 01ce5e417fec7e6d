#!/usr/bin/env bash
# The Java binding on the installed library: the conformance list under -Xcheck:jni, the samples beside
# those of C, the ways in which the jar is loaded. `java.sh abuse` runs tests/bindings/java/Abuse.java
# alone, `java.sh build` only builds. Prints TAP.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../support/tap.sh"
. "$here/../support/hosts.sh"
out=$hosts/java
mkdir -p "$out" tmp
hosts_install && "$root/bindings/java/build.sh" >out 2>err
judge $? "the binding builds from its sources"
[ $bad = 0 ] || exit 1

rpath=-Wl,-rpath,$hosts_prefix/lib # of C programs, which find the library without a word in the environment
is_newer() { [ ! -e "$1" ] || [ -n "$(find "${@:2}" -newer "$1" -print -quit)" ]; } # PRODUCT SOURCE…
build_tests() {
  if is_newer "$out/tests/Train.class" "$out/plait.jar" "$here"/java/*.java "$root"/samples/host/java/*.java; then
    rm -rf "$out/tests"
    # The signals of the sample are in a class that javac always warns of.
    javac --release 17 -encoding UTF-8 -Xlint:all -cp "$out/plait.jar" -d "$out/tests" \
      "$here"/java/*.java "$root"/samples/host/java/*.java || return
  fi
  if is_newer "$out/reference" "$here/java/reference.c" "$hosts_prefix/lib/libplait.so"; then
    # shellcheck disable=SC2046
    cc -std=c99 -Wall -Wextra -Werror "$here/java/reference.c" -o "$out/reference" \
      $(pkg-config --cflags --libs plait) "$rpath" || return
  fi
  if is_newer "$out/train" "$root/samples/host/c/train.c" "$hosts_prefix/lib/libplait.so"; then
    # shellcheck disable=SC2046
    cc -std=c99 "$root/samples/host/c/train.c" -o "$out/train" $(pkg-config --cflags --libs plait) "$rpath" || return
  fi
}
build_tests >out 2>err
judge $? "tests and samples are compiled"
[ $bad = 0 ] || exit 1
[ "${1:-}" = build ] && exit 0

# The loader finds nothing but what the jar carries. The heap is resident from the start, so that what
# resident memory grows by is native; names of files are UTF-8 whatever the locale.
unset LD_LIBRARY_PATH
jvm=(java -Xcheck:jni -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xms64m -Xmx64m -XX:+AlwaysPreTouch
  -Dsun.jnu.encoding=UTF-8 -Djava.io.tmpdir="$work/tmp")
export LC_ALL=C.UTF-8
class_path=$out/plait.jar:$out/tests

# Passes its TAP lines on, and judges what else came.
run_java() { # CLASS ARGUMENT…
  "${jvm[@]}" -cp "$class_path" "$@" >out 2>err
  local code=$?
  grep -E '^(ok|not ok|#)' out
  [ $code = 0 ] || bad=1
  ! grep -qE '^not ok' out && [ $code = 0 ]
  judge $? "$1 ends with code 0"
  ! grep -hE '^(WARNING|FATAL ERROR) in native method|^WARNING: JNI' out err >warnings
  judge $? "-Xcheck:jni has nothing to say about $1"
}

if [ "${1:-}" = abuse ]; then
  run_java Abuse
  grep -q 'engine was never closed' err
  judge $? "what was dropped is reported"
  exit $bad
fi

mkdir data
run_java Conformance "$out/reference" "$work/data"
[ ! -s err ]
judge $? "nothing is written to stderr"
[ -z "$(ls tmp)" ]
judge $? "nothing is left in the temporary directory"

# The samples, on a model that takes milliseconds.
tiny() { # LAYOUT
  echo '{"model": {"family": "llama", "layers": 2, "hidden": 32, "heads": 2, "vocab_size": 256,
    "sequence_length": 32}, "layout": {"micro_batch": 2, '"$1"'}, "threads": 2,
    "train": {"global_batch": 4, "dropout": 0.1}, "optimizer": {"lr": 3e-3}, "run": {"steps": 30}}'
}
tiny '"tensor": 2' >tensor.json
tiny '"data": 2' >data.json
text=$root/LICENSE
java_train=("${jvm[@]}" -cp "$class_path" Train)
"$out/train" tensor.json "$text" >in_c 2>err
"${java_train[@]}" tensor.json "$text" >out 2>err && [ "$(wc -w <in_c)" = 30 ] && cmp in_c out 2>>err &&
  [ "$(grep -cE '^step [0-9]+/30 loss [0-9]+\.[0-9]{4} \| [0-9]+ tokens/s$' err)" = 30 ]
judge $? "Train prints the 30 losses of C"

"${java_train[@]}" tensor.json "$text" --steps 12 --checkpoint saved >first 2>err &&
  java --module-path "$out/plait.jar" --add-modules dev.plait -cp "$out/tests" -Djava.io.tmpdir="$work/tmp" Train \
    tensor.json "$text" --checkpoint saved --resume >rest 2>>err &&
  [ "$(wc -w <first) $(wc -w <rest)" = "12 18" ] && cat first rest | tr '\n' ' ' | sed 's/ $/\n/' | cmp - in_c 2>>err
judge $? "Train goes on after its checkpoint with the losses of C, loaded as a module"

"${java_train[@]}" tensor.json "$text" --steps 100000 --checkpoint stopped >out 2>err &
train=$!
for ((i = 0; i < 1200; i++)); do grep -q '^step 3/' err && break; sleep 0.05; done
kill -TERM $train
wait $train
code=$?
[ $code = 3 ] && [ "$(wc -l <out)" = 1 ] && [ "$(wc -w <out)" = "$(grep -c '^step' err)" ] &&
  [ "$(wc -w <out)" -ge 3 ] && ls stopped/step-* >/dev/null 2>>err
judge $? "SIGTERM ends Train after a step with code 3 and a checkpoint (code $code)"

"${java_train[@]}" tensor.json >out 2>err
[ $? = 2 ] && grep -q '^usage: train ' err && [ ! -s out ]
judge $? "a usage error ends with code 2"
sed 's/"layers": 2/"layers": -2/' tensor.json >wrong.json
"${java_train[@]}" wrong.json "$text" >out 2>err
[ $? = 1 ] && grep -q '^train: INVALID_ARGUMENT: argument: ' err && [ ! -s out ]
judge $? "an error ends with code 1, its name and its message"

mkdir cards
"$out/train" data.json "$text" --steps 10 >in_c 2>err
"${jvm[@]}" -cp "$class_path" Pair tensor.json "$text" 1 cards --steps 10 >out.1 2>err.1 &
"${jvm[@]}" -cp "$class_path" Pair tensor.json "$text" 0 cards --steps 10 >out 2>err &&
  wait $! && [ "$(wc -w <in_c)" = 10 ] && cmp in_c out 2>>err && cmp in_c out.1 2>>err
judge $? "two processes that exchange cards train as C does in one"

sed -n '/^    import dev.plait/,/^    }$/s/^    //p' "$root/bindings/java/README.md" >Loop.java
java -cp "$out/plait.jar" Loop.java >out 2>err && [ "$(grep -c '^step .* loss ' out)" = 5 ] &&
  sort -c -k4,4gr out 2>>err
judge $? "the loop of the README trains"

cp -r "$out/jar" thin && rm -r thin/dev/plait/internal/linux-*
java -Djava.library.path="$(dirname "$(find "$out/jar" -name libplait_java.so)")" \
  -cp "thin:$out/tests" Train tensor.json "$text" --steps 1 >out 2>err && [ "$(wc -w <out)" = 1 ]
judge $? "without libraries of its own the binding looks on java.library.path"
java -cp "thin:$out/tests" Train tensor.json "$text" --steps 1 >out 2>err
[ $? = 1 ] && grep -q 'UnsatisfiedLinkError.*plait_java' err
judge $? "a library that is nowhere is named"
exit $bad
