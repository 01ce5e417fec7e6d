#include "tests/checkpoint/hostile_corpus.h"

#include <cstdint>
#include <iterator>
#include <utility>

#include "checkpoint/format/shard_header.h"
#include "checkpoint/safetensors.h"
#include "tests/checkpoint/format_fixture.h"
#include "tests/support/memory_files.h"

namespace plait {

std::vector<HostileFile> hostile_files() {
  std::vector<HostileFile> all;
  for (auto* part :
       {hostile_manifests, hostile_indexes, hostile_shard_headers, hostile_safetensors}) {
    std::vector<HostileFile> files = part();
    all.insert(all.end(), std::make_move_iterator(files.begin()),
               std::make_move_iterator(files.end()));
  }
  return all;
}

void read_hostile(HostileFile file) {
  switch (file.kind) {
    case HostileFile::Kind::kManifest: {
      uint64_t sequence = 0;
      decode_manifest(file.bytes, "MANIFEST", &sequence);
      return;
    }
    case HostileFile::Kind::kIndex:
      IndexedStep().read_named(file.bytes);
      return;
    case HostileFile::Kind::kShardHeader:
      decode_shard_header(file.bytes, "s00003.plt");
      return;
    case HostileFile::Kind::kSafetensors: {
      MemoryFiles files;
      files.put("model.safetensors", std::move(file.bytes));
      const SafetensorsFile opened(files, "model.safetensors");
    }
  }
}

}  // namespace plait
