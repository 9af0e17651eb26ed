#ifndef MUSTER_COMMON_PLAN_MEMORY_SCORE_MEMORY_H_
#define MUSTER_COMMON_PLAN_MEMORY_SCORE_MEMORY_H_

#include <cstdint>

#include "common/plan/size/data_size.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// Most bytes of scores and labels that the coordinator gathers of all slots for an exact AUC.
inline constexpr uint64_t kMaxScoreBytes = 64 << 20;

// Returns the bytes that a worker takes for the scores and labels from which an evaluation's AUC is
// computed (worker/runtime/training/evaluator.h): those of its examples in its report, and again on
// the wire. 0 if there is no such evaluation, or the number of examples is not known.
uint64_t PlanScores(const v1::JobSpec& spec, const DataSize& data);

}  // namespace muster

#endif  // MUSTER_COMMON_PLAN_MEMORY_SCORE_MEMORY_H_
