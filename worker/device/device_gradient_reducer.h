#ifndef MUSTER_WORKER_DEVICE_DEVICE_GRADIENT_REDUCER_H_
#define MUSTER_WORKER_DEVICE_DEVICE_GRADIENT_REDUCER_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/work.h"
#include "common/device/device.h"
#include "common/kernels/transformer/head_sums.h"
#include "worker/collectives/communicator.h"
#include "worker/strategy/bucket_plan.h"

namespace muster {

// What is summed over the ranks: device memory that stays where it is.
struct DeviceGradientArrays {
  // Flat; the buckets' offsets are into it.
  float* gradients = nullptr;
  HeadSums* sums = nullptr;
};

// worker/strategy/gradient_reducer.h for gradients in device memory: bucket by bucket, in the
// plan's order, each started when backward has left the last of its units, on a stream of its own
// beside that of the computation. Between the two streams there are two edges: a bucket starts
// after what the computation had queued when its unit was ready; what the computation queues after
// Finish starts after all buckets.
//
//   write gradients; UnitReady(u) as units become complete; Finish
//
// With a communicator of device memory (NCCL) the host does not wait before Finish. With one of
// host memory, as the emulated device has, the host orders calls and streams itself.
//
// Used by one thread.
class DeviceGradientReducer {
 public:
  // The communicator outlives the reducer, and is used by others only between Finish and the next
  // UnitReady.
  static absl::StatusOr<std::unique_ptr<DeviceGradientReducer>> Create(
      Communicator& communicator, const std::vector<GradientBucket>& plan,
      const DeviceGradientArrays& arrays, absl::Duration timeout);

  // Calls that are under way end in Abort, for the whole group.
  ~DeviceGradientReducer();

  DeviceGradientReducer(const DeviceGradientReducer&) = delete;
  DeviceGradientReducer& operator=(const DeviceGradientReducer&) = delete;

  // Backward of `unit`, and so of all units after it, is queued on `compute`.
  void UnitReady(DeviceStream& compute, int unit);

  // Returns whether UnitReady has something to start.
  bool Starts(int unit) const;

  // Starts what is left and the sums, and waits until every rank's part of every call is done. Only
  // if all succeeded, gradients and sums are those of all ranks for what `compute` queues next. The
  // first error is returned once nothing is under way.
  absl::Status Finish(DeviceStream& compute);

  // Of all that the communicator moved, what was not gradients.
  CollectiveTraffic sums_traffic() const { return sums_traffic_; }

 private:
  struct Call {
    GradientBucket bucket;
    std::string label;
  };

  DeviceGradientReducer(Communicator& communicator, const DeviceGradientArrays& arrays,
                        absl::Duration timeout, std::unique_ptr<DeviceStream> stream,
                        std::unique_ptr<DeviceEvent> ready, std::unique_ptr<DeviceEvent> done);

  // Calls from now on come after what `compute` has queued.
  void Follow(DeviceStream& compute);
  void Start(const CollectiveCall& call);
  void StartBucket(const Call& call);
  // Waits for all calls; the first error.
  absl::Status Await();

  Communicator& communicator_;
  const DeviceGradientArrays arrays_;
  const absl::Duration timeout_;
  const std::unique_ptr<DeviceStream> stream_;
  const std::unique_ptr<DeviceEvent> ready_;
  const std::unique_ptr<DeviceEvent> done_;
  // In order of the plan; those before next_ have been started in this step.
  std::vector<Call> calls_;
  size_t next_ = 0;
  std::vector<std::shared_ptr<Work>> under_way_;
  CollectiveTraffic sums_traffic_;
  // The communication stream's, of this step.
  absl::Status failure_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DEVICE_DEVICE_GRADIENT_REDUCER_H_
