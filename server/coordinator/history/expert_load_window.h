#ifndef MUSTER_SERVER_COORDINATOR_HISTORY_EXPERT_LOAD_WINDOW_H_
#define MUSTER_SERVER_COORDINATOR_HISTORY_EXPERT_LOAD_WINDOW_H_

#include "absl/time/time.h"
#include "server/coordinator/history/expert_sums.h"

namespace muster {

// The loads of a job's experts in its last steps, over all its tasks. Covers the last half to whole
// minute of reports, or the last two steps if these take longer: two sums, one of which is
// complete. Begins anew with the coordinator. Not thread-safe.
class ExpertLoadWindow {
 public:
  static constexpr absl::Duration kHalf = absl::Seconds(30);

  // Adds a report's loads. `now` is monotonic. REQUIRES: they passed CheckReport.
  void Add(const v1::ExpertLoads& loads, absl::Duration now);
  void Clear() { *this = {}; }

  ExpertSums sums() const;

 private:
  ExpertSums before_;
  ExpertSums present_;
  absl::Duration present_began_ = -absl::InfiniteDuration();
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_HISTORY_EXPERT_LOAD_WINDOW_H_
