#ifndef MUSTER_COMMON_DEVICE_ARENA_PLAN_H_
#define MUSTER_COMMON_DEVICE_ARENA_PLAN_H_

#include <cstddef>
#include <cstdint>

#include "common/base/round_up.h"

namespace muster {

// Where arrays lie in one block of memory, decided before there is any. Pure arithmetic:
//   ArenaPlan plan;
//   const size_t q = plan.Add(rows * width * 2);
//   DeviceBuffer::Allocate(MemoryPlace::kDevice, plan.bytes()), and q is at data() + q.
class ArenaPlan {
 public:
  // 16-byte loads, and cuBLASLt's best kernels, want aligned arrays.
  static constexpr size_t kAlignment = 256;

  // Returns the offset of an array of so many bytes, behind all that were added.
  size_t Add(size_t bytes) {
    const size_t at = bytes_;
    bytes_ += RoundUp(bytes, kAlignment);
    return at;
  }
  // Of the block.
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_ = 0;
};

}  // namespace muster

#endif  // MUSTER_COMMON_DEVICE_ARENA_PLAN_H_
