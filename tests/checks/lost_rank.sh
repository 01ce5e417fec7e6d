#!/usr/bin/env bash
# A rank lost among four processes (faults R1, R2, R11, H2), in short; tests/faults/lost_rank N tries more moments.
exec "$(dirname "$0")/../faults/lost_rank" 3
