#ifndef MUSTER_WORKER_PARALLEL_COMMUNICATOR_CONTEXT_GROUP_H_
#define MUSTER_WORKER_PARALLEL_COMMUNICATOR_CONTEXT_GROUP_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/work.h"
#include "common/tensor/dtype.h"
#include "worker/collectives/communicator.h"
#include "worker/nn/context_group.h"

namespace muster {

// A context group whose calls a communicator makes. Used by one thread.
class CommunicatorContextGroup final : public ContextGroup {
 public:
  // The messages of one StartToPass.
  using Passing = std::vector<std::shared_ptr<Work>>;

  // Waits for the end of work, and perhaps measures the time.
  using Wait = std::function<absl::Status(Work& work)>;
  // Starts calls that a rank makes at one time: one, or messages. Where computations are only
  // queued, it makes them in their place among them, returns none, and reports failures there.
  using Start =
      std::function<Passing(Communicator& communicator, absl::Span<const CollectiveCall> calls)>;

  // The communicator outlives the group, which alone uses it during a pass. Each call may take
  // `timeout`.
  CommunicatorContextGroup(
      Communicator& communicator, absl::Duration timeout, Wait wait,
      Start start =
          [](Communicator& group, absl::Span<const CollectiveCall> calls) {
            return group.StartMessages(calls);
          })
      : communicator_(communicator),
        timeout_(timeout),
        wait_(std::move(wait)),
        start_(std::move(start)) {}
  // Ends, on all ranks, calls of a pass that was given up.
  ~CommunicatorContextGroup() override;

  int size() const override { return communicator_.size(); }
  int rank() const override { return communicator_.rank(); }
  void StartToPass(DType type, int64_t elements, const void* mine, void* theirs) override;
  void AwaitPassed() override;
  void Gather(DType type, int64_t elements, const void* mine, void* all) override;
  void ScatterSums(DType type, int64_t elements, void* all, void* mine) override;
  void Exchange(DType type, int64_t elements, const void* in, void* out) override;
  void Sum(DType type, int64_t elements, void* values) override;
  absl::Status status() const override { return status_; }

 private:
  CollectiveCall CallOf(Collective kind, const char* label, DType type, int64_t elements,
                        const void* in, void* out) const;
  void Await(const Passing& passing);
  void Run(const CollectiveCall& call);

  Communicator& communicator_;
  const absl::Duration timeout_;
  const Wait wait_;
  const Start start_;
  std::deque<Passing> under_way_;
  absl::Status status_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_PARALLEL_COMMUNICATOR_CONTEXT_GROUP_H_
