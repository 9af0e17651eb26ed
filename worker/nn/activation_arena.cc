#include "worker/nn/activation_arena.h"

namespace muster {

size_t ActivationArena::ReserveBytes(size_t bytes) {
  constexpr size_t kCacheLine = 64;
  const size_t offset = used_;
  used_ += (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
  return offset;
}

void ActivationArena::Commit() {
  if (used_ <= capacity_) return;
  // The old content goes first, so that the two are never there together.
  memory_ = HugeMemory();
  memory_ = HugeMemory(used_);
  capacity_ = used_;
}

}  // namespace muster
