#include "worker/strategy/arena.h"

#include <utility>

namespace muster {
std::vector<absl::Span<float>> TensorSpans(const DenseLayout& layout,
                                           absl::Span<const TensorSpec> tensors,
                                           absl::Span<float> flat) {
  std::vector<absl::Span<float>> spans;
  for (size_t i = 0; i < tensors.size(); ++i) {
    spans.push_back(flat.subspan(layout.tensor_offset(i), tensors[i].elements()));
  }
  return spans;
}

ArenaPool::ArenaPool(size_t floats, int limit) : floats_(floats), limit_(limit) {}

std::shared_ptr<Arena> ArenaPool::Acquire() {
  std::unique_ptr<Arena> arena;
  {
    auto available = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mutex) {
      return !state_->free.empty() || state_->allocated < limit_;
    };
    absl::MutexLock lock(&state_->mutex);
    state_->mutex.Await(absl::Condition(&available));
    if (state_->free.empty()) {
      ++state_->allocated;
    } else {
      arena = std::move(state_->free.back());
      state_->free.pop_back();
    }
  }
  if (arena == nullptr) arena = std::make_unique<Arena>(floats_);
  return std::shared_ptr<Arena>(arena.release(), [state = state_](Arena* released) {
    absl::MutexLock lock(&state->mutex);
    state->free.emplace_back(released);
  });
}

}  // namespace muster
