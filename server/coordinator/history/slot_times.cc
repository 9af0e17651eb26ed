#include "server/coordinator/history/slot_times.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "proto/status.pb.h"
#include "proto/task_service.pb.h"

namespace muster {
namespace {

constexpr absl::Duration kPartTime = absl::Milliseconds(1250);
constexpr size_t kFewestParts = 3;
constexpr double kSlowFactor = 1.5;
constexpr double kSlowShareOfStep = 0.1;

// Returns a slot's own seconds per example.
double OwnTime(const SlotTimes::Sums& sums) {
  return (sums.compute_seconds + sums.data_seconds) / sums.examples;
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

void SlotTimes::Add(const v1::ReportProgressRequest& report, absl::Duration now) {
  if (report.steps() == 0) return;
  if (report.task().incarnation() != incarnation_) Clear();
  incarnation_ = report.task().incarnation();
  if (parts_.empty() || now - parts_.back().begin >= kPartTime) {
    parts_.push_back({.begin = now});
    if (parts_.size() > kMostParts) parts_.pop_front();
  }
  Sums& sums = parts_.back().sums;
  sums.steps += report.steps();
  sums.examples += static_cast<double>(report.examples());
  sums.seconds += report.training_seconds();
  sums.compute_seconds += report.compute_seconds();
  sums.communication_seconds += report.exposed_communication_seconds();
  sums.data_seconds += report.waiting_seconds();
}

SlotTimes::Sums SlotTimes::sums() const {
  Sums all;
  for (const Part& part : parts_) {
    all.steps += part.sums.steps;
    all.examples += part.sums.examples;
    all.seconds += part.sums.seconds;
    all.compute_seconds += part.sums.compute_seconds;
    all.communication_seconds += part.sums.communication_seconds;
    all.data_seconds += part.sums.data_seconds;
  }
  return all;
}

v1::StepTimes ToProto(const SlotTimes::Sums& sums) {
  v1::StepTimes times;
  times.set_steps(sums.steps);
  times.set_training_seconds(sums.seconds);
  times.set_compute_seconds(sums.compute_seconds);
  times.set_exposed_communication_seconds(sums.communication_seconds);
  times.set_waiting_seconds(sums.data_seconds);
  return times;
}

std::vector<std::string> SlowSlots(absl::Span<const SlotTimes> slots) {
  std::vector<std::string> slow(slots.size());
  std::vector<double> own, computing, whole;
  for (const SlotTimes& slot : slots) {
    const SlotTimes::Sums sums = slot.sums();
    if (sums.examples == 0) continue;
    own.push_back(OwnTime(sums));
    computing.push_back(sums.compute_seconds / sums.examples);
    whole.push_back(sums.seconds / sums.examples);
  }
  if (own.size() < 2) return slow;
  const double median = Median(own);
  const double least_difference = kSlowShareOfStep * Median(whole);
  for (size_t i = 0; i < slots.size(); ++i) {
    const auto& parts = slots[i].parts();
    const SlotTimes::Sums sums = slots[i].sums();
    if (parts.size() < kFewestParts || sums.examples == 0) continue;
    const auto slow_parts =
        std::count_if(parts.begin(), parts.end(), [&](const SlotTimes::Part& part) {
          return part.sums.examples > 0 && OwnTime(part.sums) > kSlowFactor * median;
        });
    const double difference = OwnTime(sums) - median;
    if (static_cast<size_t>(slow_parts) * 4 < parts.size() * 3 || difference < least_difference) {
      continue;
    }
    const double more_computing = sums.compute_seconds / sums.examples - Median(computing);
    slow[i] = absl::StrFormat(
        "%s %.1f x as long for an example as the median slot",
        more_computing >= difference / 2 ? "computes" : "waits for training data and computes",
        OwnTime(sums) / median);
  }
  return slow;
}

}  // namespace muster
