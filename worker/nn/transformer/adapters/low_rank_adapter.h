#ifndef MUSTER_WORKER_NN_TRANSFORMER_ADAPTERS_LOW_RANK_ADAPTER_H_
#define MUSTER_WORKER_NN_TRANSFORMER_ADAPTERS_LOW_RANK_ADAPTER_H_

#include <cstdint>
#include <string>

#include "worker/nn/transformer/arrays/adapter_shape.h"
#include "worker/nn/transformer/arrays/compute_context.h"
#include "worker/nn/transformer/arrays/transformer_arrays.h"

namespace muster {

// A low-rank adapter (Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021, §4.1)
// beside a product y = x · weightᵀ, whose columns it adds to:
//
//   y += scale · up · down · dropout(x),  down [r, in], up [out, r]
//
// Its gradients, with h = scale · down · dropout(x) and g = scale · upᵀ · dy:
//
//   up += dy · hᵀ;  down += g · dropout(x)ᵀ;  dx += dropout(downᵀ · g)
//
// h and g are made where they are needed, and not kept: they cost 2 N r (in + out) multiplications,
// and the product 2 N in out. All is computed for some rows at a time, in memory of its own
// (AdapterScratch), rounded to T where it enters a product, and added up in f32.
//
// Ranks of a tensor group: if they divide the layer's outputs, each has `down`, and its rows of
// `up`; if they divide the inputs, its columns of `down`, and `up`. What each adds is then its
// summand of what the layer sums over ranks in any case, and the gradient that it leaves of what
// all have is a part of the whole.
//
// Holds shapes only. Thread-safe.
class LowRankAdapter {
 public:
  // The layer's own extents on this rank, and where the columns lie.
  struct Place {
    int64_t in = 0;
    int64_t out = 0;
    // The first of the columns in rows of y, and the elements of such a row.
    int64_t column = 0;
    int64_t stride = 0;
  };

  // `name` keys the dropout.
  LowRankAdapter(const AdapterShape& shape, std::string name, const Place& place);

  // Adds to y, T [N, stride]. x is T [N, in], all rows.
  void AddForward(const ComputeContext& context, const AdapterWeights& weights, const void* x,
                  void* y, const AdapterScratch& scratch) const;

  // Leaves the gradients of the weights, as the context says; none where they are null. dy is
  // T [N, stride].
  void BackwardWeights(const ComputeContext& context, const AdapterWeights& weights, const void* x,
                       const void* dy, const AdapterGradients& gradients,
                       const AdapterScratch& scratch) const;

  // Adds to dx, T [N, in]. If `before` is not null, the layer's input is gelu(before), and dx is
  // the gradient at `before` instead.
  void AddInputGradient(const ComputeContext& context, const AdapterWeights& weights,
                        const void* dy, const void* before, void* dx,
                        const AdapterScratch& scratch) const;

 private:
  // Some consecutive rows.
  struct Rows {
    int64_t first = 0;
    int64_t count = 0;
  };
  template <typename Work>
  void ForEachRows(const ComputeContext& context, const AdapterScratch& scratch, Work work) const;

  // Returns dropout(x) of the rows: x itself, or made in scratch.input.
  const void* Dropped(const ComputeContext& context, const Rows& rows, const void* x,
                      const AdapterScratch& scratch) const;
  // Drops elements of f32 rows, [count, in], in place.
  void Drop(const ComputeContext& context, const Rows& rows, float* x) const;
  // Makes h of the rows in scratch.narrow, of their `dropped` input.
  void MakeLow(const ComputeContext& context, const Rows& rows, const AdapterWeights& weights,
               const void* dropped, const AdapterScratch& scratch) const;
  // Makes g of the rows in scratch.narrow_gradient.
  void MakeLowGradient(const ComputeContext& context, const Rows& rows,
                       const AdapterWeights& weights, const void* dy,
                       const AdapterScratch& scratch) const;
  // The two products, for the rows. Those of Up have y's stride.
  Linear Down(const ComputeContext& context, const Rows& rows) const;
  Linear Up(const ComputeContext& context, const Rows& rows) const;
  const void* ColumnsOf(const ComputeContext& context, const Rows& rows, const void* y) const;

  const AdapterShape shape_;
  const std::string name_;
  const Place place_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_TRANSFORMER_ADAPTERS_LOW_RANK_ADAPTER_H_
