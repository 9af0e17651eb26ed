#include "worker/generate/loaded_transformer.h"

#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "proto/job.pb.h"
#include "worker/models/resolve_transformer.h"
#include "worker/nn/transformer/arrays/transformer_tensors.h"

namespace muster {
namespace {

// The shape of Muster's tensor of this name in the weights; none if it is not there.
const std::vector<int64_t>* ShapeOf(const Weights& weights, const std::string& name) {
  for (const MusterTensor& tensor : weights.tensors()) {
    if (tensor.name == name) return &tensor.shape;
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LoadedTransformer>> LoadedTransformer::Create(
    const Weights& weights, const AdapterShape& adapter) {
  MUSTER_ASSIGN_OR_RETURN(TransformerShape shape,
                          ResolveTransformer(weights.spec(), weights.spec().vocabulary()));
  shape.adapter = adapter;
  const TransformerTensors tensors = MakeTransformerTensors(shape);
  auto loaded = absl::WrapUnique(new LoadedTransformer());
  std::vector<absl::Span<const float>> parameters;
  for (const TensorSpec& tensor : tensors.specs) {
    std::vector<float>& values = loaded->parameters_.emplace_back();
    if (tensor.tied_to.empty()) {
      const std::vector<int64_t>* found = ShapeOf(weights, tensor.name);
      if (found == nullptr || *found != tensor.shape) {
        return absl::InvalidArgumentError(absl::StrCat(
            "the weights' tensor ", tensor.name,
            found == nullptr ? std::string(" is missing")
                             : absl::StrCat(" has shape [", absl::StrJoin(*found, ", "), "]"),
            ", expected shape [", absl::StrJoin(tensor.shape, ", "), "] for this transformer"));
      }
      MUSTER_RETURN_IF_ERROR(weights.Read(tensor.name, values));
    }
    parameters.push_back(values);
  }
  MUSTER_ASSIGN_OR_RETURN(loaded->decoder_, TransformerDecoder::Create(shape, parameters));
  return loaded;
}

}  // namespace muster
