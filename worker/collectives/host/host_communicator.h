#ifndef MUSTER_WORKER_COLLECTIVES_HOST_HOST_COMMUNICATOR_H_
#define MUSTER_WORKER_COLLECTIVES_HOST_HOST_COMMUNICATOR_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/collectives/communicator.h"
#include "worker/collectives/host/live_communicators.h"
#include "worker/collectives/transport/transport.h"

namespace muster {

struct HostCommunicatorOptions {
  // The group's name, such as "world"; the same on all ranks. Every error begins with it.
  std::string name = "world";
  // Names of the ranks in errors, by rank; if empty, "rank 2".
  std::vector<std::string> rank_names;
  // True if all ranks are on one machine and share memory there. The same on all ranks, because the
  // choice of algorithms depends on it.
  bool same_machine = false;
  // Has the communicator, and those split from it, while they live; null: nobody has.
  std::shared_ptr<LiveCommunicators> live;
};

// Makes a communicator over any transport. InvalidArgument: rank_names is neither empty nor one
// name for each rank. Beyond the interface's contract:
// - A send ends once the transport has its bytes, which may be before the peer receives them. Two
//   ranks that send each other more than their pipes hold (64 KiB and more) by Run wait for each
//   other until the deadline. With Start, messages flow both ways at once.
// - Messages keep their place among collective calls: between two ranks, a send before a barrier is
//   received before it.
// - On one machine, three calls work on all ranks' memory at once: an all-reduce in place in a
//   buffer from Allocate, if it is too large for one exchange; a reduce-scatter from such a buffer;
//   an all-gather into one. FailedPrecondition: another rank uses another offset or buffer.
// - Split names its groups "world/3". They count as sharing a machine only if the parent does. An
//   Abort or a death ends a Split under way, too.
// - Destroying the communicator while calls are under way aborts the group.
absl::StatusOr<std::unique_ptr<Communicator>> MakeHostCommunicator(
    std::unique_ptr<Transport> transport, const HostCommunicatorOptions& options);

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_HOST_HOST_COMMUNICATOR_H_
