#ifndef MUSTER_WORKER_STRATEGY_GROUP_TEST_RANKS_H_
#define MUSTER_WORKER_STRATEGY_GROUP_TEST_RANKS_H_

#include <barrier>
#include <functional>
#include <memory>

#include "worker/collectives/communicator.h"
#include "worker/collectives/transport/in_process_transport.h"

namespace muster {

// A group's ranks as threads of a test.
class TestRanks {
 public:
  explicit TestRanks(int size, const InProcessOptions& options = {});

  // Runs `body` on a thread for each rank, with the rank's place in the group, and waits for all.
  // To be called once.
  void Run(const std::function<void(std::unique_ptr<Communicator>)>& body);

  // Waits until all ranks have come here, and so returned from their calls before.
  void AwaitAll() { all_.arrive_and_wait(); }

  // Kills a rank, as SIGKILL does. Thread-safe.
  void Kill(int rank) { group_.Kill(rank); }

 private:
  const int size_;
  const InProcessOptions options_;
  InProcessGroup group_;
  std::barrier<> all_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_TEST_RANKS_H_
