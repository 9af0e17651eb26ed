#ifndef MUSTER_SERVER_COORDINATOR_ADJUST_PLATEAU_H_
#define MUSTER_SERVER_COORDINATOR_ADJUST_PLATEAU_H_

#include <string>

#include "server/coordinator/adjust/decide.h"

namespace muster {

// Lowers the learning rate when evaluations stop getting better (ScheduleSpec.plateau), as
// PyTorch's ReduceLROnPlateau does with a relative threshold. With b the best evaluation so far, an
// evaluation v is better if
//
//   v > b + threshold · |b|     where a higher value is better
//   v < b - threshold · |b|     where a lower one is
//
// An evaluation that is not better is bad. More than `patience` bad ones in a row multiply the rate
// by `factor`; then `cooldown` evaluations are not counted as bad, whatever they are, and counting
// begins anew. Evaluations without a value do not count. Any other change of the rate's factor has
// cooldown and counting begin anew, too: what came before says nothing about the new rate.
//
// Changes `next`, which holds what holds up to now, and returns why; empty: nothing changes.
std::string DecidePlateau(const AdjustmentFacts& facts, v1::Adjustment& next);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_ADJUST_PLATEAU_H_
