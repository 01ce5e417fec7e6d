#!/usr/bin/env bash
# Bad input to the `plait` program: one line on stderr with code, word, names and numbers, the exit
# code of its kind, and no file left behind. Prints TAP. The program is $PLAIT.
root=$(cd "$(dirname "$0")/../.." && pwd)
export PLAIT=${PLAIT:-$root/build/release/bin/plait}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
bad=0

python3 - <<'END'
import json, os, random, struct
random.seed(3)
u16 = lambda ids: struct.pack("<%dH" % len(ids), *ids)
open("tokens", "wb").write(u16([random.randrange(61) for _ in range(4000)]))
open("empty", "wb")
open("beyond", "wb").write(u16([5] * 100 + [61] + [5] * 900))
def index(name, lengths):
    out = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, len(lengths), len(lengths) + 1)
    out += struct.pack("<%di" % len(lengths), *lengths)
    out += struct.pack("<%dq" % len(lengths), *[2 * sum(lengths[:i]) for i in range(len(lengths))])
    open(name, "wb").write(out + struct.pack("<%dq" % (len(lengths) + 1), *range(len(lengths) + 1)))
for name, lengths in (("good", [400, 600]), ("long", [400, 601]), ("negative", [900, -1])):
    open(name + ".bin", "wb").write(u16([7] * 1000))
    index(name + ".idx", lengths)
open("cut.bin", "wb").write(u16([7] * 1000))
open("cut.idx", "wb").write(open("good.idx", "rb").read()[:30])

h, v, s = 8, 61, 16
shapes = {"wte.weight": [v, h], "wpe.weight": [s, h], "ln_f.weight": [h], "ln_f.bias": [h]}
for name, shape in (("ln_1.weight", [h]), ("ln_1.bias", [h]), ("ln_2.weight", [h]), ("ln_2.bias", [h]),
                    ("attn.c_attn.weight", [h, 3 * h]), ("attn.c_attn.bias", [3 * h]), ("attn.c_proj.weight", [h, h]),
                    ("attn.c_proj.bias", [h]), ("mlp.c_fc.weight", [h, 4 * h]), ("mlp.c_fc.bias", [4 * h]),
                    ("mlp.c_proj.weight", [4 * h, h]), ("mlp.c_proj.bias", [h])):
    shapes["h.0." + name] = shape
