#include "engine/data/tokenizer.h"

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "capi/src/arguments.h"
#include "capi/src/bytes.h"
#include "capi/src/config.h"
#include "capi/src/context.h"
#include "capi/src/guard.h"
#include "capi/src/op.h"
#include "engine/config/settings.h"
#include "engine/data/encode_file.h"
#include "kernels/base/json_text.h"

struct plait_tokenizer final : plait::Handle {
  static constexpr plait::HandleKind kKind = plait::HandleKind::kTokenizer;
  plait_tokenizer(plait::Ref<plait_context> context, std::shared_ptr<const plait::Tokenizer> value)
      : Handle(kKind), context(std::move(context)), value(std::move(value)) {}

  const plait::Ref<plait_context> context;
  const std::shared_ptr<const plait::Tokenizer> value;
};

using plait::guard;
using plait::Held;

namespace {

plait::EncodeFileOptions encode_options(const plait::Config& config) {
  const plait::TokenizeConfig keys = plait::make_tokenize(config);
  plait::EncodeFileOptions options;
  options.is_indexed = keys.format == plait::TokenFormatChoice::kIndexed;
  options.lines = keys.documents == plait::DocumentsChoice::kLine;
  options.is_special = keys.special;
  const int64_t threads = plait::make_device(config).threads;
  options.threads =
      static_cast<int>(threads > 0 ? std::min<int64_t>(threads, 1024)
                                   : std::max<int64_t>(1, std::thread::hardware_concurrency()));
  return options;
}

}  // namespace

int32_t plait_tokenizer_open(plait_context* context, const char* kind, const char* directory,
                             plait_tokenizer** tokenizer, plait_error** err) {
  const plait::HandleOut<plait_tokenizer> out(tokenizer, "tokenizer");
  return guard(err, [&] {
    out.check();
    const Held<plait_context> held(context, "context");
    const std::string name = plait::text_argument(kind, "kind");
    const std::string path = plait::optional_text(directory, "directory");
    if (name == "gpt2") plait::text_argument(directory, "directory");
    out.set(new plait_tokenizer(held.ref(), plait::open_tokenizer(held->env.files, name, path)));
  });
}

int64_t plait_tokenizer_vocab_size(const plait_tokenizer* tokenizer) {
  return plait::may_answer() && plait::is_live(tokenizer) ? tokenizer->value->vocab_size() : 0;
}

int32_t plait_tokenizer_encode(const plait_tokenizer* tokenizer, const void* text, int64_t bytes,
                               plait_bytes** tokens, plait_error** err) {
  const plait::BytesOut out(tokens, "tokens");
  return guard(err, [&] {
    out.check();
    const Held<plait_tokenizer> held(tokenizer, "tokenizer");
    out.set(held->value->encode(plait::bytes_argument(text, bytes, "text")));
  });
}

int32_t plait_tokenizer_decode(const plait_tokenizer* tokenizer, const int32_t* tokens,
                               int64_t count, plait_bytes** text, plait_error** err) {
  const plait::BytesOut out(text, "text");
  return guard(err, [&] {
    out.check();
    const Held<plait_tokenizer> held(tokenizer, "tokenizer");
    plait::check_range(count, 0, INT64_MAX / 4, "count");
    plait::bytes_argument(tokens, count * 4, "tokens");
    plait::check_aligned(tokens, "tokens");
    std::string decoded;
    if (count > 0) held->value->decode(tokens, count, &decoded);
    out.set(std::move(decoded));
  });
}

int32_t plait_tokenizer_encode_file(const plait_tokenizer* tokenizer, const plait_config* options,
                                    const char* input, const char* output, plait_op** op,
                                    plait_error** err) {
  const plait::HandleOut<plait_op> out(op, "op");
  return guard(err, [&] {
    out.check();
    const Held<plait_tokenizer> held(tokenizer, "tokenizer");
    const plait::Config config = plait::copy_config_or_default(options, "options");
    const std::string from = plait::text_argument(input, "input");
    const std::string to = plait::text_argument(output, "output");
    const plait::EncodeFileOptions encode = encode_options(config);
    if (encode.is_special) held->value->require_special();
    auto body = [tokenizer = held->value, encode, from, to,
                 &env = held->context->env](plait::AsyncOperation& operation) {
      plait::EncodeFileOptions run = encode;
      run.progress = [&](int64_t done, int64_t total) { operation.set_progress(done, total); };
      run.cancel = &operation.cancel_flag();
      const plait::EncodeFileResult result = plait::encode_file(env, *tokenizer, from, to, run);
      return plait::JsonObject()
          .field("input", from)
          .field("output", to)
          .field("bytes", result.bytes)
          .field("tokens", result.tokens)
          .field("documents", result.documents)
          .text();
    };
    out.set(plait::start_op(held->context, "plait-encode", std::move(body)).release());
  });
}

void plait_tokenizer_free(plait_tokenizer* tokenizer) {
  plait::guard_void([&] { plait::free_handle(tokenizer); });
}
