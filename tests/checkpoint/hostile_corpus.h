// Hostile files of every format that a checkpoint is read from, made in code, each beside the word
// that its reader must end in. No file is on a disk; some are seeds of the fuzz targets.
#pragma once

#include <string>
#include <vector>

namespace plait {

struct HostileFile {
  enum class Kind { kManifest, kIndex, kShardHeader, kSafetensors };
  Kind kind = Kind::kManifest;
  std::string name;  ///< what is wrong with it
  std::string bytes;
  std::string word;                ///< of the error
  std::vector<std::string> parts;  ///< of its message
};

std::vector<HostileFile> hostile_manifests();
std::vector<HostileFile> hostile_indexes();  ///< of `IndexedStep`
std::vector<HostileFile> hostile_shard_headers();
std::vector<HostileFile> hostile_safetensors();

/// All of them.
std::vector<HostileFile> hostile_files();

/// Reads one as files of its kind are read; throws what its reader throws.
void read_hostile(HostileFile file);

}  // namespace plait