def model(name, change=lambda header, data: None):
    os.mkdir(name)
    json.dump({"model_type": "gpt2", "n_layer": 1, "n_embd": h, "n_head": 2, "vocab_size": v, "n_positions": s},
              open(name + "/config.json", "w"))
    header, data = {}, bytearray()
    for tensor, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        begin = len(data)
        data += struct.pack("<%df" % count, *[random.uniform(-.1, .1) for _ in range(count)])
        header[tensor] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, len(data)]}
    change(header, data)
    text = json.dumps(header).encode()
    open(name + "/model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + data)
def rename(header, old, new):
    header[new] = header.pop(old)
def nan(header, data):
    data[0:4] = struct.pack("<f", float("nan"))
model("hf")
model("lying", lambda header, data: header["ln_f.bias"].update(shape=[h + 1]))
model("truncated", lambda header, data: data.__delitem__(slice(len(data) - 4, None)))
model("names", lambda header, data: [rename(header, "ln_f.bias", "ln_g.bias"), rename(header, "wpe.weight", "wpf.weight")])
model("nan", nan)
model("hollow")
open("hollow/model.safetensors", "wb")
END
cat >config.json <<'END'
{"model": {"family": "gpt2", "layers": 1, "hidden": 8, "heads": 2, "vocab_size": 61, "sequence_length": 16},
 "train": {"global_batch": 4}, "data": {"train": "tokens"}, "run": {"steps": 2}}
END
find . | sort >"$work.before"
trap 'rm -rf "$work" "$work.before"' EXIT

refused() { # CODE WHAT PATTERN,PATTERN,… ARGUMENT…
  local code=$1 what=$2 got problem="" pattern
  local -a patterns
  IFS=, read -ra patterns <<<"$3"
  shift 3
  "$PLAIT" "$@" >"$work.out" 2>"$work.err" </dev/null
  got=$?
  [ $got = "$code" ] || problem+=" exit code $got, expected $code;"
  [ "$(wc -l <"$work.err")" = 1 ] || problem+=" not one line on stderr;"
  [ ! -s "$work.out" ] || problem+=" something on stdout;"
  for pattern in "${patterns[@]}"; do
    grep -qF -- "$pattern" "$work.err" || problem+=" no $pattern;"
  done
  find . | sort | cmp -s - "$work.before" || problem+=" files were left: $(find . | sort | comm -13 "$work.before" - | tr '\n' ' ')"
  if [ -z "$problem" ]; then
    echo "ok - $what"
  else
    bad=1
    echo "not ok - $what"
    echo "#$problem"
    sed 's/^/# /' "$work.err" | head -n 5
  fi
  rm -f "$work.out" "$work.err"
}
train() { # WHAT PATTERNS CODE SETTING…
  local what=$1 patterns=$2 code=$3 setting
  local -a settings=()
  shift 3
  for setting in "$@"; do settings+=(--set "$setting"); done
  refused "$code" "$what" "$patterns" train config.json --quiet "${settings[@]}"
}

train "an unknown key" "INVALID_ARGUMENT: argument: ,train.global_bach,nearest=train.global_batch" 2 train.global_bach=8
train "a value out of range" "INVALID_ARGUMENT: argument: ,optimizer.beta1,1.5" 2 optimizer.beta1=1.5
train "a number that is none" "INVALID_ARGUMENT: argument: ,model.layers,three" 2 model.layers=three
train "hidden and heads" "INVALID_ARGUMENT: argument: ,8,3" 2 model.heads=3
train "batch and micro-batch" "INVALID_ARGUMENT: argument: ,10,4" 2 train.global_batch=10 layout.micro_batch=4
train "a micro-batch larger than the batch" "INVALID_ARGUMENT: argument: ,layout.micro_batch,8,4" 2 layout.micro_batch=8
train "a sequence longer than the model" "INVALID_ARGUMENT: argument: ,17,16" 2 train.sequence_length=17
train "an empty token file" "DATA_LOSS: dataset_truncated: ,path=empty" 5 data.train=empty
train "a token beyond the vocabulary" "DATA_LOSS: dataset_token: ,path=beyond,index=100,value=61,vocabulary=61" 5 \
  data.train=beyond data.shuffle=false
train "an index that counts more than the .bin" "DATA_LOSS: dataset_truncated: ,long,want=,got=" 5 data.train=long.bin
train "a negative length" "DATA_LOSS: dataset_lengths: ,negative,got=-1" 5 data.train=negative.bin
train "an index cut off" "DATA_LOSS: dataset_truncated: ,cut.idx" 5 data.train=cut.bin
train "too little data" "INVALID_ARGUMENT: argument: ,path=good.bin,tokens=1000,sequence_length=2000" 2 data.train=good.bin \
  model.sequence_length=2000
refused 5 "a safetensors header that lies" "DATA_LOSS: invalid_field: ,lying/model.safetensors,ln_f.bias" \
  train config.json --quiet --load lying
refused 5 "weights that end too soon" "DATA_LOSS: invalid_field: ,truncated/model.safetensors" \
  train config.json --quiet --load truncated
refused 5 "an empty weights file" "DATA_LOSS: invalid_field: ,hollow/model.safetensors" \
  train config.json --quiet --load hollow
refused 2 "missing and extra tensors, all of them" "name_mismatch: ,ln_f.bias,ln_g.bias,wpe.weight,wpf.weight" \
  train config.json --quiet --load names
refused 1 "a NaN weight" "OUT_OF_RANGE: nonfinite_loss: ,step=1" train config.json --quiet --load nan
refused 1 "a NaN weight, looked for" "OUT_OF_RANGE: nonfinite_weights: ,tensor=,index=0" \
  train config.json --quiet --load nan --set checkpoint.check_finite=true
refused 2 "no training data" "INVALID_ARGUMENT: argument: ,data.train" train config.json --quiet --set 'data.train=[]'
refused 2 "an empty prompt" "INVALID_ARGUMENT: argument: ,prompt" generate config.json --load hf --prompt ''
refused 5 "an export of what is damaged" "DATA_LOSS: invalid_field: " convert export lying out
refused 2 "an export of what is not there" "NOT_FOUND: " convert export none out
refused 1 "an export onto something" "ALREADY_EXISTS: target_exists: " convert export hf nan
refused 5 "an inspection of what is damaged" "DATA_LOSS: invalid_field: " inspect lying
refused 2 "a text that is not there" "NOT_FOUND: no_file: " tokenize none out
exit $bad
