#include "common/base/huge_memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "common/base/round_up.h"

namespace muster {
namespace {

constexpr size_t kSmallPage = 4096;
constexpr size_t kLine = 64;

}  // namespace

HugeMemory::HugeMemory(size_t bytes, Pages pages) : bytes_(bytes) {
  if (bytes_ == 0) return;
  if (bytes_ < kPageBytes) {
    data_ = std::aligned_alloc(kLine, RoundUp(bytes_, kLine));
    if (data_ == nullptr) std::abort();
    std::memset(data_, 0, bytes_);
    return;
  }
  bytes_ = RoundUp(bytes_, kSmallPage);
  // Enough to cut an aligned stretch out of.
  const size_t mapped = bytes_ + kPageBytes - kSmallPage;
  void* memory = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  const uintptr_t begin = reinterpret_cast<uintptr_t>(memory);
  const uintptr_t aligned = RoundUp(begin, kPageBytes);
  if (aligned > begin) munmap(memory, aligned - begin);
  const uintptr_t end = aligned + bytes_;
  if (begin + mapped > end) munmap(reinterpret_cast<void*>(end), begin + mapped - end);
  data_ = reinterpret_cast<void*>(aligned);
  // Advice only: without huge pages the memory works all the same.
  if (pages == Pages::kHuge) madvise(data_, bytes_ / kPageBytes * kPageBytes, MADV_HUGEPAGE);
}

HugeMemory::~HugeMemory() {
  if (bytes_ >= kPageBytes) {
    munmap(data_, bytes_);
  } else {
    std::free(data_);
  }
}

}  // namespace muster
