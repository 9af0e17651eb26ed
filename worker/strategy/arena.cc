#include "worker/strategy/arena.h"

#include <utility>

namespace muster {

ArenaMemory::ArenaMemory(size_t bytes, std::shared_ptr<RegisteredMemory> registered) {
  if (registered != nullptr) data_ = registered->Take(bytes);
  if (data_ != nullptr) {
    registered_ = std::move(registered);
    return;
  }
  own_ = HugeMemory(bytes);
  data_ = static_cast<std::byte*>(own_.data());
}

std::vector<absl::Span<float>> TensorSpans(const DenseLayout& layout,
                                           absl::Span<const TensorSpec> tensors,
                                           absl::Span<float> flat) {
  std::vector<absl::Span<float>> spans;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const uint64_t begin = layout.tensor_offset(static_cast<int>(i));
    spans.push_back(begin < flat.size() ? flat.subspan(begin, tensors[i].elements())
                                        : absl::Span<float>());
  }
  return spans;
}

ArenaPool::ArenaPool(size_t floats, int limit, std::shared_ptr<RegisteredMemory> registered)
    : floats_(floats), limit_(limit), registered_(std::move(registered)) {}

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
  if (arena == nullptr) arena = std::make_unique<Arena>(floats_, registered_);
  return std::shared_ptr<Arena>(arena.release(), [state = state_](Arena* released) {
    absl::MutexLock lock(&state->mutex);
    state->free.emplace_back(released);
  });
}

}  // namespace muster
