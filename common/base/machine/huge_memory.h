#ifndef MUSTER_COMMON_BASE_MACHINE_HUGE_MEMORY_H_
#define MUSTER_COMMON_BASE_MACHINE_HUGE_MEMORY_H_

#include <cstddef>
#include <utility>

namespace muster {

// Zeroed memory. From 2 MiB on it comes straight from the operating system, on pages of that size,
// each of which is taken when it is first touched: a table larger than the processor's caches is
// looked up at random, and with small pages every look-up would first wait for the page's address.
// Not thread-safe.
class HugeMemory {
 public:
  static constexpr size_t kPageBytes = size_t{2} << 20;

  enum class Pages {
    kHuge,
    // For what may stay small: only pages that are touched take memory.
    kSmall,
  };

  HugeMemory() = default;
  // Aborts when there is no memory.
  explicit HugeMemory(size_t bytes, Pages pages = Pages::kHuge);
  ~HugeMemory();
  HugeMemory(HugeMemory&& other) noexcept { *this = std::move(other); }
  HugeMemory& operator=(HugeMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  // Aligned to kPageBytes if there is a whole page, otherwise to 64 bytes.
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace muster

#endif  // MUSTER_COMMON_BASE_MACHINE_HUGE_MEMORY_H_
