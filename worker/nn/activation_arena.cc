#include "worker/nn/activation_arena.h"

#include "common/base/round_up.h"

namespace muster {

size_t ActivationArena::ReserveBytes(size_t bytes) {
  constexpr size_t kCacheLine = 64;
  const size_t offset = used_;
  used_ += RoundUp(bytes, kCacheLine);
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
