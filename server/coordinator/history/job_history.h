#ifndef MUSTER_SERVER_COORDINATOR_HISTORY_JOB_HISTORY_H_
#define MUSTER_SERVER_COORDINATOR_HISTORY_JOB_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/history/series.h"
#include "server/coordinator/history/expert_sums.h"
#include "server/coordinator/history/loss_jumps.h"
#include "server/coordinator/history/slot_losses.h"

namespace muster {

namespace v1 {
class EvaluationResult;
class ReportProgressRequest;
}  // namespace v1

// Limits of one job's history. Points take 64 bytes, so all of a job's take less than 64 MiB.
struct HistoryLimits {
  // Most series that tasks name, and how many of them, the first ones, keep the most points.
  static constexpr size_t kMostReported = 256;
  static constexpr size_t kLongReported = 40;
  // The coordinator's own series other than those of slots always fit: train/loss, two of
  // held_out/*, speed/* and staleness/*. Those of experts' loads count as named by tasks,
  // which name few where blocks have experts.
  static constexpr size_t kMostOwn = 8;
  static constexpr size_t kMostPoints = 4096;
  static constexpr size_t kFewerPoints = 2048;
  // Each series of a slot; jobs with more than 256 slots have fewer points (PointsOfSlots).
  static constexpr size_t kMostPointsOfSlot = 256;
  // After the job's end, and each series of a slot then.
  static constexpr size_t kPointsAtEnd = 512;
  static constexpr size_t kPointsOfSlotAtEnd = 64;
  static constexpr size_t kMostMarks = 256;
};

// Returns the most points of each series of a slot in a job of so many slots.
size_t PointsOfSlots(uint32_t slots);

// The facts about a job that its history needs.
struct HistoryOptions {
  uint32_t slots = 1;
  // The model's own floating-point operations per training example, and one worker's peak per
  // second. 0: not known, so there is no speed/mfu.
  double flops_per_example = 0;
  double peak_flops = 0;
  // DivergenceSpec.jump; 0: nothing is a jump.
  double jump = 0;
};

// The series of one job (proto/metrics.proto names them), and the marks of its roll-backs. Memory
// is bounded however long the job runs. Knows no store; StoredHistory keeps it.
//
// What may go wrong, and what holds then:
//   - A report comes twice, in parts, late or after a newer one: a series takes only steps after
//     its last, and speed counts each step of a slot once. Reports of fenced tasks never get here.
//   - A new task of a slot repeats steps: the slot's part of them is not taken again. Another slot
//     becomes the one that speaks for all: the same rule.
//   - A task dies before it reported its last steps, or the coordinator before it kept a report:
//   the
//     loss of those steps is that of the other slots, or absent, and TakeGaps says so.
//   - The job goes back to clock c: CutAfter(c) removes what is later, in all series, also what
//     waits for other slots. Since no point spans a checkpoint's clock, nothing else is lost.
//   - A value is infinite or NaN, a name is not one for tasks, or there are too many names: the
//     value is left out.
//   - The wall clock goes back: times are shown as they were, and order nothing.
// Not thread-safe.
class JobHistory {
 public:
  struct Named {
    std::string name;
    Series series;
  };
  struct Mark {
    uint64_t clock = 0;
    uint64_t reached = 0;
    int64_t unix_ms = 0;

    bool operator==(const Mark&) const = default;
  };

  explicit JobHistory(const HistoryOptions& options);

  // Sets the clocks that the job may go back to, for everything added from now on.
  void SetBoundaries(Boundaries boundaries) { boundaries_ = std::move(boundaries); }

  // Takes a report of steps. REQUIRES: it passed CheckReport, and its slot exists.
  void AddReport(const v1::ReportProgressRequest& report, int64_t unix_ms);
  void AddEvaluation(const v1::EvaluationResult& result, int64_t unix_ms);

  // Adds the losses of the steps that all of `slots`, those that train, have closed. When all have
  // just closed a further step, adds what reports add up to since the last time (speed, staleness,
  // experts' loads): as many steps of one slot as of another. That is at most four times a second
  // at first, so that short jobs have a curve, and later at most once a second. `now` is monotonic.
  void Settle(absl::Span<const uint32_t> slots, absl::Duration now, int64_t unix_ms);
  // Returns the steps that the loss turned out to lack, or to have in part, since the last call.
  std::vector<LossGap> TakeGaps() { return std::exchange(gaps_, {}); }
  // Returns the first jump of the loss since the last call.
  std::optional<LossJump> TakeJump() { return jumps_.Take(); }
  // Returns whether Settle has something to do.
  bool waits() const { return reported_; }

  // The job goes on from an earlier clock.
  void CutAfter(const Mark& mark);

  // The job has ended: adds what is left, and keeps fewer points.
  void End(absl::Duration now, int64_t unix_ms);

  const std::vector<Named>& series() const { return series_; }
  const std::deque<Mark>& marks() const { return marks_; }
  // Returns whether anything changed since the last call of ForgetChanges.
  bool changed() const { return changed_; }

  // StoredHistory and JobTable use these to restore a history and to note stored changes.
  void Restore(std::deque<Mark> marks) { marks_ = std::move(marks); }
  // Restores a slot that is done: it has closed `clock` clocks and will not report again.
  void RestoreDone(uint32_t slot, uint64_t clock) { losses_.Reach(slot, clock); }
  Series& RestoreSeries(const std::string& name) { return series_[IndexOf(name)].series; }
  void ForgetChanges();

 private:
  // Sums over reports since the last sample. Steps that were known before do not count.
  struct Sums {
    double examples = 0;
    double tokens = 0;
    double steps = 0;
    double staleness = 0;
    uint64_t most_staleness = 0;
    ExpertSums loads;
    // Each slot's examples and the seconds that it trained, only until the first sample.
    std::vector<double> slot_examples;
    std::vector<double> slot_seconds;
  };

  // Returns the position of a series, and adds one if there is none of this name.
  size_t IndexOf(const std::string& name);
  // Adds a point if its series takes it.
  void Add(const std::string& name, const SeriesPoint& point);
  void AddSums(const v1::ReportProgressRequest& report);
  void AddReported(const v1::ReportProgressRequest& report, int64_t unix_ms);
  void AddSlot(const v1::ReportProgressRequest& report, int64_t unix_ms);
  void AddLosses(std::vector<SeriesPoint> points, int64_t unix_ms);
  // Adds the points of `sums_`.
  void Sample(absl::Duration now, int64_t unix_ms);
  // Returns the job's examples per second according to `sums_`; 0: not known.
  double Speed(absl::Duration now) const;

  const HistoryOptions options_;
  const size_t points_of_slots_;
  Boundaries boundaries_;
  std::vector<Named> series_;
  absl::flat_hash_map<std::string, size_t> by_name_;
  // Number of series that tasks named.
  size_t reported_series_ = 0;
  SlotLosses losses_;
  // True if a report came since Settle.
  bool reported_ = false;
  std::deque<Mark> marks_;
  std::vector<LossGap> gaps_;
  LossJumps jumps_;
  bool changed_ = false;
  Sums sums_;
  // The last step that all slots had closed at the last Settle; 0: some slot had not reported yet.
  uint64_t closed_ = 0;
  // Number of slots at the last Settle.
  size_t training_slots_ = 0;
  // Times of the first and the last sample, since the job last went back.
  absl::Duration first_sampled_ = -absl::InfiniteDuration();
  absl::Duration sampled_ = -absl::InfiniteDuration();
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_HISTORY_JOB_HISTORY_H_
