#ifndef MUSTER_WORKER_COLLECTIVES_HOST_HOST_COMMUNICATOR_H_
#define MUSTER_WORKER_COLLECTIVES_HOST_HOST_COMMUNICATOR_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/collectives/communicator.h"
#include "worker/collectives/transport/transport.h"

namespace muster {

struct HostCommunicatorOptions {
  // The group's name, such as "world"; the same on all ranks. Every error begins with it.
  std::string name = "world";
  // What errors call the ranks, by rank; empty: "rank 2".
  std::vector<std::string> rank_names;
  // Whether all ranks are on one machine and share memory there. The same on all ranks, because
  // algorithms are chosen by it.
  bool same_machine = false;
};

// A communicator over any transport.
//
// Beyond the interface's contract:
// - A send ends once its bytes are with the transport, which may be before the peer receives them.
//   Two ranks that send to each other by Run more than their pipes hold (64 KiB and more) wait for
//   each other until the deadline; made by Start, messages flow both ways at once.
// - A message's place among collective calls counts: between two ranks, a send before a barrier is
//   received before it.
// - An all-reduce in place of a buffer from Allocate, too large for one exchange, works on the
//   memory of all ranks at once. That the others call it at the same offset of the same buffer is
//   part of the call's fingerprint: FailedPrecondition otherwise.
// - Split makes groups named "world/3"; they are taken to share a machine only if the parent does.
//   An Abort, or a death, ends a Split under way too.
// - Destroyed while calls are under way, it aborts the group.
//
// InvalidArgument: rank_names has neither none nor one name for each rank.
absl::StatusOr<std::unique_ptr<Communicator>> MakeHostCommunicator(
    std::unique_ptr<Transport> transport, const HostCommunicatorOptions& options);

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_HOST_HOST_COMMUNICATOR_H_
