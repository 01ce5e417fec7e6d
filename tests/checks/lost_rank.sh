#!/usr/bin/env bash
# A rank lost among four processes, in short; tests/faults/lost_rank N tries more moments.
exec "$(dirname "$0")/../faults/lost_rank" 3
