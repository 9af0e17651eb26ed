#ifndef MUSTER_COMMON_RPC_PARAMETER_SERVICE_OPENING_LANE_H_
#define MUSTER_COMMON_RPC_PARAMETER_SERVICE_OPENING_LANE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/rpc/parameter_service/exchange_lane.h"

namespace muster {

// A lane that is not open yet: calls wait, in order, until it is, and then go by the opened one.
// The opened one may be a makeshift, which a better lane replaces later.
class OpeningLane final : public ExchangeLane {
 public:
  OpeningLane(std::string address, Limits limits);
  ~OpeningLane() override;

  void Call(v1::ExchangeRequest request, Payload payload, absl::Span<std::byte> landing,
            ParameterClient::Done done) override ABSL_LOCKS_EXCLUDED(mutex_);
  void Abort(absl::Status reason) override ABSL_LOCKS_EXCLUDED(mutex_);
  void SetWaiting(bool waiting) override ABSL_LOCKS_EXCLUDED(mutex_);

  enum class Stay { kForGood, kAsMakeshift };

  // Opens this lane; called at most once.
  void Open(std::unique_ptr<ExchangeLane> lane, Stay stay) ABSL_LOCKS_EXCLUDED(mutex_);

  // Has calls go by `lane`, from the first one on that finds all before it answered: so none
  // overtakes another, and none waits. REQUIRES: opened as a makeshift; called at most once.
  void Replace(std::unique_ptr<ExchangeLane> lane) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Waiting;

  // Returns `done`, and counts the call until it is answered.
  ParameterClient::Done CountedLocked(ParameterClient::Done done)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string address_;
  const Limits limits_;

  absl::Mutex mutex_;
  // Not OK once aborted.
  absl::Status aborted_ ABSL_GUARDED_BY(mutex_);
  std::deque<Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
  int64_t waiting_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // True once calls go straight to lane_.
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
  // True while lane_ may change; then calls are counted.
  bool makeshift_ ABSL_GUARDED_BY(mutex_) = false;
  size_t unanswered_ ABSL_GUARDED_BY(mutex_) = 0;
  bool somebody_waits_ ABSL_GUARDED_BY(mutex_) = true;
  // The makeshift that was replaced stays until the end: its last `done` may still run.
  std::unique_ptr<ExchangeLane> replaced_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<ExchangeLane> lane_ ABSL_GUARDED_BY(mutex_);
  // The lane that is to replace lane_.
  std::unique_ptr<ExchangeLane> next_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster

#endif  // MUSTER_COMMON_RPC_PARAMETER_SERVICE_OPENING_LANE_H_
