#include "common/step/step_batches.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "proto/adjustment.pb.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

// Returns the examples before a clock between two positions, which are not of the same clock.
int64_t ExamplesBetween(const DataPosition& from, const DataPosition& to, int64_t clock) {
  const int64_t steps = to.clock - from.clock;
  const __int128 examples = static_cast<__int128>(to.examples - from.examples) *
                            static_cast<__int128>(clock - from.clock);
  return from.examples + static_cast<int64_t>((2 * examples + steps) / (2 * steps));
}

// Returns the examples after so many batches from a position on.
int64_t ExamplesAfter(const DataPosition& from, int64_t steps, int64_t size) {
  if (steps == 0 || size == 0) return from.examples;
  if (steps > (StepBatches::kEndless - from.examples) / size) return StepBatches::kEndless;
  return from.examples + steps * size;
}

int64_t ClockOf(uint64_t step) {
  return static_cast<int64_t>(std::min<uint64_t>(step, StepBatches::kEndless));
}

}  // namespace

StepBatches::StepBatches(int64_t size) : size_(size) {}

StepBatches::StepBatches(absl::Span<const DataPosition> positions, int64_t size) : size_(size) {
  positions_.insert(positions_.end(), positions.begin(), positions.end());
}

void StepBatches::SetSize(int64_t clock, int64_t size) {
  if (size == size_) return;
  if (clock != positions_.back().clock) positions_.push_back({clock, At(clock).begin});
  size_ = size;
}

StepBatch StepBatches::At(int64_t clock) const {
  const auto later = std::upper_bound(
      positions_.begin(), positions_.end(), clock,
      [](int64_t wanted, const DataPosition& each) { return wanted < each.clock; });
  const DataPosition& from = *std::prev(later);
  if (later == positions_.end()) {
    return {.begin = ExamplesAfter(from, clock - from.clock, size_), .size = size_};
  }
  const int64_t begin = ExamplesBetween(from, *later, clock);
  return {.begin = begin, .size = ExamplesBetween(from, *later, clock + 1) - begin};
}

int64_t StepBatches::ClockAfter(int64_t examples) const {
  for (size_t i = 0; i < positions_.size(); ++i) {
    const DataPosition& from = positions_[i];
    if (from.examples >= examples) return from.clock;
    const int64_t wanted = examples - from.examples;
    if (i + 1 == positions_.size()) return from.clock + (wanted - 1) / size_ + 1;
    const DataPosition& to = positions_[i + 1];
    if (to.examples < examples || to.clock == from.clock) continue;
    const int64_t clocks = to.clock - from.clock, all = to.examples - from.examples;
    return from.clock +
           static_cast<int64_t>((static_cast<__int128>(wanted) * clocks + all - 1) / all);
  }
  return 0;
}

StepBatches::Sizes StepBatches::SizesFrom(int64_t clock) const {
  Sizes sizes = {.smallest = size_, .largest = size_};
  for (size_t i = 0; i + 1 < positions_.size(); ++i) {
    const int64_t first = std::max(clock, positions_[i].clock);
    if (first >= positions_[i + 1].clock) continue;
    const int64_t size = At(first).size;
    sizes = {.smallest = std::min(sizes.smallest, size), .largest = std::max(sizes.largest, size)};
  }
  return sizes;
}

std::vector<DataPosition> StepBatches::PositionsUpTo(int64_t clock) const {
  std::vector<DataPosition> positions;
  for (const DataPosition& each : positions_) {
    if (each.clock <= clock && each != DataPosition()) positions.push_back(each);
  }
  const DataPosition last = {clock, At(clock).begin};
  if (last != DataPosition() && (positions.empty() || positions.back() != last)) {
    positions.push_back(last);
  }
  return positions;
}

int64_t SpecifiedBatchSize(const v1::JobSpec& spec, int64_t clock) {
  int64_t size = spec.batch_size();
  for (const v1::BatchChange& change : spec.batch_changes()) {
    if (change.step() <= static_cast<uint64_t>(clock)) size = change.batch_size();
  }
  return size;
}

StepBatches BatchesOf(const v1::JobSpec& spec, absl::Span<const DataPosition> positions,
                      absl::Span<const v1::Adjustment> adjustments) {
  const int64_t first = positions.empty() ? 0 : positions.back().clock;
  const auto size_at = [&](int64_t clock) {
    int64_t decided = 0;
    for (const v1::Adjustment& each : adjustments) {
      if (ClockOf(each.clock()) <= clock) decided = each.batch_size();
    }
    return decided > 0 ? decided : SpecifiedBatchSize(spec, clock);
  };
  std::set<int64_t> changes;
  for (const v1::BatchChange& change : spec.batch_changes()) changes.insert(ClockOf(change.step()));
  for (const v1::Adjustment& each : adjustments) changes.insert(ClockOf(each.clock()));
  StepBatches batches(positions, size_at(first));
  for (const int64_t clock : changes) {
    if (clock > first) batches.SetSize(clock, size_at(clock));
  }
  return batches;
}

}  // namespace muster
