#ifndef MUSTER_SERVER_COORDINATOR_HISTORY_SLOT_TIMES_H_
#define MUSTER_SERVER_COORDINATOR_HISTORY_SLOT_TIMES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"

namespace muster {

namespace v1 {
class ReportProgressRequest;
class StepTimes;
}  // namespace v1

// The times of a slot's last steps by what they were spent on. Covers about the last ten seconds,
// or the last eight reports if these come more slowly. A new task begins anew. Not thread-safe.
class SlotTimes {
 public:
  // Sums over steps; see ReportProgressRequest.
  struct Sums {
    uint64_t steps = 0;
    double examples = 0;
    double seconds = 0;
    double compute_seconds = 0;
    double communication_seconds = 0;
    double data_seconds = 0;
  };
  // The steps of about one second, or of one report.
  struct Part {
    absl::Duration begin;
    Sums sums;
  };
  static constexpr size_t kMostParts = 8;

  // Takes a report of the slot. `now` is monotonic.
  void Add(const v1::ReportProgressRequest& report, absl::Duration now);
  void Clear() { parts_.clear(); }

  Sums sums() const;
  // Returns the parts, the oldest first.
  const std::deque<Part>& parts() const { return parts_; }

 private:
  uint64_t incarnation_ = 0;
  std::deque<Part> parts_;
};

v1::StepTimes ToProto(const SlotTimes::Sums& sums);

// Returns for each slot why it counts as slow beside the others of its job, or nothing.
//
// A slot's own time for an example is spent computing and waiting for training data; time that it
// waits for other slots is theirs. A slot is slow if its own time exceeds 1.5 x the median of all
// slots in three parts of four, of which it has at least three: a pause, or the start of a task,
// makes no slot slow. The difference must also be at least a tenth of a median step. For an even
// number of slots the lower median is used, so that one of two slots can be slow.
std::vector<std::string> SlowSlots(absl::Span<const SlotTimes> slots);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_HISTORY_SLOT_TIMES_H_
