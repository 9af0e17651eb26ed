#include "worker/models/create_model.h"

#include "absl/strings/str_cat.h"
#include "common/base/model_limits.h"
#include "common/base/status_macros.h"
#include "proto/job.pb.h"
#include "worker/models/deep_fm.h"
#include "worker/models/linear_model.h"
#include "worker/models/mlp.h"
#include "worker/models/ngram.h"
#include "worker/models/transformer.h"

namespace muster {
namespace {

// Checks that the job asks for nothing that only models made of transformer blocks can do.
absl::Status CheckPlainCompute(const v1::ComputeSpec& compute) {
  if (compute.type() > v1::ComputeSpec::F32) {
    return absl::InvalidArgumentError(absl::StrCat("compute.type is ",
                                                   v1::ComputeSpec::Type_Name(compute.type()),
                                                   "; this model computes in F32, leave it out."));
  }
  if (compute.recompute() > v1::ComputeSpec::NONE) {
    return absl::InvalidArgumentError(
        absl::StrCat("compute.recompute is ", v1::ComputeSpec::Recompute_Name(compute.recompute()),
                     "; this model keeps all its activations, leave it out."));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Model>> CreateModel(const v1::ModelSpec& spec,
                                                         const v1::ComputeSpec& compute,
                                                         const DatasetInfo& data,
                                                         const ModelOptions& options) {
  if (spec.has_transformer()) {
    return CreateTransformer(spec.transformer(), compute, data, options.mesh, options.adapter);
  }
  MUSTER_RETURN_IF_ERROR(CheckPlainCompute(compute));
  if (const int ranks = options.mesh.size(kLayerAxes); ranks > 1 && !spec.has_mlp()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "parallelism.tensor is ", ranks,
        "; only transformers and perceptrons can be divided among tensor ranks: leave it out."));
  }
  switch (spec.model_case()) {
    case v1::ModelSpec::kLogisticRegression:
      return CreateLogisticRegression(spec.logistic_regression(), data);
    case v1::ModelSpec::kMlp:
      return CreateMlp(spec.mlp(), data);
    case v1::ModelSpec::kNgram:
      return CreateNgram(spec.ngram(), data);
    case v1::ModelSpec::kDeepFm:
      return CreateDeepFm(spec.deep_fm(), data);
    case v1::ModelSpec::kLinearRegression:
      return CreateLinearRegression(spec.linear_regression(), data);
    default:
      break;
  }
  return absl::InvalidArgumentError(
      "The job's model is not set, or is one that this worker does not know; set model to one of "
      "logistic_regression, linear_regression, mlp, ngram, deep_fm and transformer.");
}

int64_t RequiredContext(const v1::ModelSpec& spec) {
  if (spec.has_transformer()) {
    return spec.transformer().context() <= kMaxContext ? spec.transformer().context() : 0;
  }
  const uint32_t orders = spec.ngram().orders();
  return orders <= kMaxOrders ? orders : 0;
}

}  // namespace muster
