#include "server/coordinator/history/slot_losses.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace muster {

SlotLosses::SlotLosses(uint32_t slots, size_t most_points) : slots_(slots, Slot(most_points)) {}

void SlotLosses::Reach(uint32_t slot, uint64_t clock) {
  slots_[slot].clock = std::max(slots_[slot].clock, clock);
}

void SlotLosses::Add(uint32_t slot, double weight, absl::Span<const SeriesPoint> points,
                     const Boundaries& boundaries) {
  Slot& into = slots_[slot];
  for (const SeriesPoint& point : points) {
    // `clock` is not raised before all of the report is added.
    if (point.first_step > into.clock) into.losses.Add(point, boundaries);
  }
  if (weight > 0 && std::isfinite(weight)) into.weight = weight;
}

uint64_t SlotLosses::ClosedByAll(absl::Span<const uint32_t> slots) const {
  uint64_t step = std::numeric_limits<uint64_t>::max();
  for (uint32_t slot : slots) step = std::min(step, slots_[slot].clock);
  return step;
}

std::vector<SeriesPoint> SlotLosses::Take(absl::Span<const uint32_t> slots,
                                          std::vector<LossGap>& gaps) {
  if (slots.empty()) return {};
  for (Slot& slot : slots_) slot.expected = false;
  for (uint32_t slot : slots) slots_[slot].expected = true;
  for (Slot& slot : slots_) {
    if (!slot.expected) slot.losses.Replace(0, /*level=*/0, {});
    // Those that never told a loss have none, such as those of all stages but the last.
    slot.expected &= slot.weight > 0;
  }
  return TakeUpTo(ClosedByAll(slots), gaps);
}

std::vector<SeriesPoint> SlotLosses::TakeAll() {
  std::vector<LossGap> ignored;
  return TakeUpTo(std::numeric_limits<uint64_t>::max(), ignored);
}

std::vector<SeriesPoint> SlotLosses::TakeUpTo(uint64_t step, std::vector<LossGap>& gaps) {
  std::vector<SeriesPoint> taken;
  for (Slot& slot : slots_) slot.used = 0;
  while (true) {
    // The job's next point ends where the first point of some slot does, or further on where it
    // would divide a point of another slot.
    uint64_t end = std::numeric_limits<uint64_t>::max();
    for (const Slot& slot : slots_) {
      const auto points = slot.losses.points();
      if (slot.used < points.size()) end = std::min(end, points[slot.used].last_step);
    }
    for (bool moved = true; moved;) {
      moved = false;
      for (const Slot& slot : slots_) {
        const auto points = slot.losses.points();
        for (size_t i = slot.used; i < points.size() && points[i].first_step <= end; ++i) {
          if (points[i].last_step <= end) continue;
          end = points[i].last_step;
          moved = true;
        }
      }
    }
    if (end > step || end == std::numeric_limits<uint64_t>::max()) break;

    double weights = 0;
    SeriesPoint mean;
    LossGap gap;
    for (size_t number = 0; number < slots_.size(); ++number) {
      Slot& slot = slots_[number];
      const auto points = slot.losses.points();
      if (slot.used == points.size() || points[slot.used].first_step > end) {
        if (slot.expected) gap.slots.push_back(static_cast<uint32_t>(number));
        continue;
      }
      SeriesPoint own = points[slot.used++];
      while (slot.used < points.size() && points[slot.used].last_step <= end) {
        own = Joined(own, points[slot.used++]);
      }
      // A slot that never told its weight counts as one example.
      const double weight = slot.weight > 0 ? slot.weight : 1;
      const bool first = weights == 0;
      weights += weight;
      const double share = weight / weights;
      const auto add = [share](double& sum, double value) {
        sum = sum * (1 - share) + value * share;
      };
      add(mean.min, own.min);
      add(mean.max, own.max);
      add(mean.mean, own.mean);
      add(mean.last, own.last);
      mean.first_step = first ? own.first_step : std::min(mean.first_step, own.first_step);
      mean.values = std::max(first ? 0 : mean.values, own.values);
    }
    mean.last_step = end;
    if (!gap.slots.empty()) {
      gap.first_step = mean.first_step;
      gap.last_step = end;
      if (!gaps.empty() && gaps.back().slots == gap.slots &&
          gaps.back().last_step + 1 == gap.first_step) {
        gaps.back().last_step = end;
      } else {
        gaps.push_back(std::move(gap));
      }
    }
    mean.values = std::min(mean.values, end - mean.first_step + 1);
    // Rounding may have brought the means out of order.
    mean.max = std::max(mean.max, mean.min);
    mean.mean = std::clamp(mean.mean, mean.min, mean.max);
    mean.last = std::clamp(mean.last, mean.min, mean.max);
    taken.push_back(mean);
  }
  for (Slot& slot : slots_) {
    if (slot.used == 0) continue;
    const auto points = slot.losses.points();
    const std::vector<SeriesPoint> left(points.begin() + slot.used, points.end());
    // What comes next is kept step by step again.
    slot.losses.Replace(0, /*level=*/0, left);
  }
  return taken;
}

void SlotLosses::GoBack(uint64_t clock) {
  for (Slot& slot : slots_) {
    slot.losses.CutAfter(clock);
    slot.clock = clock;
  }
}

}  // namespace muster
