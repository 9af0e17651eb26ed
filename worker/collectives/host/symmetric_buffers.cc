#include "worker/collectives/host/symmetric_buffers.h"

#include <algorithm>
#include <utility>

#include "common/base/huge_memory.h"

namespace muster {
namespace {

class PlainBuffer final : public CollectiveBuffer {
 public:
  explicit PlainBuffer(size_t bytes) : bytes_(bytes), memory_(bytes) {}

  absl::Span<std::byte> bytes() override {
    return {static_cast<std::byte*>(memory_.data()), bytes_};
  }

 private:
  const size_t bytes_;
  const HugeMemory memory_;
};

}  // namespace

class SymmetricBuffers::Shared final : public CollectiveBuffer {
 public:
  Shared(SymmetricBuffers& owner, std::unique_ptr<SymmetricMemory> memory, size_t bytes)
      : owner_(owner), memory_(std::move(memory)), bytes_(bytes) {}
  ~Shared() override { owner_.Remove(memory_.get()); }

  absl::Span<std::byte> bytes() override { return {memory_->of(owner_.rank_), bytes_}; }

 private:
  SymmetricBuffers& owner_;
  const std::unique_ptr<SymmetricMemory> memory_;
  const size_t bytes_;
};

std::unique_ptr<CollectiveBuffer> SymmetricBuffers::Add(std::unique_ptr<SymmetricMemory> memory,
                                                        size_t bytes) {
  if (memory == nullptr) return std::make_unique<PlainBuffer>(bytes);
  absl::MutexLock lock(&mutex_);
  entries_.push_back({.number = ++added_, .memory = memory.get()});
  size_.store(entries_.size(), std::memory_order_release);
  return std::make_unique<Shared>(*this, std::move(memory), bytes);
}

void SymmetricBuffers::Remove(const SymmetricMemory* memory) {
  absl::MutexLock lock(&mutex_);
  entries_.erase(std::remove_if(entries_.begin(), entries_.end(),
                                [&](const Entry& entry) { return entry.memory == memory; }),
                 entries_.end());
  size_.store(entries_.size(), std::memory_order_release);
}

SymmetricAddress SymmetricBuffers::Find(const void* data, size_t bytes) const {
  if (size_.load(std::memory_order_acquire) == 0) return {};
  const auto at = reinterpret_cast<uintptr_t>(data);
  absl::MutexLock lock(&mutex_);
  for (const Entry& entry : entries_) {
    const auto begin = reinterpret_cast<uintptr_t>(entry.memory->of(rank_));
    if (at < begin || at + bytes > begin + entry.memory->bytes()) continue;
    const size_t offset = at - begin;
    return {.memory = entry.memory, .offset = offset, .name = entry.number << 48 | offset};
  }
  return {};
}

}  // namespace muster
