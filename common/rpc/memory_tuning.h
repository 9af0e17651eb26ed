#ifndef MUSTER_COMMON_RPC_MEMORY_TUNING_H_
#define MUSTER_COMMON_RPC_MEMORY_TUNING_H_

namespace muster {

// Tells malloc to keep and reuse the memory of message buffers instead of returning it to the
// kernel, whose fresh pages cost more than the rest of a transfer. Doubles the speed of large
// messages; the process keeps its peak memory. Call at the start of main, on both sides of a
// connection, before threads start.
void KeepMessageMemory();

}  // namespace muster

#endif  // MUSTER_COMMON_RPC_MEMORY_TUNING_H_
