#ifndef MUSTER_COMMON_BASE_MACHINE_STREAM_COPY_H_
#define MUSTER_COMMON_BASE_MACHINE_STREAM_COPY_H_

#include <cstddef>

namespace muster {

// Copies past the caches, for data that this processor reads later if at all. The written lines are
// not loaded first, which saves a third of a long copy's traffic. Ordinary stores may overtake the
// copy until StreamFence.
void StreamCopy(std::byte* out, const std::byte* in, size_t bytes);

// Makes earlier stream copies visible before this thread's later stores.
void StreamFence();

}  // namespace muster

#endif  // MUSTER_COMMON_BASE_MACHINE_STREAM_COPY_H_
