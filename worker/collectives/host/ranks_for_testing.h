#ifndef MUSTER_WORKER_COLLECTIVES_HOST_RANKS_FOR_TESTING_H_
#define MUSTER_WORKER_COLLECTIVES_HOST_RANKS_FOR_TESTING_H_

#include <barrier>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/work.h"
#include "worker/collectives/communicator.h"
#include "worker/collectives/transport/in_process_transport_for_testing.h"

namespace muster {

// A group's ranks as threads of a test.
class TestRanks {
 public:
  explicit TestRanks(int size, const InProcessOptions& options = {});

  // Runs `body` on a thread for each rank, with the rank's communicator, and waits for all. To be
  // called once.
  void Run(const std::function<void(std::unique_ptr<Communicator>)>& body);

  // Waits until all ranks have called this, and so returned from their earlier calls.
  void AwaitAll() { all_.arrive_and_wait(); }

  // Kills a rank, as SIGKILL does. Thread-safe.
  void Kill(int rank) { group_.Kill(rank); }

 private:
  const int size_;
  const InProcessOptions options_;
  InProcessGroup group_;
  std::barrier<> all_;
};

// A communicator for tests that observes when memory is allocated.
class WatchedCommunicator final : public Communicator {
 public:
  WatchedCommunicator(std::unique_ptr<Communicator> inner,
                      std::function<void(size_t bytes)> before_allocate)
      : inner_(std::move(inner)), before_allocate_(std::move(before_allocate)) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  absl::Status Run(const CollectiveCall& call) override { return inner_->Run(call); }
  std::shared_ptr<Work> Start(const CollectiveCall& call) override { return inner_->Start(call); }
  absl::StatusOr<std::unique_ptr<CollectiveBuffer>> Allocate(size_t bytes) override {
    before_allocate_(bytes);
    return inner_->Allocate(bytes);
  }
  absl::StatusOr<std::unique_ptr<Communicator>> Split(int colour, int key) override {
    return inner_->Split(colour, key);
  }
  void Abort(const std::string& reason) override { inner_->Abort(reason); }
  const FlightRecorder& recorder() const override { return inner_->recorder(); }
  CollectiveTraffic traffic() const override { return inner_->traffic(); }

 private:
  const std::unique_ptr<Communicator> inner_;
  const std::function<void(size_t bytes)> before_allocate_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_HOST_RANKS_FOR_TESTING_H_
