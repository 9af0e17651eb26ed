#ifndef MUSTER_COMMON_RPC_PARAMETER_SERVICE_OPENING_LANE_H_
#define MUSTER_COMMON_RPC_PARAMETER_SERVICE_OPENING_LANE_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/rpc/parameter_service/exchange_lane.h"

namespace muster {

// A lane that is not open yet: calls wait, in order, until it is, and then go by the opened one.
class OpeningLane final : public ExchangeLane {
 public:
  OpeningLane(std::string address, Limits limits);
  ~OpeningLane() override;

  void Call(v1::ExchangeRequest request, Payload payload, absl::Span<std::byte> landing,
            ParameterClient::Done done) override ABSL_LOCKS_EXCLUDED(mutex_);
  void Abort(absl::Status reason) override ABSL_LOCKS_EXCLUDED(mutex_);
  void SetWaiting(bool waiting) override ABSL_LOCKS_EXCLUDED(mutex_);

  // Opens this lane; called at most once.
  void Open(std::unique_ptr<ExchangeLane> lane) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Waiting;

  const std::string address_;
  const Limits limits_;

  absl::Mutex mutex_;
  // Not OK once aborted.
  absl::Status aborted_ ABSL_GUARDED_BY(mutex_);
  std::deque<Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
  int64_t waiting_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // True once calls go straight to lane_, which no longer changes.
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<ExchangeLane> lane_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster

#endif  // MUSTER_COMMON_RPC_PARAMETER_SERVICE_OPENING_LANE_H_
