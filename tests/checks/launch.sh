#!/usr/bin/env bash
# samples/launch: arguments, exit codes, and that it leaves no process (H2). Prints TAP.
. "$(dirname "$0")/../support/tap.sh"
launch=$root/samples/launch

# The command that is launched: fake MODE --rank R …; each process leaves its id behind.
cat >fake <<'END'
#!/usr/bin/env bash
mode=$1 rank=$3
echo $$ >>pids
case $mode in
  done) echo "$*" ;;
  fail) [ "$rank" = 2 ] && exit 7; exec sleep 60 ;;
  late) [ "$rank" = 2 ] && exit 7; sleep 0.5; echo told >told; exit 4 ;;
  stubborn) [ "$rank" = 2 ] && exit 9; trap '' TERM; sleep 60; sleep 60 ;;
  killed) [ "$rank" = 0 ] && kill -9 $$; exec sleep 60 ;;
  hang) exec sleep 60 ;;
esac
END
chmod +x fake
run() { # OPTION… -- MODE
  rm -f pids
  "$launch" "$@" >out 2>err
}
left() { # processes of the last run that are still there
  local pid
  while read -r pid; do [ -d "/proc/$pid" ] && echo "$pid"; done <pids
}

run --processes 3 --local-ranks 2 -- ./fake done
[ $? = 0 ] && [ "$(wc -l <out)" = 1 ] && grep -Eq '^done --rank 0 --local-ranks 2 --world 6 --join 127\.0\.0\.1:[0-9]+$' out
judge $? "rank 0 speaks on standard output"
[ "$(grep -oE -- '--rank [0-9]+' err | sort | tr '\n' ' ')" = "--rank 2 --rank 4 " ] &&
  [ "$(cat out err | grep -oE '127.0.0.1:[0-9]+' | sort -u | wc -l)" = 1 ]
judge $? "the others get their ranks and the same address"
run --processes 2 --local-ranks 2 --grace 1 -- ./fake fail
[ $? = 7 ] && [ -z "$(left)" ]
judge $? "one fails: its code, and the other is ended"
run --processes 2 --local-ranks 2 --grace 5 -- ./fake late
[ $? = 7 ] && [ -e told ]
judge $? "the others have time to tell"
begin=$SECONDS
run --processes 2 --local-ranks 2 --grace 1 -- ./fake stubborn
[ $? = 9 ] && [ -z "$(left)" ] && [ $((SECONDS - begin)) -lt 20 ]
judge $? "who does not listen is killed"
run --processes 2 --grace 1 -- ./fake killed
[ $? = 137 ] && [ -z "$(left)" ]
judge $? "a killed process counts as failed"
for signal in INT TERM; do
  rm -f pids
  env --default-signal=INT "$launch" --processes 2 -- ./fake hang >out 2>err &
  runner=$!
  for _ in $(seq 50); do [ "$(cat pids 2>/dev/null | wc -l)" = 2 ] && break; sleep 0.1; done
  kill -$signal $runner
  wait $runner
  [ $? -ge 128 ] && [ -z "$(left)" ]
  judge $? "SIG$signal goes to all"
done
run --processes 0 -- ./fake done
[ $? = 2 ] && run --local-ranks 1 -- ./fake done; [ $? = 2 ] && run --processes 2; [ $? = 2 ] && run --processes 2 -- ./nothing; [ $? = 2 ]
judge $? "mistakes in the options are refused"
exit $bad
