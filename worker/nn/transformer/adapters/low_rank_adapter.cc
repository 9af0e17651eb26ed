#include "worker/nn/transformer/adapters/low_rank_adapter.h"

#include <algorithm>
#include <utility>

#include "common/compute/ops.h"
#include "worker/nn/transformer/arrays/typed_array.h"

namespace muster {

LowRankAdapter::LowRankAdapter(const AdapterShape& shape, std::string name, const Place& place)
    : shape_(shape), name_(std::move(name)), place_(place) {}

template <typename Work>
void LowRankAdapter::ForEachRows(const ComputeContext& context, const AdapterScratch& scratch,
                                 Work work) const {
  const int64_t all = context.rows.count();
  for (int64_t first = 0; first < all; first += scratch.rows) {
    work(Rows{first, std::min(scratch.rows, all - first)});
  }
}

Linear LowRankAdapter::Down(const ComputeContext& context, const Rows& rows) const {
  return {.type = context.type, .rows = rows.count, .in = place_.in, .out = shape_.rank};
}

Linear LowRankAdapter::Up(const ComputeContext& context, const Rows& rows) const {
  return {.type = context.type,
          .rows = rows.count,
          .in = shape_.rank,
          .out = place_.out,
          .out_stride = place_.stride};
}

const void* LowRankAdapter::ColumnsOf(const ComputeContext& context, const Rows& rows,
                                      const void* y) const {
  return At(context.type, y, rows.first * place_.stride + place_.column);
}

void LowRankAdapter::Drop(const ComputeContext& context, const Rows& rows, float* x) const {
  OpDropout dropout = DropoutOf(context, name_, shape_.dropout);
  if (dropout.clock == nullptr) return;
  dropout.first_element = rows.first * place_.in;
  dropout.share = context.rows.share;
  context.ops.Dropout(dropout, rows.count * place_.in, context.rows.whole_length() * place_.in, x);
}

const void* LowRankAdapter::Dropped(const ComputeContext& context, const Rows& rows, const void* x,
                                    const AdapterScratch& scratch) const {
  const void* const own = At(context.type, x, rows.first * place_.in);
  if (shape_.dropout == 0 || context.pass != Pass::kTraining) return own;
  const int64_t elements = rows.count * place_.in;
  context.ops.Convert(elements, context.type, own, DType::kF32, scratch.wide);
  Drop(context, rows, scratch.wide);
  context.ops.Convert(elements, DType::kF32, scratch.wide, context.type, scratch.input);
  return scratch.input;
}

void LowRankAdapter::MakeLow(const ComputeContext& context, const Rows& rows,
                             const AdapterWeights& weights, const void* dropped,
                             const AdapterScratch& scratch) const {
  const int64_t elements = rows.count * shape_.rank;
  const bool exact = context.type == DType::kF32;
  float* const low = exact ? static_cast<float*>(scratch.narrow) : scratch.low;
  context.ops.LinearForward(Down(context, rows), {.x = dropped,
                                                  .weight = weights.down,
                                                  .result = LinearForwardArrays::Result::kF32,
                                                  .y = low});
  if (shape_.scale != 1) context.ops.Scale(elements, shape_.scale, low);
  if (!exact) context.ops.Convert(elements, DType::kF32, low, context.type, scratch.narrow);
}

void LowRankAdapter::MakeLowGradient(const ComputeContext& context, const Rows& rows,
                                     const AdapterWeights& weights, const void* dy,
                                     const AdapterScratch& scratch) const {
  const int64_t elements = rows.count * shape_.rank;
  const bool exact = context.type == DType::kF32;
  void* const gradient = scratch.narrow_gradient;
  context.ops.LinearBackwardInput(Up(context, rows), ColumnsOf(context, rows, dy), weights.up,
                                  gradient);
  if (shape_.scale == 1) return;
  float* const low = exact ? static_cast<float*>(gradient) : scratch.low;
  if (!exact) context.ops.Convert(elements, context.type, gradient, DType::kF32, low);
  context.ops.Scale(elements, shape_.scale, low);
  if (!exact) context.ops.Convert(elements, DType::kF32, low, context.type, gradient);
}

void LowRankAdapter::AddForward(const ComputeContext& context, const AdapterWeights& weights,
                                const void* x, void* y, const AdapterScratch& scratch) const {
  ForEachRows(context, scratch, [&](const Rows& rows) {
    MakeLow(context, rows, weights, Dropped(context, rows, x, scratch), scratch);
    Linear up = Up(context, rows);
    up.out_stride = 0;
    context.ops.LinearForward(up, {.x = scratch.narrow,
                                   .weight = weights.up,
                                   .result = LinearForwardArrays::Result::kF32,
                                   .y = scratch.product});
    void* const columns = At(context.type, y, rows.first * place_.stride + place_.column);
    if (context.type == DType::kF32 && place_.stride == place_.out) {
      context.ops.Add(rows.count * place_.out, scratch.product, static_cast<float*>(columns));
      return;
    }
    context.ops.ConvertRows({.rows = rows.count,
                             .columns = place_.out,
                             .from_stride = place_.stride,
                             .to_stride = place_.out},
                            context.type, columns, DType::kF32, scratch.wide);
    context.ops.Add(rows.count * place_.out, scratch.product, scratch.wide);
    context.ops.ConvertRows({.rows = rows.count,
                             .columns = place_.out,
                             .from_stride = place_.out,
                             .to_stride = place_.stride},
                            DType::kF32, scratch.wide, context.type, columns);
  });
}

void LowRankAdapter::BackwardWeights(const ComputeContext& context, const AdapterWeights& weights,
                                     const void* x, const void* dy,
                                     const AdapterGradients& gradients,
                                     const AdapterScratch& scratch) const {
  Accumulation accumulation = context.gradients;
  ForEachRows(context, scratch, [&](const Rows& rows) {
    const void* const dropped = Dropped(context, rows, x, scratch);
    if (gradients.up != nullptr) {
      MakeLow(context, rows, weights, dropped, scratch);
      context.ops.LinearBackwardWeights(Up(context, rows), {.dy = ColumnsOf(context, rows, dy),
                                                            .x = scratch.narrow,
                                                            .accumulation = accumulation,
                                                            .weight = gradients.up});
    }
    if (gradients.down != nullptr) {
      MakeLowGradient(context, rows, weights, dy, scratch);
      context.ops.LinearBackwardWeights(Down(context, rows), {.dy = scratch.narrow_gradient,
                                                              .x = dropped,
                                                              .accumulation = accumulation,
                                                              .weight = gradients.down});
    }
    accumulation = Accumulation::kAdd;
  });
}

void LowRankAdapter::AddInputGradient(const ComputeContext& context, const AdapterWeights& weights,
                                      const void* dy, const void* before, void* dx,
                                      const AdapterScratch& scratch) const {
  ForEachRows(context, scratch, [&](const Rows& rows) {
    MakeLowGradient(context, rows, weights, dy, scratch);
    const int64_t first = rows.first * place_.in;
    const int64_t elements = rows.count * place_.in;
    if (before == nullptr) {
      context.ops.LinearBackwardInput(Down(context, rows), scratch.narrow_gradient, weights.down,
                                      scratch.input);
    } else {
      context.ops.LinearGeluBackwardInput(Down(context, rows),
                                          {.dy = scratch.narrow_gradient,
                                           .weight = weights.down,
                                           .before = At(context.type, before, first),
                                           .dbefore = scratch.input});
    }
    void* const own = At(context.type, dx, first);
    if (context.type == DType::kF32) {
      auto* const added = static_cast<float*>(scratch.input);
      Drop(context, rows, added);
      context.ops.Add(elements, added, static_cast<float*>(own));
      return;
    }
    context.ops.Convert(elements, context.type, scratch.input, DType::kF32, scratch.wide);
    Drop(context, rows, scratch.wide);
    context.ops.Convert(elements, context.type, own, DType::kF32, scratch.product);
    context.ops.Add(elements, scratch.wide, scratch.product);
    context.ops.Convert(elements, DType::kF32, scratch.product, context.type, own);
  });
}

}  // namespace muster
