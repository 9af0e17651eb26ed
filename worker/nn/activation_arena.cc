#include "worker/nn/activation_arena.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

namespace muster {
namespace {

constexpr size_t kCacheLine = 64;
constexpr size_t kHugePage = size_t{2} << 20;

size_t RoundUp(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

}  // namespace

void ActivationArena::Free::operator()(std::byte* memory) const { std::free(memory); }

size_t ActivationArena::ReserveBytes(size_t bytes) {
  const size_t offset = used_;
  used_ += RoundUp(bytes, kCacheLine);
  return offset;
}

void ActivationArena::Commit() {
  if (used_ <= capacity_) return;
  const size_t alignment = used_ >= kHugePage ? kHugePage : kCacheLine;
  const size_t bytes = RoundUp(used_, alignment);
  // The old content goes first, so that the two are never there together.
  memory_.reset();
  capacity_ = 0;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(alignment, bytes));
  if (memory == nullptr) throw std::bad_alloc();
  // Advice only.
  if (alignment == kHugePage) madvise(memory, bytes, MADV_HUGEPAGE);
  memory_.reset(memory);
  capacity_ = bytes;
}

}  // namespace muster
