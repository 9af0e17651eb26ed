#ifndef MUSTER_COMMON_PLAN_RANKS_PLANNED_STAGES_H_
#define MUSTER_COMMON_PLAN_RANKS_PLANNED_STAGES_H_

#include <cstdint>

#include "absl/types/optional.h"
#include "common/partition/local_tensors.h"
#include "common/plan/size/data_size.h"
#include "common/plan/size/model_size.h"
#include "common/step/stage_shape.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// The plan of what stages send one another. Stages make their links with these numbers of messages
// and examples, too (worker/runtime/training/rank_engine.h), so that what is planned is what there
// is.

// Messages that a stage sends at a time (worker/runtime/training/stage_links.h).
inline constexpr int kStageMessagesSent = 2;
// Every message begins on a cache line of memory.
inline constexpr uint64_t kStageMessageAlignment = 64;

// The stages of a job, at least one, and what they send one another.
struct PlannedStages {
  StageShape shape;
  ModelDivision division;
  // The most bytes of a message, and the number of messages that a stage has memory for.
  uint64_t message_bytes = 0;
  uint64_t messages = 0;
};

// Returns the stages of a valid job.
PlannedStages PlanStages(const v1::JobSpec& spec, const DataSize& data, const ModelSize& model);

// Returns the most inputs and gradients that a stage receives before it has read them.
int ReceivedMessages(StageShape shape);
// Returns the messages that a stage has memory for, received and sent: none if there is one stage.
int StageMessages(const StageShape& shape);

// Returns the most examples of one forward pass of an evaluation, each of so many labels.
uint64_t ExamplesOfPass(uint64_t labels_per_example);

// Returns the most examples that a data rank evaluates in one forward pass: those of a pass, or all
// that it has of `held_out` examples, if their number is known. 0: nothing is evaluated.
uint64_t EvaluatedExamples(const v1::JobSpec& spec, uint64_t labels_per_example,
                           absl::optional<uint64_t> held_out);
// Returns the same as planned.
uint64_t EvaluatedExamples(const v1::JobSpec& spec, const DataSize& data, const ModelSize& model);

// Returns the number of examples to evaluate, of all data ranks together, if it is known.
absl::optional<uint64_t> HeldOutExamples(const v1::JobSpec& spec, const DataSize& data);

}  // namespace muster

#endif  // MUSTER_COMMON_PLAN_RANKS_PLANNED_STAGES_H_
