#ifndef MUSTER_WORKER_NN_ACTIVATION_ARENA_H_
#define MUSTER_WORKER_NN_ACTIVATION_ARENA_H_

#include <cstddef>
#include <cstdint>

#include "common/base/huge_memory.h"

namespace muster {

// Memory of one micro-batch's activations: laid out in one go, allocated once and used again as
// long as what is laid out is not larger. Content is not kept when it is laid out anew. One layout:
//
//   arena.Begin();                                 sizes only
//   size_t x = arena.Reserve<float>(rows * C);     offset of a piece
//   arena.Commit();                                allocates if it has grown
//   float* values = arena.At<float>(x);
//
// Pieces begin on cache lines. Not thread-safe.
class ActivationArena {
 public:
  void Begin() { used_ = 0; }

  template <typename T>
  size_t Reserve(int64_t elements) {
    return ReserveBytes(static_cast<size_t>(elements) * sizeof(T));
  }

  void Commit();

  template <typename T>
  T* At(size_t offset) const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(memory_.data()) + offset);
  }

  // Reserved by the present layout.
  size_t used() const { return used_; }
  // Allocated.
  size_t capacity() const { return capacity_; }

 private:
  size_t ReserveBytes(size_t bytes);

  size_t used_ = 0;
  size_t capacity_ = 0;
  HugeMemory memory_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_ACTIVATION_ARENA_H_
