#ifndef MUSTER_WORKER_COLLECTIVES_HOST_CALL_PLAN_H_
#define MUSTER_WORKER_COLLECTIVES_HOST_CALL_PLAN_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "common/collectives/schedule.h"

namespace muster {

// A schedule, indexed by stream for an executor. Immutable.
class CallPlan {
 public:
  CallPlan(Schedule schedule, int size);

  const Schedule& schedule() const { return schedule_; }
  // Return indices of transfers in the schedule's order: those sent to `peer`, those received from
  // `peer` (kReduceFromAll is listed for every peer), and copies.
  absl::Span<const int> sends(int peer) const { return sends_[peer]; }
  absl::Span<const int> receives(int peer) const { return receives_[peer]; }
  absl::Span<const int> copies() const { return copies_; }
  // Return the number of elements sent to and received from `peer`.
  size_t elements_to(int peer) const { return elements_to_[peer]; }
  size_t elements_from(int peer) const { return elements_from_[peer]; }

 private:
  const Schedule schedule_;
  std::vector<std::vector<int>> sends_;
  std::vector<std::vector<int>> receives_;
  std::vector<int> copies_;
  std::vector<size_t> elements_to_;
  std::vector<size_t> elements_from_;
};

// Keeps the plans of recent calls, because training repeats the same ones. Not thread-safe.
class CallPlans {
 public:
  // Returns the plan for `request`, valid until the next call. Plans with counts by rank are made
  // anew, because they seldom repeat.
  const CallPlan& For(const ScheduleRequest& request);

 private:
  struct Entry {
    ScheduleRequest request;
    std::unique_ptr<CallPlan> plan;
  };
  static constexpr size_t kEntries = 64;

  std::vector<Entry> entries_ = std::vector<Entry>(kEntries);
  std::unique_ptr<CallPlan> unique_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_HOST_CALL_PLAN_H_
