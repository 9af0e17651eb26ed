#ifndef MUSTER_COMMON_TRANSPORT_SHARED_MEMORY_GROUP_MEMORY_H_
#define MUSTER_COMMON_TRANSPORT_SHARED_MEMORY_GROUP_MEMORY_H_

#include <cstddef>

#include "common/transport/shared_memory/byte_ring.h"

namespace muster {

// The memory through which the ranks of a group talk to one another on one machine. Groups are made
// with it (worker/collectives), and jobs are planned with it (common/plan/memory/group_plan.h).

// Ring capacity per direction. The two rings that a rank uses with one peer stay in its
// second-level cache together with the data they carry.
constexpr size_t kRingCapacity = 512 << 10;
// Two rings, one per direction. Every two ranks of a group have them; the lower rank makes them.
constexpr size_t kPairBytes = 2 * RingBytes(kRingCapacity);

// What a rank has for each group that it is in, whatever the number of peers: the records of its
// last calls (FlightRecorder), its doorbell, and the stacks of two threads.
constexpr size_t kGroupBytes = 128 << 10;

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_SHARED_MEMORY_GROUP_MEMORY_H_
