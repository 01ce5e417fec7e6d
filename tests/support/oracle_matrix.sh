#!/usr/bin/env bash
# Every oracle case in every setting of one rank, through the program. Prints TAP.
cd "$(dirname "$0")/../.." || exit 1
metrics=$(mktemp)
trap 'rm -f "$metrics"' EXIT
for case in tests/oracle/cases/*/; do
  for micro in 1 2 4 8; do
    for isa in baseline ssse3 sse4 avx2 avx512 avx512_bf16 amx; do
      for mode in "fp32 none 2e-5 2e-4" "fp32 full 2e-5 2e-4" "bf16 none 1e-2 5e-2" "fp16 none 1e-2 5e-2"; do
        set -- $mode
        name="$(basename "$case") micro $micro $isa $1 recompute $2"
        if samples/oracle "$case" "$metrics" --quiet --set layout.micro_batch=$micro --set isa=$isa --set precision.compute=$1 \
          --set layout.recompute=$2 --set precision.loss_scale_start=1024 >/dev/null 2>&1 &&
          python3 tests/oracle/compare.py "$case" "$metrics" --rtol $3 --grad-rtol $4 >/dev/null; then
          echo "ok - $name"
        else
          echo "not ok - $name"
        fi
      done
    done
  done
done
