#ifndef MUSTER_WORKER_PARALLEL_COMMUNICATOR_EXPERT_GROUP_H_
#define MUSTER_WORKER_PARALLEL_COMMUNICATOR_EXPERT_GROUP_H_

#include <cstddef>
#include <cstring>
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

// Expert ranks whose messages a communicator moves. Used by one thread.
class CommunicatorExpertGroup final : public ExpertGroup {
 public:
  // Says how the group meets the computation. These are for a communicator of host memory and ops
  // that compute at once. Where computations are only queued, calls are made in their place among
  // them, and failures are reported there.
  struct Options {
    // The time limit of each call.
    absl::Duration timeout = absl::Minutes(10);
    // Waits for the end of work, and perhaps measures the time.
    std::function<absl::Status(Work& work)> wait = [](Work& work) {
      return work.Wait(absl::InfiniteDuration());
    };
    // Starts calls that a rank makes at one time; returns none where they are queued.
    std::function<std::vector<std::shared_ptr<Work>>(Communicator& communicator,
                                                     absl::Span<const CollectiveCall> calls)>
        start = [](Communicator& group, absl::Span<const CollectiveCall> calls) {
          return group.StartMessages(calls);
        };
    // ExpertGroup::Exchange, without regard to failures.
    std::function<void(std::function<void()> exchange)> exchange =
        [](const std::function<void()>& exchange) { exchange(); };
    // Copies from the ops' memory to the host's what has been computed and received by then.
    std::function<absl::Status(const void* from, size_t bytes, void* to)> read =
        [](const void* from, size_t bytes, void* to) {
          std::memcpy(to, from, bytes);
          return absl::OkStatus();
        };
  };

  // The communicator outlives the group, which alone uses it during a pass.
  CommunicatorExpertGroup(Communicator& communicator, Options options)
      : communicator_(communicator), options_(std::move(options)) {}
  // Ends, on all ranks, messages of a pass that was given up.
  ~CommunicatorExpertGroup() override;

  int size() const override { return communicator_.size(); }
  int rank() const override { return communicator_.rank(); }
  void Exchange(std::function<void()> exchange) override;
  void Gather(int64_t numbers, const int32_t* mine, int32_t* all, int32_t* on_host) override;
  void Start(absl::Span<const Sent> sent, absl::Span<const Received> received) override;
  void Await() override;
  absl::Status status() const override { return status_; }

 private:
  Communicator& communicator_;
  const Options options_;
  std::vector<std::shared_ptr<Work>> under_way_;
  absl::Status status_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_PARALLEL_COMMUNICATOR_EXPERT_GROUP_H_
