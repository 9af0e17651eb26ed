#include "server/coordinator/history/job_history.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/history/series_proto.h"
#include "proto/metrics.pb.h"
#include "proto/status.pb.h"
#include "proto/task_service.pb.h"

namespace muster {
namespace {

constexpr absl::string_view kLoss = "train/loss";
constexpr size_t kMostNameBytes = 128;
// Time between samples: a quarter of the time since the first one, within these bounds.
constexpr absl::Duration kLeastInterval = absl::Milliseconds(250);
constexpr absl::Duration kMostInterval = absl::Seconds(1);
// A shorter time at a job's end is too short to measure speed.
constexpr absl::Duration kLeastLastInterval = absl::Milliseconds(100);
// Room for the series of all slots, and for losses that wait for other slots.
constexpr size_t kBytesOfSlots = 20 << 20;
constexpr size_t kBytesOfWaiting = 4 << 20;
constexpr size_t kSeriesOfSlot = 5;
constexpr size_t kFewestPoints = 16;

// Returns the largest power of two that is at most `most` and at most `limit`, but at least
// kFewestPoints. A vector that doubles takes no more memory than such a number of points.
size_t PowerOfTwoBelow(size_t most, size_t limit) {
  size_t points = kFewestPoints;
  while (points * 2 <= std::min(most, limit)) points *= 2;
  return points;
}

size_t WaitingPoints(uint32_t slots) {
  return PowerOfTwoBelow(kBytesOfWaiting / sizeof(SeriesPoint) / std::max(slots, 1u), 64);
}

// Returns whether a task may report a series of this name.
bool IsReportedName(absl::string_view name) {
  if (name.size() > kMostNameBytes || !absl::ConsumePrefix(&name, "train/") || name.empty()) {
    return false;
  }
  return std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '_' || c == '.' || c == '/';
  });
}

bool IsOfSlot(absl::string_view name) { return absl::StartsWith(name, "slot/"); }

// Returns whether a series counts as one that tasks named: there is always room for the loss.
bool CountsAsReported(absl::string_view name) {
  return absl::StartsWith(name, "train/") && name != kLoss;
}

}  // namespace

size_t PointsOfSlots(uint32_t slots) {
  return PowerOfTwoBelow(kBytesOfSlots / sizeof(SeriesPoint) / kSeriesOfSlot / std::max(slots, 1u),
                         HistoryLimits::kMostPointsOfSlot);
}

JobHistory::JobHistory(const HistoryOptions& options)
    : options_(options),
      points_of_slots_(PointsOfSlots(options.slots)),
      losses_(options.slots, WaitingPoints(options.slots)),
      jumps_(options.jump) {}

size_t JobHistory::IndexOf(const std::string& name) {
  const auto [it, added] = by_name_.try_emplace(name, series_.size());
  if (!added) return it->second;
  size_t most = IsOfSlot(name) ? points_of_slots_ : HistoryLimits::kMostPoints;
  if (CountsAsReported(name) && ++reported_series_ > HistoryLimits::kLongReported) {
    most = HistoryLimits::kFewerPoints;
  }
  series_.push_back({name, Series(most)});
  return it->second;
}

void JobHistory::Add(const std::string& name, const SeriesPoint& point) {
  if (!IsSound(point)) return;
  if (series_[IndexOf(name)].series.Add(point, boundaries_)) changed_ = true;
}

void JobHistory::AddReport(const v1::ReportProgressRequest& report, int64_t unix_ms) {
  AddSums(report);
  AddReported(report, unix_ms);
  if (report.steps() > 0) AddSlot(report, unix_ms);
  losses_.Reach(report.task().slot(), report.clock());
  reported_ = true;
}

