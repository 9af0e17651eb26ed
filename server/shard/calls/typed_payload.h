#ifndef MUSTER_SERVER_SHARD_CALLS_TYPED_PAYLOAD_H_
#define MUSTER_SERVER_SHARD_CALLS_TYPED_PAYLOAD_H_

#include <cstddef>
#include <memory>

#include "absl/functional/function_ref.h"
#include "common/base/buffer_pool.h"
#include "common/base/payload.h"
#include "common/tensor/dtype.h"

namespace muster {

// Conversions between the wire's element types and the tables' f32. An f32 payload stays as it is.

// Returns a push's elements of `type` as one array of f32 from the pool. REQUIRES: whole elements.
Payload WidenPayload(Payload payload, DType type, BufferPool& pool);

// Returns weights rounded to nearest, in one array that `take` gives for so many bytes. REQUIRES:
// every span holds whole f32, aligned for f32 (the tables' arrays do).
Payload NarrowPayload(Payload payload, DType type,
                      absl::FunctionRef<std::shared_ptr<std::byte>(size_t bytes)> take);

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_CALLS_TYPED_PAYLOAD_H_
