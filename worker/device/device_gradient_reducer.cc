#include "worker/device/device_gradient_reducer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace muster {

DeviceGradientReducer::DeviceGradientReducer(Communicator& communicator,
                                             const DeviceGradientArrays& arrays,
                                             absl::Duration timeout,
                                             std::unique_ptr<DeviceStream> stream,
                                             std::unique_ptr<DeviceEvent> ready,
                                             std::unique_ptr<DeviceEvent> done)
    : communicator_(communicator),
      arrays_(arrays),
      timeout_(timeout),
      stream_(std::move(stream)),
      ready_(std::move(ready)),
      done_(std::move(done)) {}

absl::StatusOr<std::unique_ptr<DeviceGradientReducer>> DeviceGradientReducer::Create(
    Communicator& communicator, const std::vector<GradientBucket>& plan,
    const DeviceGradientArrays& arrays, absl::Duration timeout) {
  MUSTER_ASSIGN_OR_RETURN(auto stream, DeviceStream::Create());
  MUSTER_ASSIGN_OR_RETURN(auto ready, DeviceEvent::Create());
  MUSTER_ASSIGN_OR_RETURN(auto done, DeviceEvent::Create());
  std::unique_ptr<DeviceGradientReducer> reducer(new DeviceGradientReducer(
      communicator, arrays, timeout, std::move(stream), std::move(ready), std::move(done)));
  for (size_t i = 0; i < plan.size(); ++i) {
    reducer->calls_.push_back({plan[i], absl::StrCat("bucket ", i)});
  }
  return reducer;
}

DeviceGradientReducer::~DeviceGradientReducer() {
  if (under_way_.empty()) return;
  communicator_.Abort("a step was given up with buckets of gradients under way");
  for (const auto& work : under_way_) work->Wait(absl::InfiniteDuration()).IgnoreError();
}

void DeviceGradientReducer::Follow(DeviceStream& compute) {
  compute.Record(*ready_);
  stream_->Wait(*ready_);
  if (stream_->native() != nullptr) return;
  const absl::Status status = stream_->Synchronize();
  if (failure_.ok()) failure_ = status;
}

void DeviceGradientReducer::Start(const CollectiveCall& call) {
  under_way_.push_back(communicator_.Start(call));
}

void DeviceGradientReducer::StartBucket(const Call& call) {
  CollectiveCall all_reduce;
  all_reduce.kind = Collective::kAllReduce;
  all_reduce.reduction = Reduction::kSum;
  all_reduce.dtype = DType::kF32;
  all_reduce.in = all_reduce.out = arrays_.gradients + call.bucket.begin;
  all_reduce.count = call.bucket.elements();
  all_reduce.timeout = timeout_;
  all_reduce.label = call.label;
  all_reduce.stream = stream_->native();
  Start(all_reduce);
}

bool DeviceGradientReducer::Starts(int unit) const {
  return next_ < calls_.size() && calls_[next_].bucket.ready_unit >= unit;
}

void DeviceGradientReducer::UnitReady(DeviceStream& compute, int unit) {
  if (!Starts(unit)) return;
  Follow(compute);
  for (; next_ < calls_.size() && calls_[next_].bucket.ready_unit >= unit; ++next_) {
    StartBucket(calls_[next_]);
  }
}

absl::Status DeviceGradientReducer::Await() {
  absl::Status first;
  for (const auto& work : under_way_) first.Update(work->Wait(absl::InfiniteDuration()));
  under_way_.clear();
  return first;
}

absl::Status DeviceGradientReducer::Finish(DeviceStream& compute) {
  UnitReady(compute, 0);
  Follow(compute);
  absl::Status result = std::exchange(failure_, absl::OkStatus());
  // What a call moves is counted when it starts, or of host memory when it has ended.
  if (stream_->native() == nullptr) result.Update(Await());
  const CollectiveTraffic before = communicator_.traffic();
  CollectiveCall sums;
  sums.kind = Collective::kAllReduce;
  sums.reduction = Reduction::kSum;
  sums.dtype = DType::kF64;
  sums.in = sums.out = arrays_.sums;
  sums.count = sizeof(HeadSums) / sizeof(double);
  sums.timeout = timeout_;
  sums.label = "sums of the loss";
  sums.stream = stream_->native();
  Start(sums);
  result.Update(Await());
  const CollectiveTraffic after = communicator_.traffic();
  sums_traffic_.sent += after.sent - before.sent;
  sums_traffic_.received += after.received - before.received;
  next_ = 0;
  stream_->Record(*done_);
  compute.Wait(*done_);
  if (result.ok()) result = stream_->status();
  return result;
}

}  // namespace muster
