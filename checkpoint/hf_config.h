// config.json of a Hugging Face directory: into Plait's model keys, and back.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/model_facts.h"
#include "kernels/base/dtype.h"
#include "kernels/base/env.h"

namespace plait {

struct HfConfig {
  ModelFacts facts;
  std::vector<std::pair<std::string, std::string>> keys;  ///< ("model.hidden", "768"), …
  std::vector<std::string> warnings;                      ///< unknown keys, by name
  std::vector<std::string> notes;  ///< training settings in the file that are not imported
  std::string text;                ///< the file as it stands, for property `hf.config`
};

/// Reads DIRECTORY/config.json. `no_file`, `invalid_field` (path, value, limit), or
/// `unsupported_model` naming whatever changes the function and is not built.
HfConfig read_hf_config(Files& files, const std::string& directory);

/// The same from text; `file` stands in errors.
HfConfig parse_hf_config(std::string text, const std::string& file);

/// The model keys of c_abi that `facts` sets; `model.rope_base` for llama only.
std::vector<std::pair<std::string, std::string>> model_keys(const ModelFacts& facts);

/// config.json for an export: `original` (text of an earlier one, or empty) with every key that
/// Plait knows rewritten. `config_mismatch` when `original` is of another family.
std::string write_hf_config(const ModelFacts& facts, DType dtype, std::string_view original);

}  // namespace plait
