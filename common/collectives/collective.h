#ifndef MUSTER_COMMON_COLLECTIVES_COLLECTIVE_H_
#define MUSTER_COMMON_COLLECTIVES_COLLECTIVE_H_

namespace muster {

// The operations of a group of ranks (worker/collectives/collective_call.h).
enum class Collective {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kReduce,
  kAllToAll,
  kSend,
  kReceive,
  kBarrier,
};

// Returns a name such as "all_reduce".
const char* Name(Collective kind);

}  // namespace muster

#endif  // MUSTER_COMMON_COLLECTIVES_COLLECTIVE_H_
