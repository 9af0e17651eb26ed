#include "common/model_files/padded_weights.h"

#include "common/base/round_up.h"
#include "common/base/status_macros.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

bool HasRowsOfVocabulary(const std::string& tensor) {
  return tensor == "embedding.weight" || tensor == "head.weight";
}

}  // namespace

PaddedWeights::PaddedWeights(const Weights& weights, uint32_t multiple)
    : weights_(weights),
      spec_(std::make_unique<v1::TransformerSpec>(weights.spec())),
      tensors_(weights.tensors()) {
  spec_->set_pad_vocabulary_to(multiple);
  for (MusterTensor& tensor : tensors_) {
    if (!HasRowsOfVocabulary(tensor.name)) continue;
    tensor.shape[0] = RoundUp(tensor.shape[0], multiple);
  }
}

PaddedWeights::~PaddedWeights() = default;

absl::Status PaddedWeights::Read(const std::string& tensor, std::vector<float>& values) const {
  MUSTER_RETURN_IF_ERROR(weights_.Read(tensor, values));
  if (!HasRowsOfVocabulary(tensor)) return absl::OkStatus();
  for (const MusterTensor& padded : tensors_) {
    if (padded.name == tensor) values.resize(padded.shape[0] * padded.shape[1]);
  }
  return absl::OkStatus();
}

}  // namespace muster
