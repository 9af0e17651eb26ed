#ifndef MUSTER_COMMON_PLAN_CALLS_STEP_CALLS_H_
#define MUSTER_COMMON_PLAN_CALLS_STEP_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/collectives/collective.h"
#include "common/mesh/mesh.h"
#include "common/step/action.h"
#include "common/tensor/dtype.h"

namespace muster {

// A call that a rank starts in a training step: a collective call or a message among ranks that
// differ on some axes of the mesh, or a request to servers, which is a message here.
struct StepCall {
  // The call's name for people, such as "gather", and the unit or bucket that it is about; -1:
  // none.
  absl::string_view name;
  int index = -1;
  // True if the call is a further part of what the call before it does: parts of one unit.
  bool continues = false;
  // The ranks that take part differ on these axes; none: servers.
  Axes among;
  // The number of ranks that take part, neighbours where they are fewer than the axes have.
  int ranks = 1;
  // Fields of CollectiveCall (worker/collectives/collective_call.h). The count is 0 if it depends
  // on the data.
  Collective kind = Collective::kAllGather;
  DType dtype = DType::kF32;
  uint64_t count = 0;
  bool deterministic = false;
  // In a step of the mean rank: the number of ranks that share these elements.
  int divided = 1;
};

// Returns the name with its number, such as "gather 1".
std::string TextOf(const StepCall& call);

// An action of a step with the calls that it starts, in order.
struct RecordedAction {
  StepAction action;
  // The part of the step's end, such as "wait for the sums"; empty: the action itself.
  absl::string_view part;
  // Calls [begin, end) of RecordedStep::calls.
  size_t begin = 0;
  size_t end = 0;
};

// A rank does this in a training step (common/step/step_plan.h), and makes these calls.
struct RecordedStep {
  std::vector<RecordedAction> actions;
  std::vector<StepCall> calls;

  absl::Span<const StepCall> CallsOf(const RecordedAction& action) const {
    return absl::MakeConstSpan(calls).subspan(action.begin, action.end - action.begin);
  }
};

}  // namespace muster

#endif  // MUSTER_COMMON_PLAN_CALLS_STEP_CALLS_H_
