#include "worker/nn/compute_weights.h"

#include <algorithm>

#include "common/kernels/row_sums.h"

namespace muster {
namespace {

int UnitsOf(const std::vector<TensorSpec>& tensors) {
  uint32_t units = 0;
  for (const TensorSpec& tensor : tensors) units = std::max(units, tensor.unit + 1);
  return static_cast<int>(units);
}

}  // namespace

template <typename T>
ComputeWeights<T>::ComputeWeights(const std::vector<TensorSpec>& tensors,
                                  const std::vector<bool>& copied)
    : tensors_(tensors), copied_(copied), offsets_(tensors.size()), versions_(UnitsOf(tensors)) {}

template <typename T>
void ComputeWeights<T>::Prepare(const LayerContext& context) {
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
  const size_t base = arena_.Reserve<T>(most);
  arena_.Commit();
  for (size_t i = 0; i < tensors_.size(); ++i) offsets_[i] = base + first[i] * sizeof(T);
}

template <typename T>
void ComputeWeights<T>::BeforeUnit(const LayerContext& context, int unit,
                                   ParameterSpans parameters) {
  const bool kept = pass_ == Pass::kTraining && context.parameters_version != 0;
  if (kept && versions_[unit] == context.parameters_version) return;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (static_cast<int>(tensors_[i].unit) != unit || !copied_[i]) continue;
    if (Came(static_cast<int>(i)) != nullptr) continue;
    Convert(tensors_[i].elements(), parameters[i].data(), arena_.At<T>(offsets_[i]));
  }
  versions_[unit] = kept ? context.parameters_version : 0;
}

template class ComputeWeights<BFloat16>;
template class ComputeWeights<Float16>;

}  // namespace muster
