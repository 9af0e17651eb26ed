#ifndef MUSTER_COMMON_BASE_HUGE_MEMORY_H_
#define MUSTER_COMMON_BASE_HUGE_MEMORY_H_

#include <cstddef>
#include <utility>

namespace muster {

// Zeroed memory. From 2 MiB on the memory comes directly from the operating system, on pages of
// that size, each allocated at its first touch. Look-ups in a table larger than the processor's
// caches are random; with small pages each look-up would first wait for the page's address. Not
// thread-safe.
class HugeMemory {
 public:
  static constexpr size_t kPageBytes = size_t{2} << 20;

  enum class Pages {
    kHuge,
    // Suits memory that may stay small: only touched pages are allocated.
    kSmall,
  };

  HugeMemory() = default;
  // Aborts if there is no memory.
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

#endif  // MUSTER_COMMON_BASE_HUGE_MEMORY_H_
