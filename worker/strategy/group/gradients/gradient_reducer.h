#ifndef MUSTER_WORKER_STRATEGY_GROUP_GRADIENTS_GRADIENT_REDUCER_H_
#define MUSTER_WORKER_STRATEGY_GROUP_GRADIENTS_GRADIENT_REDUCER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/work.h"
#include "common/partition/bucket_plan.h"
#include "common/tensor/dtype.h"
#include "worker/collectives/communicator.h"
#include "worker/strategy/blocked_time.h"
#include "worker/strategy/group/gradients/call_order.h"

namespace muster {

struct GradientReducerOptions {
  // The type in which buckets travel. kF32: sums of f32, to the bit as the communicator adds them.
  // kBf16: half the bytes; each rank's gradient is rounded to bf16, added in f32, and the sum
  // rounded once more: a relative error of at most 2^-8 for each rounding.
  DType wire = DType::kF32;
  // Sums in rank order, whatever a bucket's size.
  bool deterministic = false;
  // The timeout of each bucket's call, from when it is the call's turn.
  absl::Duration timeout = absl::Minutes(10);
  // The function that waits for a bucket's call.
  WaitForWork wait = WaitForever;
  // The flat space, if it exists; otherwise Create allocates it from the communicator.
  absl::Span<float> gradients;
  // The order between the computation and the calls. Outlives the reducer. Null: gradients are
  // complete when UnitReady is called.
  CallOrder* order = nullptr;
  // The group that sums buckets of experts (GradientBucket::experts). Outlives the reducer. Null:
  // this rank alone has gradients of its experts.
  Communicator* experts = nullptr;
};

// Sums a step's gradients over the ranks of a group while backward goes on: bucket by bucket in the
// plan's order, each started as soon as backward has left the last of its units. Gradients lie in
// the communicator's own memory, or on the communicator's device, so that they are reduced where
// they are.
//
//   write gradients(); UnitReady(u) as units become complete; Finish
//
// Used by one thread.
class GradientReducer {
 public:
  // Creates the reducer; a collective call. `elements` is the flat space's size. The communicator
  // must outlive the reducer, and meanwhile be used by others only between Finish and UnitReady.
  // Errors are the communicator's.
  static absl::StatusOr<std::unique_ptr<GradientReducer>> Create(
      Communicator& communicator, std::vector<GradientBucket> plan, uint64_t elements,
      const GradientReducerOptions& options);

  // Ends calls under way in Abort, for the whole group, so that no rank waits for this one.
  ~GradientReducer();

  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  // The flat space; its address never changes.
  absl::Span<float> gradients() { return gradients_; }

  // Tells that backward has left `unit` and all units after it, and starts the calls of buckets
  // that are complete. Starts nothing once the computation has failed (CallOrder); Finish then
  // returns that error.
  void UnitReady(int unit);

  // Starts what was not ready yet, and waits for all buckets: gradients() then holds the sums. The
  // first error is returned once nothing is under way.
  absl::Status Finish();

 private:
  struct Call {
    GradientBucket bucket;
    // The values that are sent. Only with kBf16.
    absl::Span<uint16_t> wire;
    std::string label;
    std::shared_ptr<Work> work;
  };

  GradientReducer(Communicator& communicator, const std::vector<GradientBucket>& plan,
                  const GradientReducerOptions& options);

  void Start(Call& call);
  void Abort(const std::string& reason);

  Communicator& communicator_;
  const GradientReducerOptions options_;
  // In order of the plan; those before next_ have been started in this step.
  std::vector<Call> calls_;
  size_t next_ = 0;

  // The first error of the order in this step.
  absl::Status failure_;

  // Null if the caller gave the flat space.
  std::unique_ptr<CollectiveBuffer> memory_;
  absl::Span<float> gradients_;
  // The values that are sent, bucket after bucket. Only with kBf16.
  std::unique_ptr<CollectiveBuffer> wire_memory_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_GRADIENTS_GRADIENT_REDUCER_H_
