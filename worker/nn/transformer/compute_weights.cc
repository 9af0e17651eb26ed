#include "worker/nn/transformer/compute_weights.h"

#include <algorithm>

namespace muster {
namespace {

int UnitsOf(const std::vector<TensorSpec>& tensors) {
  uint32_t units = 0;
  for (const TensorSpec& tensor : tensors) units = std::max(units, tensor.unit + 1);
  return static_cast<int>(units);
}

}  // namespace

ComputeWeights::ComputeWeights(DType type, const std::vector<TensorSpec>& tensors,
                               const std::vector<bool>& copied)
    : type_(type),
      tensors_(tensors),
      copied_(copied),
      offsets_(tensors.size()),
      versions_(UnitsOf(tensors)) {}

void ComputeWeights::Prepare(const LayerContext& context) {
  if (type_ == DType::kF32) return;
  const bool same_came = context.rounded_parameters.data() == rounded_.data();
  if (prepared_ && context.pass == pass_ && same_came) return;
  prepared_ = true;
  pass_ = context.pass;
  rounded_ = context.rounded_parameters;
  std::fill(versions_.begin(), versions_.end(), 0);
  // Elements before each tensor, and of the largest unit.
  std::vector<int64_t> first(tensors_.size());
  int64_t used = 0;
  int64_t most = 0;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const bool new_unit = i > 0 && tensors_[i].unit != tensors_[i - 1].unit;
    if (new_unit && pass_ != Pass::kTraining) used = 0;
    first[i] = used;
    const bool has_copy = copied_[i] && Came(static_cast<int>(i)) == nullptr;
    // Whole cache lines.
    if (has_copy) used += (tensors_[i].elements() + 31) / 32 * 32;
    most = std::max(most, used);
  }
  arena_.Begin();
  const size_t base = arena_.Reserve<std::byte>(most * SizeOf(type_));
  arena_.Commit();
  for (size_t i = 0; i < tensors_.size(); ++i) offsets_[i] = base + first[i] * SizeOf(type_);
}

void ComputeWeights::BeforeUnit(Ops& ops, const LayerContext& context, int unit,
                                ParameterSpans parameters) {
  if (type_ == DType::kF32) {
    masters_ = parameters;
    return;
  }
  const bool kept = pass_ == Pass::kTraining && context.parameters_version != 0;
  if (kept && versions_[unit] == context.parameters_version) return;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (static_cast<int>(tensors_[i].unit) != unit || !copied_[i]) continue;
    if (Came(static_cast<int>(i)) != nullptr) continue;
    ops.Convert(tensors_[i].elements(), DType::kF32, parameters[i].data(), type_,
                arena_.At<std::byte>(offsets_[i]));
  }
  versions_[unit] = kept ? context.parameters_version : 0;
}

}  // namespace muster
