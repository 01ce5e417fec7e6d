#!/usr/bin/env bash
# samples/oracle on every case of the reference, and samples/train.c against the installed library. Prints TAP.
. "$(dirname "$0")/../support/tap.sh"

for case in "$root"/tests/oracle/cases/*/; do
  for option in layout.micro_batch=1 layout.micro_batch=2 precision.compute=bf16; do
    tolerance=$([ $option = precision.compute=bf16 ] && echo "--rtol 1e-2 --grad-rtol 5e-2")
    "$root/samples/oracle" "$case" oracle.jsonl --quiet --set $option >out 2>err &&
      python3 "$root/tests/oracle/compare.py" "$case" oracle.jsonl $tolerance >out
    judge $? "samples/oracle $(basename "$case") $option"
  done
done
PLAIT=$PLAIT "$root/samples/oracle" "$root/tests/oracle/cases/gpt2_tiny" oracle.jsonl --set run.steps=2 --set model.heads=5 >out 2>err
[ $? = 2 ]
judge $? "samples/oracle hands options and exit code through"

library=$(dirname "$(dirname "$PLAIT")")
if cmake --install "$library" --prefix "$work/P" >out 2>err && export PKG_CONFIG_PATH=$work/P/lib/pkgconfig &&
  cc -Wall -Wextra -Werror "$root/samples/train.c" -o train $(pkg-config --cflags --libs plait) 2>err; then
  export LD_LIBRARY_PATH=$work/P/lib
  ./train >out 2>err && grep -q '^step  60 ' out
  judge $? "samples/train.c against the installed library"
  valgrind -q --leak-check=full --errors-for-leak-kinds=definite --error-exitcode=9 ./train >out 2>err
  judge $? "samples/train.c leaks nothing"
  P/bin/plait --version >out 2>err
  judge $? "the installed program finds its library"
else
  judge 1 "samples/train.c builds against the installed library"
fi

echo "1..$number"
exit $bad
