#include "common/job/predicts_examples.h"

#include "absl/strings/str_cat.h"
#include "proto/job.pb.h"

namespace muster {

absl::Status CheckPredictsExamples(const v1::JobSpec& spec, absl::string_view job) {
  const auto refuse = [job](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(job, why));
  };
  const v1::ModelSpec& model = spec.model();
  if (model.has_program()) {
    return refuse(
        " runs a program, and only that knows what its checkpoints predict; `muster checkpoint "
        "list` says where they are");
  }
  if (model.has_transformer()) {
    return refuse(" trains a transformer, whose predictions are text: `muster generate` writes it");
  }
  if (model.has_ngram()) {
    return refuse(
        " trains an n-gram model, which predicts bytes of text: `muster evaluate` measures it, and "
        "`muster generate` writes text with a transformer");
  }
  if (spec.data().has_synthetic_clicks() || spec.data().has_synthetic_classification()) {
    return refuse(
        " learns from synthetic data, of which there are no files to predict; `muster evaluate` "
        "measures it");
  }
  return absl::OkStatus();
}

}  // namespace muster
