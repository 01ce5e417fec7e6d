#!/usr/bin/env bash
# Documentation: every declaration of the public headers, every command, option and exit code in the man page,
# and a guide whose pieces of C run. Prints TAP.
. "$(dirname "$0")/../support/tap.sh"
build=$(dirname "$(dirname "$PLAIT")")
include=$root/capi/include

# Doxygen fails on what is not documented.
doxygen "$build/capi/Doxyfile" >out 2>err
judge $? "every declaration of the public headers is documented"
check '
import re, sys
text = open("'"$include"'/plait/plait.h", encoding="utf-8").read()
values = re.findall(r"^\s*(?:enum \{ )?(PLAIT_\w+) = [^\n]*", text, re.M)
bare = re.findall(r"^\s*(?:enum \{ )?(PLAIT_\w+) = (?!\d+,? *\/\*\*<)", text, re.M)
assert len(values) > 50 and not bare, bare'
judge $? "so is every constant, at which Doxygen does not look"
missing=$(grep -ohE 'PLAIT_CALL plait_[a-z0-9_]+' "$include"/plait/*.h | sed 's/.* //' | sort -u |
  while read -r name; do grep -qsw "$name" "$build"/doc/html/plait*8h.html || echo "$name"; done)
echo "$missing" >err
[ -z "$missing" ] && grep -q 'Embed Plait' "$build/doc/html/index.html"
judge $? "all functions and the guide are in the HTML"
cp -r "$include/plait" changed
for line in 'double grad_norm' 'typedef struct plait_group plait_group'; do
  sed "s|^\( *$line[^/]*\)/\*\*<.*|\1|" "$include/plait/plait.h" >changed/plait.h
  ! cmp -s "$include/plait/plait.h" changed/plait.h &&
    { cat "$build/capi/Doxyfile"; echo "INPUT = $work/changed"; echo "OUTPUT_DIRECTORY = $work"; echo "GENERATE_HTML = NO"
      echo "GENERATE_XML = YES"; echo "USE_MDFILE_AS_MAINPAGE ="; } | doxygen - >out 2>err
  [ $? != 0 ] && grep -q "${line##* }.*is not documented" err
  judge $? "an undocumented declaration is found: $line"
done

page=$root/bindings/cli/plait.1
groff -man -ww -z "$page" >out 2>err && [ ! -s err ]
judge $? "the man page is well formed"
sed 's/\\-/-/g; s/\\~\|\\.|\|"//g' "$page" >text
has() { grep -qE -- "$1" text || echo "the man page lacks: $1" >>err; } # PATTERN
run help && grep -oE '^  plait [a-z-]+( [a-z]+)?' out | sed 's/^  //' | sort -u >commands
sed -n '/Exit codes:/,$p' out | tr '\n' ' ' | sed 's/.*Exit codes/Exit codes/' | grep -oE '(: |, )[0-9]+ ' | grep -oE '[0-9]+' >codes
: >err
while read -r command; do has "^\.(BI?|SY) $command"; done <commands
[ ! -s err ] && [ "$(wc -l <commands)" -ge 12 ]
judge $? "the man page has every command"
sed -n '/^\.SH EXIT STATUS/,/^\.SH FILES/p' text >status
while read -r code; do grep -qx "\.B $code" status || echo "the man page lacks exit code $code" >>err; done <codes
[ ! -s err ] && [ "$(wc -l <codes)" = "$(grep -cE '^\.B [0-9]+$' status)" ]
judge $? "the man page has every exit code, and no other"
sed 's/plait \([a-z-]*\).*/\1/' commands | sort -u >topics
while read -r topic; do
  [ "$topic" = help ] || run help "$topic" || echo "no help $topic" >>wrong
  grep -oE '(^| |,)-{1,2}[a-z][a-z-]*' out | sed 's/^[ ,]*//' >>options
done <topics
cp wrong err 2>/dev/null || : >err
while read -r option; do has "(^|[ (])$option([ ,]|$)"; done < <(sort -u options)
[ ! -s err ] && [ "$(sort -u options | wc -l)" -ge 20 ]
judge $? "the man page has every option"
grep -q "\"plait $("$PLAIT" --version | sed -n 's/^plait \([0-9]*\.[0-9]*\)\..*/\1/p')\"" "$page"
judge $? "the man page is of this version"

# What a guide shows as C stands in a sample, and the samples run; what it names in the repository is there.
check '
import glob, os, re
root = "'"$root"'"
samples = "\n".join(open(path, encoding="utf-8").read() for path in glob.glob(root + "/samples/*.c"))
pages = glob.glob(root + "/capi/doc/*.md") + [root + "/samples/orchestrators/README.md"]
blocks = 0
for page in pages:
    text = open(page, encoding="utf-8").read()
    for block in re.findall(r"```c\n(.*?)```", text, re.S):
        blocks += 1
        assert block in samples, (page, block)
    for path in re.findall(r"`((?:samples|bindings|capi|tests)/[\w./-]*)`", text):
        assert os.path.exists(os.path.join(root, path)), (page, path)
assert blocks >= 5, blocks'
judge $? "the pieces of C in the guides stand in samples"
cc -O1 -Wall -Wextra -Wpedantic -Werror -I"$include" "$root/samples/embed.c" -o embed -L"$build/lib" -lplait \
  -Wl,-rpath,"$build/lib" -pthread 2>err && ./embed ROOT >out 2>err
[ $? = 0 ] && grep -qx 'lost by aborted, starting again' out && [ "$(grep -c '^step 25 ' out)" = 2 ] &&
  [ "$(grep '^step 25 ' out | uniq | wc -l)" = 1 ] && grep -q '^step 40 ' out && ls ROOT | grep -qx step-000000000040
judge $? "samples/embed.c loses an engine, and goes on with the same losses"
./embed ROOT >out 2>err && ! grep -q '^step' out
judge $? "samples/embed.c finds that nothing is left to do"
exit $bad
