#ifndef MUSTER_COMMON_BASE_GATHERED_PAYLOAD_H_
#define MUSTER_COMMON_BASE_GATHERED_PAYLOAD_H_

#include "common/base/buffer_pool.h"
#include "common/base/payload.h"

namespace muster {

// The same bytes as one span, in an array of the pool that is nobody else's.
Payload GatherPayload(const Payload& payload, BufferPool& pool);

// Whether the spans are so short that handing each to the system costs more than to gather them.
bool InShortSpans(const Payload& payload);

}  // namespace muster

#endif  // MUSTER_COMMON_BASE_GATHERED_PAYLOAD_H_
