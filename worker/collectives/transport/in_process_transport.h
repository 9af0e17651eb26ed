#ifndef MUSTER_WORKER_COLLECTIVES_TRANSPORT_IN_PROCESS_TRANSPORT_H_
#define MUSTER_WORKER_COLLECTIVES_TRANSPORT_IN_PROCESS_TRANSPORT_H_

#include <cstddef>
#include <memory>
#include <string>

#include "worker/collectives/transport/transport.h"

namespace muster {

struct InProcessOptions {
  // Room of each pipe; a multiple of 64.
  size_t pipe_bytes = 64 * 1024;
  // The most bytes that one Write takes: an odd number makes bytes arrive as they do over TCP, cut
  // anywhere.
  size_t write_bytes = static_cast<size_t>(-1);
  // Whether Allocate gives memory that the ranks share, or Unimplemented.
  bool share_memory = true;
};

struct InProcessGroupState;

// Ranks as threads of one process, with the faults that processes have. Thread-safe; may go before
// the transports it made.
class InProcessGroup {
 public:
  // REQUIRES: size >= 1.
  explicit InProcessGroup(int size, const InProcessOptions& options = {});
  ~InProcessGroup();

  // The end of one rank, to be asked for once for each.
  std::unique_ptr<Transport> Join(int rank);

  // As SIGKILL does: the others see it dead at once, and everything the rank itself does fails.
  // Reaches the subgroups that the rank is in.
  void Kill(int rank);
  // As SIGSTOP does: the thread of the rank stays where it is at its next look at a pipe.
  void Stop(int rank);
  void Continue(int rank);

 private:
  const std::shared_ptr<InProcessGroupState> state_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_TRANSPORT_IN_PROCESS_TRANSPORT_H_
