#ifndef MUSTER_WORKER_COLLECTIVES_TRANSPORT_IN_PROCESS_TRANSPORT_FOR_TESTING_H_
#define MUSTER_WORKER_COLLECTIVES_TRANSPORT_IN_PROCESS_TRANSPORT_FOR_TESTING_H_

#include <cstddef>
#include <memory>
#include <string>

#include "worker/collectives/transport/transport.h"

namespace muster {

struct InProcessOptions {
  // Capacity of each pipe, a multiple of 64.
  size_t pipe_bytes = 64 * 1024;
  // Most bytes that one Write takes. An odd number splits the bytes anywhere, as TCP does.
  size_t write_bytes = static_cast<size_t>(-1);
  // True if Allocate gives memory that the ranks share; false for Unimplemented.
  bool share_memory = true;
};

struct InProcessGroupState;

// A group whose ranks are threads of one process, with the faults that processes have. Thread-safe.
// May be destroyed before the transports that it made.
class InProcessGroup {
 public:
  // REQUIRES: size >= 1.
  explicit InProcessGroup(int size, const InProcessOptions& options = {});
  ~InProcessGroup();

  // Returns the transport of one rank. Called once for each rank.
  std::unique_ptr<Transport> Join(int rank);

  // Kills a rank as SIGKILL does: the others see it dead at once, and everything the rank itself
  // does fails. Reaches the rank's subgroups, too.
  void Kill(int rank);
  // Stops a rank as SIGSTOP does: its thread stays where it is from its next look at a pipe.
  void Stop(int rank);
  void Continue(int rank);

 private:
  const std::shared_ptr<InProcessGroupState> state_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_TRANSPORT_IN_PROCESS_TRANSPORT_FOR_TESTING_H_
