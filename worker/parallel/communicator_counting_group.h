#ifndef MUSTER_WORKER_PARALLEL_COMMUNICATOR_COUNTING_GROUP_H_
#define MUSTER_WORKER_PARALLEL_COMMUNICATOR_COUNTING_GROUP_H_

#include <cstdint>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "worker/collectives/communicator.h"
#include "worker/nn/counting_group.h"

namespace muster {

// Ranks whose counts a communicator sums. Used by one thread.
class CommunicatorCountingGroup final : public CountingGroup {
 public:
  // Makes a call, and perhaps measures its time. Where computations are only queued, it makes the
  // call in its place among them and reports failures there.
  using RunCall =
      std::function<absl::Status(Communicator& communicator, const CollectiveCall& call)>;

  // The communicator outlives the group, which alone uses it during a pass. Each call may take
  // `timeout`.
  CommunicatorCountingGroup(Communicator& communicator, absl::Duration timeout, RunCall run)
      : communicator_(communicator), timeout_(timeout), run_(std::move(run)) {}

  int size() const override { return communicator_.size(); }
  int rank() const override { return communicator_.rank(); }
  void Sum(int64_t numbers, float* counts) override;
  absl::Status status() const override { return status_; }

 private:
  Communicator& communicator_;
  const absl::Duration timeout_;
  const RunCall run_;
  absl::Status status_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_PARALLEL_COMMUNICATOR_COUNTING_GROUP_H_
