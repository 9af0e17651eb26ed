#ifndef MUSTER_COMMON_DEVICE_ARENA_PLAN_H_
#define MUSTER_COMMON_DEVICE_ARENA_PLAN_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "common/base/round_up.h"

namespace muster {

// Where arrays lie in one block of memory, decided before there is any. Pure arithmetic:
//   ArenaPlan plan;
//   const size_t q = plan.Add(rows * width * 2);
//   const size_t mark = plan.used();  …;  plan.Rewind(mark);   what follows takes that place again
//   DeviceBuffer::Allocate(MemoryPlace::kDevice, plan.bytes()), and q is at data() + q.
class ArenaPlan {
 public:
  // 16-byte loads, and cuBLASLt's best kernels, want aligned arrays.
  static constexpr size_t kAlignment = 256;

  // The offset of an array of so many bytes, behind all that were added and not given back.
  size_t Add(size_t bytes) {
    const size_t at = used_;
    used_ += RoundUp(bytes, kAlignment);
    bytes_ = std::max(bytes_, used_);
    return at;
  }
  size_t used() const { return used_; }
  // REQUIRES: mark <= used().
  void Rewind(size_t mark) { used_ = mark; }
  // Of the block: the most that was in use at any time.
  size_t bytes() const { return bytes_; }

 private:
  size_t used_ = 0;
  size_t bytes_ = 0;
};

}  // namespace muster

#endif  // MUSTER_COMMON_DEVICE_ARENA_PLAN_H_