void JobHistory::AddSums(const v1::ReportProgressRequest& report) {
  // A report whose answer was lost comes again, and a new task repeats steps of the one before.
  const uint64_t before = losses_.clock(report.task().slot());
  if (report.steps() == 0 || report.clock() <= before) return;
  const uint64_t steps = std::min<uint64_t>(report.steps(), report.clock() - before);
  const double share = static_cast<double>(steps) / static_cast<double>(report.steps());
  sums_.examples += share * report.examples();
  sums_.tokens += share * report.tokens();
  sums_.steps += steps;
  sums_.staleness += share * report.staleness_sum();
  sums_.most_staleness = std::max<uint64_t>(sums_.most_staleness, report.staleness_max());
  // Some of the steps may have been reported before: shares of tokens stay what they are.
  sums_.loads.Add(report.expert_loads());
  if (sampled_ > -absl::InfiniteDuration()) return;
  const uint32_t slot = report.task().slot();
  sums_.slot_examples.resize(options_.slots);
  sums_.slot_seconds.resize(options_.slots);
  sums_.slot_examples[slot] += share * report.examples();
  sums_.slot_seconds[slot] += share * report.training_seconds();
}

void JobHistory::AddReported(const v1::ReportProgressRequest& report, int64_t unix_ms) {
  std::vector<SeriesPoint> losses;
  for (const v1::ReportedSeries& reported : report.series()) {
    if (!IsReportedName(reported.name())) continue;
    const bool full = reported_series_ == HistoryLimits::kMostReported;
    if (full && reported.name() != kLoss && !by_name_.contains(reported.name())) continue;
    for (const v1::SeriesPoint& message : reported.points()) {
      SeriesPoint point = FromProto(message);
      if (!IsSound(point) || point.last_step > report.clock()) continue;
      point.unix_ms = unix_ms;
      if (reported.name() == kLoss) {
        losses.push_back(point);
      } else {
        Add(reported.name(), point);
      }
    }
    if (reported.name() == kLoss) {
      losses_.Add(report.task().slot(), reported.weight(), losses, boundaries_);
      losses.clear();
    }
  }
}

void JobHistory::AddSlot(const v1::ReportProgressRequest& report, int64_t unix_ms) {
  const double steps = static_cast<double>(report.steps());
  const auto add = [&](absl::string_view what, double value) {
    Add(absl::StrCat("slot/", report.task().slot(), "/", what),
        OneValue(report.clock(), value, unix_ms));
  };
  add("step", report.training_seconds() / steps);
  add("compute", report.compute_seconds() / steps);
  add("communication", report.exposed_communication_seconds() / steps);
  add("data", report.waiting_seconds() / steps);
  add("memory_bytes", static_cast<double>(report.process_peak_bytes()));
}

void JobHistory::AddEvaluation(const v1::EvaluationResult& result, int64_t unix_ms) {
  if (result.no_value().empty()) {
    Add(absl::StrCat("held_out/", result.metric()),
        OneValue(result.clock(), result.value(), unix_ms));
  }
  Add("held_out/loss", OneValue(result.clock(), result.loss(), unix_ms));
}

void JobHistory::AddLosses(std::vector<SeriesPoint> points, int64_t unix_ms) {
  for (SeriesPoint& point : points) {
    point.unix_ms = unix_ms;
    Add(std::string(kLoss), point);
  }
}

void JobHistory::Settle(absl::Span<const uint32_t> slots, absl::Duration now, int64_t unix_ms) {
  if (!std::exchange(reported_, false) || slots.empty()) return;
  std::vector<SeriesPoint> losses = losses_.Take(slots, gaps_);
  const auto kept = by_name_.find(kLoss);
  const uint64_t known =
      kept == by_name_.end() ? 0 : series_[kept->second].series.last_step().value_or(0);
  if (known > 0 && !losses.empty() && losses.front().first_step > known + 1) {
    gaps_.insert(gaps_.begin(),
                 {.first_step = known + 1, .last_step = losses.front().first_step - 1});
  }
  jumps_.Add(losses);
  AddLosses(std::move(losses), unix_ms);
  training_slots_ = slots.size();
  const uint64_t before = std::exchange(closed_, losses_.ClosedByAll(slots));
  // Slots that just reported for the first time may be at different steps.
  if (before == 0 || closed_ <= before) return;
  const absl::Duration interval =
      std::clamp((now - first_sampled_) / 4, kLeastInterval, kMostInterval);
  if (now - sampled_ >= interval) Sample(now, unix_ms);
}

