#ifndef MUSTER_COMMON_KERNELS_TRANSFORMER_CROSS_ENTROPY_ROWS_H_
#define MUSTER_COMMON_KERNELS_TRANSFORMER_CROSS_ENTROPY_ROWS_H_

#include <cstdint>

#include "common/kernels/transformer/head_sums.h"
#include "common/kernels/transformer/loss_terms.h"
#include "common/kernels/transformer/softmax_part.h"
#include "common/tensor/bfloat16.h"

namespace muster {

// What a language model's head has between its products, logits = h · Wᵀ and those of their
// gradient: softmax cross entropy of rows of logits, with the gradient in the same sweep.
// Probabilities are not stored.
struct LogitsShape {
  int64_t rows = 0;
  // V: the tokens there are.
  int64_t vocabulary = 0;
  // Columns of the logits and their gradient, at least V; those from V on are padding: not read,
  // and their gradient is 0. 0: V.
  int64_t columns = 0;
  // The loss and its gradient have these terms besides.
  LossTerms terms;
};

// Of logits [rows, columns] the sums, and dlogits = gradient_scale · (softmax - onehot of the
// label), plus what the terms add, rounded to T (float, BFloat16 or Float16), with `dlogits_stride`
// elements from row to row. Labels are in [0, V) or -1: such a row has no loss and a gradient of
// zeros. dlogits may be null. It may be the logits' memory: with T float and dlogits_stride =
// columns, or T of 16 bits and dlogits_stride = 2 · columns (each row at the start of its logits).
//
// On ComputeThreads() threads; a row's gradient has the same bits on any number of them and
// whatever rows are beside it. Thread-safe.
template <typename T>
HeadSums SoftmaxCrossEntropyRows(const LogitsShape& shape, const float* logits,
                                 const int32_t* labels, float gradient_scale, T* dlogits,
                                 int64_t dlogits_stride);

// The same in two sweeps, for ranks that divide the columns. `shape` is of the columns that a rank
// has, of which `vocabulary`, perhaps none, are tokens: those from `first_token` on. Labels are
// tokens of all ranks, or -1.
struct VocabularyShape {
  LogitsShape columns;
  int32_t first_token = 0;
};

// parts[row], [rows], = what these columns contribute. A row without a label gets an empty part.
void SoftmaxParts(const VocabularyShape& shape, const float* logits, const int32_t* labels,
                  SoftmaxPart* parts);

// Does what SoftmaxCrossEntropyRows does, of all ranks' `parts`, [ranks, rows], in order of their
// columns. All ranks return the same sums.
template <typename T>
HeadSums CrossEntropyOfParts(const VocabularyShape& shape, int ranks, const SoftmaxPart* parts,
                             const float* logits, const int32_t* labels, float gradient_scale,
                             T* dlogits, int64_t dlogits_stride);

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_TRANSFORMER_CROSS_ENTROPY_ROWS_H_
