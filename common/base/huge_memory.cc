#include "common/base/huge_memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "common/base/aligned_range.h"
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
    if (data_ == nullptr) throw std::bad_alloc();
    std::memset(data_, 0, bytes_);
    return;
  }
  bytes_ = RoundUp(bytes_, kSmallPage);
  data_ = ReserveAligned(bytes_, kPageBytes);
  if (data_ == nullptr) throw std::bad_alloc();
  if (mmap(data_, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
      MAP_FAILED) {
    munmap(data_, bytes_);
    throw std::bad_alloc();
  }
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