double JobHistory::Speed(absl::Duration now) const {
  if (sampled_ > -absl::InfiniteDuration()) {
    return sums_.examples / absl::ToDoubleSeconds(now - sampled_);
  }
  // The time at which the first reports' work began is not known, so each slot's own time counts.
  double speed = 0;
  for (size_t slot = 0; slot < sums_.slot_seconds.size(); ++slot) {
    const double seconds = sums_.slot_seconds[slot];
    if (seconds > 0) speed += sums_.slot_examples[slot] / seconds;
  }
  return speed;
}

void JobHistory::Sample(absl::Duration now, int64_t unix_ms) {
  if (sums_.steps == 0 || closed_ == 0) return;
  const double speed = Speed(now);
  const Sums sums = std::exchange(sums_, {});
  sampled_ = now;
  if (first_sampled_ == -absl::InfiniteDuration()) first_sampled_ = now;
  const auto add = [&](const std::string& name, double value) {
    Add(name, OneValue(closed_, value, unix_ms));
  };
  if (speed > 0) {
    add("speed/examples_per_second", speed);
    if (sums.tokens > 0) add("speed/tokens_per_second", speed * sums.tokens / sums.examples);
    const double peak = options_.peak_flops * static_cast<double>(training_slots_);
    if (options_.flops_per_example > 0 && peak > 0) {
      add("speed/mfu", speed * options_.flops_per_example / peak);
    }
  }
  if (sums.most_staleness > 0) {
    add("staleness/mean", sums.staleness / sums.steps);
    add("staleness/max", static_cast<double>(sums.most_staleness));
  }
  if (const std::optional<LoadRange> loads = sums.loads.Range()) {
    add("train/expert_load_lowest", loads->lowest);
    add("train/expert_load_highest", loads->highest);
    const double dropped = sums.loads.DroppedShare();
    if (dropped > 0 || by_name_.contains("train/dropped_tokens")) {
      add("train/dropped_tokens", dropped);
    }
  }
}

void JobHistory::CutAfter(const Mark& mark) {
  for (Named& named : series_) named.series.CutAfter(mark.clock);
  losses_.GoBack(mark.clock);
  jumps_.CutAfter(mark.clock);
  sums_ = {};
  closed_ = mark.clock;
  first_sampled_ = sampled_ = -absl::InfiniteDuration();
  marks_.push_back(mark);
  while (marks_.size() > HistoryLimits::kMostMarks) marks_.pop_front();
  changed_ = true;
}

void JobHistory::End(absl::Duration now, int64_t unix_ms) {
  AddLosses(losses_.TakeAll(), unix_ms);
  // Settle may not have run since the last reports, or ever.
  std::vector<uint32_t> reported;
  for (uint32_t slot = 0; slot < options_.slots; ++slot) {
    if (losses_.clock(slot) > 0) reported.push_back(slot);
  }
  if (!reported.empty()) closed_ = std::max(closed_, losses_.ClosedByAll(reported));
  training_slots_ = std::max(training_slots_, reported.size());
  if (now - sampled_ >= kLeastLastInterval) Sample(now, unix_ms);
  for (Named& named : series_) {
    named.series.Thin(IsOfSlot(named.name)
                          ? std::min(points_of_slots_, HistoryLimits::kPointsOfSlotAtEnd)
                          : HistoryLimits::kPointsAtEnd);
  }
  changed_ = true;
}

void JobHistory::ForgetChanges() {
  for (Named& named : series_) named.series.ForgetChanges();
  changed_ = false;
}

}  // namespace muster
