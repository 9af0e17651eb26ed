#include "worker/nn/layers/embedding_join.h"

#include "common/kernels/elementwise.h"
#include "common/kernels/sparse_rows.h"

namespace muster {
namespace {

// Whether the joined array is no more than the looked-up rows one after another.
bool IsPlain(const EmbeddingJoin::Shape& shape) {
  return shape.width == shape.row_dim && shape.out_features == shape.lookups * shape.width;
}

JoinShape KernelShape(const EmbeddingJoin::Shape& shape, const SparseRows& rows) {
  return {.examples = static_cast<int64_t>(rows.inverse.size()) / shape.lookups,
          .lookups = shape.lookups,
          .row_dim = shape.row_dim,
          .column = shape.column,
          .width = shape.width,
          .stride = shape.out_features};
}

}  // namespace

void EmbeddingJoin::Forward(const LayerContext& context, const SparseRows& rows,
                            absl::Span<float> out) const {
  if (IsPlain(shape_)) {
    GatherRows(rows.inverse.size(), shape_.width, rows.inverse.data(), rows.rows.data(),
               out.data());
  } else {
    JoinRows(KernelShape(shape_, rows), rows.inverse.data(), rows.rows.data(), out.data());
  }
}

void EmbeddingJoin::BackwardRows(const LayerContext& context, absl::Span<const float> out_gradient,
                                 SparseRows& rows) const {
  if (IsPlain(shape_)) {
    ScatterAddRows(rows.inverse.size(), shape_.width, rows.inverse.data(), out_gradient.data(),
                   rows.gradients.data());
  } else {
    JoinRowsBackward(KernelShape(shape_, rows), rows.inverse.data(), out_gradient.data(),
                     rows.gradients.data());
  }
}

}  // namespace muster
