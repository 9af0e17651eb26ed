#ifndef MUSTER_COMMON_KERNELS_ALIGNED_FLOATS_H_
#define MUSTER_COMMON_KERNELS_ALIGNED_FLOATS_H_

#include <cstdint>
#include <cstdlib>
#include <memory>

namespace muster {

// Scratch of f32, aligned to 64 bytes, that grows and is kept: as a thread_local of a kernel it is
// made once a thread, and its pages stay warm.
class AlignedFloats {
 public:
  // At least n floats of any content, at the same place until a larger n.
  float* Reserve(int64_t n) {
    if (n > size_) {
      constexpr int64_t kFloatsOfLine = 16;
      size_ = (n + kFloatsOfLine - 1) / kFloatsOfLine * kFloatsOfLine;
      floats_.reset();
      floats_.reset(static_cast<float*>(std::aligned_alloc(64, size_ * sizeof(float))));
      if (floats_ == nullptr) std::abort();
    }
    return floats_.get();
  }

 private:
  struct Free {
    void operator()(float* floats) const { std::free(floats); }
  };
  std::unique_ptr<float, Free> floats_;
  int64_t size_ = 0;
};

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_ALIGNED_FLOATS_H_
