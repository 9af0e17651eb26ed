#ifndef MUSTER_SERVER_SHARD_CALLS_TYPED_PAYLOAD_H_
#define MUSTER_SERVER_SHARD_CALLS_TYPED_PAYLOAD_H_

#include <cstddef>
#include <memory>

#include "absl/functional/function_ref.h"
#include "common/base/buffer_pool.h"
#include "common/base/payload.h"
#include "common/tensor/dtype.h"

namespace muster {

// Between what the wire carries and the f32 of tables. A payload that is f32 on both sides stays
// the one it is.

// A push's elements of `type` as one array of f32 from the pool. REQUIRES: whole elements.
Payload WidenPayload(Payload payload, DType type, BufferPool& pool);

// Weights rounded to nearest for an answer, in one array that `take` gives for so many bytes.
// REQUIRES: every span is whole f32 that lie as f32 must (the tables' arrays do).
Payload NarrowPayload(Payload payload, DType type,
                      absl::FunctionRef<std::shared_ptr<std::byte>(size_t bytes)> take);

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_CALLS_TYPED_PAYLOAD_H_
