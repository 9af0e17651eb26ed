#include "common/step/divide_units.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/step/compute_order.h"

namespace muster {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// Sums of the same numbers in another order may differ so much.
constexpr double kRounding = 1 + 1e-9;

// The cost of virtual stage `virtual_stage` if it has the units from `first` to before `end`;
// kNever if it may not.
using VirtualStageCost = std::function<double(int virtual_stage, int first, int end)>;

struct Division {
  double largest = kNever;
  std::vector<int> sizes;
};

// Returns the division of `units` units into `virtual_stages` virtual stages whose largest cost is
// smallest. Takes virtual stages * units² / 2 costs: the best of the first virtual stages is found
// for every end of theirs.
Division MinimiseLargest(int units, int virtual_stages, const VirtualStageCost& cost) {
  // The largest cost by number of units that are divided so far, and by virtual stage where the
  // last one begins.
  std::vector<double> largest(units + 1, kNever);
  largest[0] = 0;
  std::vector<std::vector<int>> begins(virtual_stages, std::vector<int>(units + 1));
  for (int virtual_stage = 0; virtual_stage < virtual_stages; ++virtual_stage) {
    std::vector<double> next(units + 1, kNever);
    for (int end = virtual_stage + 1; end <= units; ++end) {
      for (int first = virtual_stage; first < end; ++first) {
        if (largest[first] >= next[end]) continue;
        const double with = std::max(largest[first], cost(virtual_stage, first, end));
        if (with >= next[end]) continue;
        next[end] = with;
        begins[virtual_stage][end] = first;
      }
    }
    largest = std::move(next);
  }
  Division division = {largest[units], std::vector<int>(virtual_stages)};
  int end = units;
  for (int virtual_stage = virtual_stages - 1; virtual_stage >= 0; --virtual_stage) {
    division.sizes[virtual_stage] = end - begins[virtual_stage][end];
    end = begins[virtual_stage][end];
  }
  return division;
}

// The numbers that are to be small, the first ones first.
using Objective = std::tuple<double, double, double>;

Objective ObjectiveOf(const StageShape& shape, absl::Span<const UnitCost> units,
                      absl::Span<const int> sizes) {
  double slowest = 0, largest = 0, slowest_virtual_stage = 0;
  for (const StageCost& stage : CostsOfStages(shape, units, sizes)) {
    slowest = std::max(slowest, stage.operations);
    largest = std::max(largest, stage.bytes);
  }
  for (const VirtualStageTimes& virtual_stage : OperationsOfVirtualStages(units, sizes)) {
    slowest_virtual_stage = std::max(slowest_virtual_stage, virtual_stage.total());
  }
  return {slowest, slowest_virtual_stage, largest};
}

bool IsBetter(const Objective& a, const Objective& b) {
  const auto less = [](double x, double y) { return x * kRounding < y; };
  if (less(std::get<0>(a), std::get<0>(b))) return true;
  if (less(std::get<0>(b), std::get<0>(a))) return false;
  if (less(std::get<1>(a), std::get<1>(b))) return true;
  if (less(std::get<1>(b), std::get<1>(a))) return false;
  return less(std::get<2>(a), std::get<2>(b));
}

// Moves a unit from one virtual stage to another near it, and so the units of the virtual stages
// between them, as long as that helps.
void Improve(const StageShape& shape, absl::Span<const UnitCost> units, std::vector<int>& sizes) {
  const int virtual_stages = shape.virtual_stages();
  Objective best = ObjectiveOf(shape, units, sizes);
  for (bool improved = true; improved;) {
    improved = false;
    for (int from = 0; from < virtual_stages; ++from) {
      for (int to = std::max(0, from - 2); to <= std::min(virtual_stages - 1, from + 2); ++to) {
        if (to == from || sizes[from] == 1) continue;
        --sizes[from];
        ++sizes[to];
        const Objective objective = ObjectiveOf(shape, units, sizes);
        if (IsBetter(objective, best)) {
          best = objective;
          improved = true;
        } else {
          ++sizes[from];
          --sizes[to];
        }
      }
    }
  }
}

}  // namespace

absl::StatusOr<std::vector<int>> DivideUnits(const StageShape& shape,
                                             absl::Span<const UnitCost> units) {
  const int count = static_cast<int>(units.size());
  const int virtual_stages = shape.virtual_stages();
  if (count < virtual_stages) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a model of ", count, " units has too few for ", virtual_stages,
        " virtual stages, which are ", shape.stages, " stages with ", shape.chunks, " each"));
  }
  // Sums over the units before each.
  std::vector<double> operations(count + 1), state(count + 1), activations(count + 1);
  for (int unit = 0; unit < count; ++unit) {
    operations[unit + 1] = operations[unit] + units[unit].operations.total();
    state[unit + 1] = state[unit] + units[unit].state_bytes;
    activations[unit + 1] = activations[unit] + units[unit].activation_bytes;
  }
  const auto operations_of = [&](int virtual_stage, int first, int end) {
    return operations[end] - operations[first];
  };
  const double slowest = MinimiseLargest(count, virtual_stages, operations_of).largest;
  std::vector<double> sets(shape.stages);
  for (int stage = 0; stage < shape.stages; ++stage) {
    sets[stage] = static_cast<double>(MostActivationStashes(shape, stage)) / shape.chunks;
  }
  Division division =
      MinimiseLargest(count, virtual_stages, [&](int virtual_stage, int first, int end) {
        if (operations_of(virtual_stage, first, end) > slowest * kRounding) return kNever;
        return state[end] - state[first] +
               sets[virtual_stage % shape.stages] * (activations[end] - activations[first]);
      });
  if (shape.chunks > 1) Improve(shape, units, division.sizes);
  return division.sizes;
}

std::vector<VirtualStageTimes> OperationsOfVirtualStages(absl::Span<const UnitCost> units,
                                                         absl::Span<const int> sizes) {
  std::vector<VirtualStageTimes> virtual_stages;
  int unit = 0;
  for (const int size : sizes) {
    VirtualStageTimes sum = {0, 0, 0};
    for (const int end = unit + size; unit < end; ++unit) {
      sum.forward += units[unit].operations.forward;
      sum.backward_input += units[unit].operations.backward_input;
      sum.backward_weights += units[unit].operations.backward_weights;
    }
    virtual_stages.push_back(sum);
  }
  return virtual_stages;
}

std::vector<StageCost> CostsOfStages(const StageShape& shape, absl::Span<const UnitCost> units,
                                     absl::Span<const int> sizes) {
  std::vector<StageCost> stages(shape.stages);
  int unit = 0;
  for (int virtual_stage = 0; virtual_stage < shape.virtual_stages(); ++virtual_stage) {
    StageCost& stage = stages[virtual_stage % shape.stages];
    // Sets of all chunks together are as many of each, in the mean.
    const double sets =
        static_cast<double>(MostActivationStashes(shape, virtual_stage % shape.stages)) /
        shape.chunks;
    for (const int end = unit + sizes[virtual_stage]; unit < end; ++unit) {
      stage.operations += units[unit].operations.total();
      stage.bytes += units[unit].state_bytes + sets * units[unit].activation_bytes;
    }
  }
  return stages;
}

}  // namespace muster
