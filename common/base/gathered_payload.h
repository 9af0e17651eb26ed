#ifndef MUSTER_COMMON_BASE_GATHERED_PAYLOAD_H_
#define MUSTER_COMMON_BASE_GATHERED_PAYLOAD_H_

#include "common/base/buffer_pool.h"
#include "common/base/payload.h"

namespace muster {

// Returns the same bytes contiguously, in an array of the pool that nobody else uses.
Payload GatherPayload(const Payload& payload, BufferPool& pool);

// Returns true if the spans are so short that passing each to the system costs more than gathering
// them.
bool InShortSpans(const Payload& payload);

}  // namespace muster

#endif  // MUSTER_COMMON_BASE_GATHERED_PAYLOAD_H_
