#ifndef MUSTER_WORKER_STRATEGY_ARENA_H_
#define MUSTER_WORKER_STRATEGY_ARENA_H_

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "common/base/huge_memory.h"
#include "common/partition/dense_layout.h"
#include "common/partition/tensor_spec.h"
#include "common/transport/shared_memory/registered_memory.h"

namespace muster {

// Zeroed bytes, aligned to 64: of registered memory, if there is any and it has room; otherwise the
// process's own, where large ones lie in huge pages (see HugeMemory). Their address never changes.
class ArenaMemory {
 public:
  ArenaMemory(size_t bytes, std::shared_ptr<RegisteredMemory> registered);

  std::byte* data() const { return data_; }

 private:
  std::shared_ptr<RegisteredMemory> registered_;
  HugeMemory own_;
  std::byte* data_ = nullptr;
};

// A flat f32 buffer, zeroed, aligned for vector code. Its address never changes.
class Arena {
 public:
  explicit Arena(size_t floats, std::shared_ptr<RegisteredMemory> registered = nullptr)
      : floats_(floats), memory_(floats * sizeof(float), std::move(registered)) {}

  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  absl::Span<float> values() { return {reinterpret_cast<float*>(memory_.data()), floats_}; }
  absl::Span<const float> values() const {
    return {reinterpret_cast<const float*>(memory_.data()), floats_};
  }

 private:
  size_t floats_;
  ArenaMemory memory_;
};

// The spans of a layout's tensors, by tensor index, in a buffer that holds the layout's flat space,
// or what is trained of it: those of tensors beyond its end are empty.
std::vector<absl::Span<float>> TensorSpans(const DenseLayout& layout,
                                           absl::Span<const TensorSpec> tensors,
                                           absl::Span<float> flat);

// Arenas of one size that go round: taken, read by others (such as a transport that still sends
// from them), and free again when the last holder lets go. Thread-safe. Holders may outlive the
// pool.
class ArenaPool {
 public:
  // At most `limit` arenas of `floats` each, allocated as they are first needed, of registered
  // memory if there is some. REQUIRES: limit >= 1.
  ArenaPool(size_t floats, int limit, std::shared_ptr<RegisteredMemory> registered = nullptr);

  // An arena with unspecified content. Blocks while all are held.
  std::shared_ptr<Arena> Acquire();

 private:
  struct State {
    absl::Mutex mutex;
    std::vector<std::unique_ptr<Arena>> free ABSL_GUARDED_BY(mutex);
    int allocated ABSL_GUARDED_BY(mutex) = 0;
  };

  const size_t floats_;
  const int limit_;
  const std::shared_ptr<RegisteredMemory> registered_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_ARENA_H_
