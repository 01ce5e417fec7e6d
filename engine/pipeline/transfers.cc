#include "engine/pipeline/transfers.h"

#include "kernels/base/mutation.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace plait {

Transfers::Transfers(const Options& options, Device& device) : options_(options) {
  if (options_.pipeline->size() == 1) return;
  const int64_t bytes = slice_elements(options_.elements) * dtype_size(options_.dtype);
  for (Buffer& buffer : buffers_) {
    buffer = device.allocate(bytes, MemoryCategory::kCommunication);
  }
}

bool Transfers::is_cut() const {
  return options_.is_scattering && options_.tensor.size > 1 &&
         (!options_.tensor.is_sequence_parallel || is_mutated(Mutation::kCutStreamCutAgain));
}

int64_t Transfers::slice_elements(int64_t elements) const {
  if (!is_cut()) return elements;
  return (elements + options_.tensor.size - 1) / options_.tensor.size;
}

int64_t Transfers::neighbour(int64_t step) const {
  const int64_t size = options_.pipeline->size();
  return (options_.pipeline->index() + step + size) % size;
}

void Transfers::send(OpContext& context, Lane direction, MessageKey key, TensorView from) {
  if (context.is_measuring()) return;
  const bool is_forward = direction == Lane::kForward;
  const int64_t peer = neighbour(is_forward ? 1 : -1);
  const int64_t count = slice_elements(from.elements());
  const int64_t slice =
      is_cut() && !is_mutated(Mutation::kForeignSliceSent) ? options_.tensor.index : 0;
  const int64_t first = std::min(slice * count, from.elements());
  const int64_t there = std::min(count, from.elements() - first);
  const int64_t size = dtype_size(options_.dtype);
  if (is_mutated(Mutation::kMessageKeySwapped)) std::swap(key.micro, key.stage);
  options_.pipeline->wait_sent(peer, direction);
  char* buffer = buffers_[is_forward ? 0 : 1].data();
  std::memcpy(buffer, from.as<char>() + first * size, static_cast<size_t>(there * size));
  std::memset(buffer + there * size, 0, static_cast<size_t>((count - there) * size));
  options_.pipeline->send(peer, direction, key, {buffer, options_.dtype, {count}});
}

void Transfers::receive(OpContext& context, Lane direction, MessageKey key, TensorView to) {
  if (is_cut()) return receive_slices(context, direction, key, to);
  if (context.is_measuring()) return;
  options_.pipeline->receive(neighbour(direction == Lane::kForward ? -1 : 1), direction, key,
                             to.reshaped({to.elements()}));
}

void Transfers::receive_slices(OpContext& context, Lane direction, MessageKey key, TensorView to) {
  const int64_t t = options_.tensor.size, count = slice_elements(to.elements());
  Workspace::Frame frame(context.workspace);
  const bool is_whole = count * t == to.elements();
  const TensorView all =
      is_whole ? to.reshaped({count * t}) : frame.tensor(options_.dtype, {count * t});
  if (context.is_measuring()) return;
  const TensorView own = all.slice_rows(options_.tensor.index * count, count);
  options_.pipeline->receive(neighbour(direction == Lane::kForward ? -1 : 1), direction, key, own);
  options_.tensor.communicator->all_gather(own, all);
  if (!is_whole) std::memcpy(to.data, all.data, static_cast<size_t>(to.bytes()));
}

int64_t Transfers::take_wait_ns() {
  const int64_t now = options_.pipeline->traffic(CollectiveKind::kSendReceive).wait_ns;
  return now - std::exchange(seen_wait_ns_, now);
}

}  // namespace plait
