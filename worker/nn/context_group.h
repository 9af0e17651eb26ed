#ifndef MUSTER_WORKER_NN_CONTEXT_GROUP_H_
#define MUSTER_WORKER_NN_CONTEXT_GROUP_H_

#include <cstdint>

#include "common/tensor/dtype.h"
#include "worker/nn/pass_group.h"

namespace muster {

// The ranks that share out the tokens of every sequence (context parallelism).
class ContextGroup : public PassGroup {
 public:
  // Starts to send `mine` [elements] to the next rank, the last one's being the first, and to
  // receive as much from the rank before into `theirs`. Neither may be touched before the
  // AwaitPassed that belongs to the call.
  virtual void StartToPass(DType type, int64_t elements, const void* mine, void* theirs) = 0;
  // Waits for the earliest StartToPass that was not awaited.
  virtual void AwaitPassed() = 0;
  // Part number i of `in` [size · elements] goes to rank i, and part number i of `out` [size ·
  // elements] comes from it.
  virtual void Exchange(DType type, int64_t elements, const void* in, void* out) = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_CONTEXT_GROUP_H_
