#ifndef MUSTER_WORKER_PARALLEL_COMMUNICATOR_EXPERT_GROUP_H_
#define MUSTER_WORKER_PARALLEL_COMMUNICATOR_EXPERT_GROUP_H_

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/work.h"
#include "worker/collectives/communicator.h"
#include "worker/nn/expert_group.h"

namespace muster {

// Expert ranks whose messages a communicator of host memory moves. Used by one thread.
class CommunicatorExpertGroup final : public ExpertGroup {
 public:
  // Waits for the end of work, and perhaps measures the time.
  using Wait = std::function<absl::Status(Work& work)>;

  // The communicator outlives the group, which alone uses it during a pass. Each call may take
  // `timeout`.
  CommunicatorExpertGroup(Communicator& communicator, absl::Duration timeout, Wait wait)
      : communicator_(communicator), timeout_(timeout), wait_(std::move(wait)) {}
  // Ends, on all ranks, messages of a pass that was given up.
  ~CommunicatorExpertGroup() override;

  int size() const override { return communicator_.size(); }
  int rank() const override { return communicator_.rank(); }
  void GatherCounts(absl::Span<const int32_t> mine, absl::Span<int32_t> all) override;
  void Start(absl::Span<const Sent> sent, absl::Span<const Received> received) override;
  void Await() override;
  absl::Status status() const override { return status_; }

 private:
  Communicator& communicator_;
  const absl::Duration timeout_;
  const Wait wait_;
  std::vector<std::shared_ptr<Work>> under_way_;
  absl::Status status_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_PARALLEL_COMMUNICATOR_EXPERT_GROUP_H_
