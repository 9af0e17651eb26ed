#include "worker/nn/layers/sparse_linear.h"

#include "common/kernels/sparse_rows.h"

namespace muster {
namespace {

WeightedRows KernelFeatures(const SparseLinear::Shape& shape, const SparseFeatures& features,
                            const SparseRows& rows) {
  return {.examples = static_cast<int64_t>(features.offsets.size()) - 1,
          .offsets = features.offsets.data(),
          .values = features.values.data(),
          .index = rows.inverse.data(),
          .row_dim = shape.row_dim,
          .width = shape.width};
}

}  // namespace

void SparseLinear::Forward(const LayerContext& context, const SparseFeatures& features,
                           const SparseRows& rows, absl::Span<float> out) const {
  AddWeightedRows(KernelFeatures(shape_, features, rows), rows.rows.data(), out.data());
}

void SparseLinear::BackwardRows(const LayerContext& context, const SparseFeatures& features,
                                absl::Span<const float> out_gradient, SparseRows& rows) const {
  AddWeightedRowsBackward(KernelFeatures(shape_, features, rows), out_gradient.data(),
                          rows.gradients.data());
}

}  // namespace muster
