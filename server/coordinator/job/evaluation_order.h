#ifndef MUSTER_SERVER_COORDINATOR_JOB_EVALUATION_ORDER_H_
#define MUSTER_SERVER_COORDINATOR_JOB_EVALUATION_ORDER_H_

namespace muster {

namespace v1 {
class EvaluationResult;
}  // namespace v1

// Returns whether an evaluation is better than `best`, the best one before it; null: there is none.
// An equal one is not better, and one without a value, or whose value is NaN, never is. REQUIRES:
// both have one metric.
bool IsBetter(const v1::EvaluationResult& result, const v1::EvaluationResult* best);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_JOB_EVALUATION_ORDER_H_
