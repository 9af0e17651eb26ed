#ifndef MUSTER_COMMON_JOB_REGRESSION_H_
#define MUSTER_COMMON_JOB_REGRESSION_H_

namespace muster {

namespace v1 {
class ModelSpec;
class RegressionSpec;
}  // namespace v1

// Returns how a model predicts a number: its part of `model`, which must outlive it. Null: the
// model predicts classes or tokens.
const v1::RegressionSpec* RegressionOf(const v1::ModelSpec& model);

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_REGRESSION_H_
