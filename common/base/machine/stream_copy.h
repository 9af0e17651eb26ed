#ifndef MUSTER_COMMON_BASE_MACHINE_STREAM_COPY_H_
#define MUSTER_COMMON_BASE_MACHINE_STREAM_COPY_H_

#include <cstddef>

namespace muster {

// Copies past the caches: for what is read later, if at all by this processor. The lines that are
// written are not loaded first, which is a third of a long copy's traffic. May be overtaken by
// ordinary stores until StreamFence.
void StreamCopy(std::byte* out, const std::byte* in, size_t bytes);

// What was stream-copied before is seen before what this thread stores from now on.
void StreamFence();

}  // namespace muster

#endif  // MUSTER_COMMON_BASE_MACHINE_STREAM_COPY_H_
