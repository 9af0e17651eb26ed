#include "common/job/regression.h"

#include "proto/job.pb.h"

namespace muster {

const v1::RegressionSpec* RegressionOf(const v1::ModelSpec& model) {
  if (model.has_linear_regression()) return &model.linear_regression();
  if (model.mlp().has_regression()) return &model.mlp().regression();
  if (model.deep_fm().has_regression()) return &model.deep_fm().regression();
  return nullptr;
}

}  // namespace muster
