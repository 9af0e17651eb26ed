#include "server/shard/tables/versioned_buffer.h"

#include <algorithm>
#include <utility>

namespace muster {

VersionedBuffer::VersionedBuffer(std::shared_ptr<BufferPool> pool, size_t floats)
    : pool_(std::move(pool)), size_(floats), current_(std::make_shared<Version>()) {
  current_->data = pool_->Take(size_);
}

std::shared_ptr<const float> VersionedBuffer::Read() const {
  current_->readers.fetch_add(1, std::memory_order_relaxed);
  return std::shared_ptr<const float>(current_->data.get(), [version = current_](const float*) {
    version->readers.fetch_sub(1, std::memory_order_release);
  });
}

absl::Span<float> VersionedBuffer::Write() {
  // Acquire pairs with the readers' release: their loads come before the stores that follow.
  if (current_->readers.load(std::memory_order_acquire) > 0) {
    auto next = std::make_shared<Version>();
    next->data = pool_->Take(size_);
    std::copy_n(current_->data.get(), size_, next->data.get());
    current_ = std::move(next);
  }
  return {current_->data.get(), size_};
}

}  // namespace muster
