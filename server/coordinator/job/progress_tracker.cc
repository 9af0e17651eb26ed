#include "server/coordinator/job/progress_tracker.h"

#include <algorithm>
#include <tuple>

namespace muster {
namespace {

constexpr absl::Duration kWindow = absl::Seconds(10);

template <typename T>
void Resize(uint32_t slots, google::protobuf::RepeatedField<T>& values) {
  values.Resize(slots, T{0});
}

void AddToSlot(const v1::ReportProgressRequest& report, v1::SlotProgress& slot) {
  slot.set_steps(slot.steps() + report.steps());
  slot.set_compute_seconds(slot.compute_seconds() + report.compute_seconds());
  slot.set_exposed_communication_seconds(slot.exposed_communication_seconds() +
                                         report.exposed_communication_seconds());
  slot.set_waiting_seconds(slot.waiting_seconds() + report.waiting_seconds());
  slot.set_evaluation_seconds(slot.evaluation_seconds() + report.evaluation_seconds());
  slot.set_checkpoint_seconds(slot.checkpoint_seconds() + report.checkpoint_seconds());
  slot.set_bytes_pushed(slot.bytes_pushed() + report.bytes_pushed());
  slot.set_bytes_pulled(slot.bytes_pulled() + report.bytes_pulled());
  slot.set_bytes_sent(slot.bytes_sent() + report.bytes_sent());
  slot.set_bytes_received(slot.bytes_received() + report.bytes_received());
  slot.set_other_bytes_sent(slot.other_bytes_sent() + report.other_bytes_sent());
  slot.set_other_bytes_received(slot.other_bytes_received() + report.other_bytes_received());
  // These describe the process, so they are not summed.
  slot.set_process_cpu_seconds(report.process_cpu_seconds());
  slot.set_process_peak_bytes(report.process_peak_bytes());
  slot.set_process_mapped_bytes(report.process_mapped_bytes());
}

// Adds the steps of a report that were made again: those that its task says, and those up to the
// clock `redone_until`.
void AddRedone(const v1::ReportProgressRequest& report, uint64_t redone_until,
               v1::SlotProgress& slot) {
  uint64_t steps = report.redone_steps();
  double seconds = report.redone_seconds();
  // The report's new steps end at its clock.
  const uint64_t start = report.clock() - std::min(report.clock(), report.steps());
  if (start < redone_until && report.steps() > 0) {
    const uint64_t again = std::min(report.clock(), redone_until) - start;
    steps += again;
    seconds += (report.training_seconds() - report.redone_seconds()) * static_cast<double>(again) /
               static_cast<double>(report.steps());
  }
  slot.set_redone_steps(slot.redone_steps() + steps);
  slot.set_redone_seconds(slot.redone_seconds() + seconds);
}

// Notes that a report was taken. Returns false if it was taken before.
bool IsNew(const v1::ReportProgressRequest& report, v1::SlotProgress& slot) {
  if (report.number() == 0) return true;
  const std::tuple<uint64_t, uint64_t, uint64_t> last = {slot.report_incarnation(),
                                                         slot.report_round(), slot.report_number()};
  if (std::tuple(report.task().incarnation(), report.round(), report.number()) <= last) {
    return false;
  }
  slot.set_report_incarnation(report.task().incarnation());
  slot.set_report_round(report.round());
  slot.set_report_number(report.number());
  return true;
}

}  // namespace

ProgressTracker::ProgressTracker(uint32_t slots, StepIsDone done, LossWeight weight,
                                 const v1::ProgressRecord& stored)
    : done_(done), weight_(weight), record_(stored), times_(slots), slot_steps_(slots) {
  Resize(slots, *record_.mutable_clocks());
  Resize(slots, *record_.mutable_loss_sums());
  Resize(slots, *record_.mutable_loss_examples());
  Resize(slots, *record_.mutable_training_seconds());
  while (record_.slots_size() < static_cast<int>(slots)) record_.add_slots();
}

bool ProgressTracker::Add(const v1::ReportProgressRequest& report, absl::Duration now) {
  const uint32_t slot = report.task().slot();
  if (!IsNew(report, *record_.mutable_slots(slot))) return false;
  record_.set_clocks(slot, std::max<uint64_t>(record_.clocks(slot), report.clock()));
  // A task's last report may repeat the loss of its last step without new examples.
  if (report.loss_weight() > 0 || (report.examples() > 0 && weight_ == LossWeight::kExamples)) {
    record_.set_loss_sums(slot, report.loss_sum());
    record_.set_loss_examples(slot,
                              report.loss_weight() > 0 ? report.loss_weight() : report.examples());
  }
  record_.set_examples(record_.examples() + report.examples());
  record_.set_dropped_examples(record_.dropped_examples() + report.dropped_examples());
  record_.set_steps(record_.steps() + report.steps());
  record_.set_bytes_pushed(record_.bytes_pushed() + report.bytes_pushed());
  record_.set_bytes_pulled(record_.bytes_pulled() + report.bytes_pulled());
  record_.set_staleness_sum(record_.staleness_sum() + report.staleness_sum());
  record_.set_staleness_max(std::max<uint64_t>(record_.staleness_max(), report.staleness_max()));
  record_.set_training_seconds(slot, record_.training_seconds(slot) + report.training_seconds());
  AddToSlot(report, *record_.mutable_slots(slot));
  AddRedone(report, record_.redone_until(), *record_.mutable_slots(slot));
  times_[slot].Add(report, now);
  if (report.has_expert_loads()) expert_loads_.Add(report.expert_loads(), now);
  slot_steps_[slot] += report.steps();
  totals_.steps = std::max(totals_.steps, slot_steps_[slot]);
  totals_.examples += report.examples();
  totals_.dropped_examples += report.dropped_examples();
  totals_.tokens += report.tokens();
  totals_.training_seconds += report.training_seconds();
  totals_.compute_seconds += report.compute_seconds();
  totals_.communication_seconds += report.exposed_communication_seconds();
  totals_.data_seconds += report.waiting_seconds();
  // The first sample only starts the window: when its own work began is not known.
  samples_.push_back({now, record_.examples(), step()});
  // One sample from before the window stays, so that the samples always span it.
  while (samples_.size() > 2 && samples_[1].at <= now - kWindow) samples_.pop_front();
  return true;
}

void ProgressTracker::RollBack(uint64_t clock) {
  record_.set_redone_until(std::max<uint64_t>(record_.redone_until(), furthest()));
  for (uint64_t& closed : *record_.mutable_clocks()) closed = clock;
  samples_.clear();
  for (SlotTimes& times : times_) times.Clear();
  expert_loads_.Clear();
}

uint64_t ProgressTracker::furthest() const {
  const auto& clocks = record_.clocks();
  return clocks.empty() ? 0 : *std::max_element(clocks.begin(), clocks.end());
}

uint64_t ProgressTracker::step() const {
  if (done_ == StepIsDone::kTogether) return furthest();
  const auto& clocks = record_.clocks();
  return clocks.empty() ? 0 : *std::min_element(clocks.begin(), clocks.end());
}

double ProgressTracker::training_seconds() const {
  const auto& seconds = record_.training_seconds();
  return seconds.empty() ? 0 : *std::max_element(seconds.begin(), seconds.end());
}

void ProgressTracker::Describe(uint32_t slot, v1::TaskStatus& task) const {
  const v1::SlotProgress& sums = record_.slots(slot);
  task.set_step(record_.clocks(slot));
  task.set_steps(sums.steps());
  task.set_training_seconds(record_.training_seconds(slot));
  task.set_compute_seconds(sums.compute_seconds());
  task.set_exposed_communication_seconds(sums.exposed_communication_seconds());
  task.set_waiting_seconds(sums.waiting_seconds());
  task.set_bytes_pushed(sums.bytes_pushed());
  task.set_bytes_pulled(sums.bytes_pulled());
  task.set_bytes_sent(sums.bytes_sent());
  task.set_bytes_received(sums.bytes_received());
  task.set_other_bytes_sent(sums.other_bytes_sent());
  task.set_other_bytes_received(sums.other_bytes_received());
  task.set_process_cpu_seconds(sums.process_cpu_seconds());
  task.set_process_peak_bytes(sums.process_peak_bytes());
  task.set_process_mapped_bytes(sums.process_mapped_bytes());
}

v1::JobProgress ProgressTracker::Progress(uint64_t total_steps) const {
  v1::JobProgress progress;
  progress.set_step(step());
  progress.set_total_steps(total_steps);
  double loss_sum = 0;
  uint64_t loss_examples = 0;
  uint64_t bytes_sent = 0;
  for (int slot = 0; slot < record_.clocks_size(); ++slot) {
    loss_sum += record_.loss_sums(slot);
    loss_examples += record_.loss_examples(slot);
    bytes_sent += record_.slots(slot).bytes_sent();
  }
  if (loss_examples > 0) progress.set_loss(loss_sum / loss_examples);
  if (record_.steps() > 0) {
    const double steps = record_.steps();
    progress.set_bytes_pushed_per_step(record_.bytes_pushed() / steps);
    progress.set_bytes_pulled_per_step(record_.bytes_pulled() / steps);
    progress.set_bytes_sent_per_step(bytes_sent / steps);
    progress.set_mean_staleness(record_.staleness_sum() / steps);
  }
  progress.set_max_staleness(record_.staleness_max());
  progress.set_training_seconds(training_seconds());
  if (samples_.size() >= 2) {
    const Sample& first = samples_.front();
    const Sample& last = samples_.back();
    const double window = absl::ToDoubleSeconds(last.at - first.at);
    if (window > 0) {
      progress.set_examples_per_second((last.examples - first.examples) / window);
      const double steps_per_second = (last.step - first.step) / window;
      if (steps_per_second > 0 && total_steps > progress.step()) {
        progress.set_seconds_left((total_steps - progress.step()) / steps_per_second);
      }
    }
  }
  return progress;
}

}  // namespace muster
