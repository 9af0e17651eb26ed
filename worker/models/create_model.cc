#include "worker/models/create_model.h"

#include "proto/job.pb.h"
#include "worker/models/deep_fm.h"
#include "worker/models/logistic_regression.h"
#include "worker/models/mlp.h"
#include "worker/models/ngram.h"

namespace muster {

absl::StatusOr<std::unique_ptr<const Model>> CreateModel(const v1::ModelSpec& spec,
                                                         const DatasetInfo& data) {
  switch (spec.model_case()) {
    case v1::ModelSpec::kLogisticRegression:
      return CreateLogisticRegression(spec.logistic_regression(), data);
    case v1::ModelSpec::kMlp:
      return CreateMlp(spec.mlp(), data);
    case v1::ModelSpec::kNgram:
      return CreateNgram(spec.ngram(), data);
    case v1::ModelSpec::kDeepFm:
      return CreateDeepFm(spec.deep_fm(), data);
    case v1::ModelSpec::MODEL_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "The job's model is not set, or is one that this worker does not know; set model to one of "
      "logistic_regression, mlp, ngram and deep_fm.");
}

int64_t RequiredContext(const v1::ModelSpec& spec) {
  const uint32_t orders = spec.ngram().orders();
  return orders <= kMaxOrders ? orders : 0;
}

}  // namespace muster
