// A block takes a row and reads it twice: once for the largest logit and the sum of e^(x - largest)
// together, each thread keeping its own pair (an online softmax), once, then from the second-level
// cache, for the gradient.
#include "common/kernels/device/device_cross_entropy.h"

#include "common/kernels/device/simt/simt.h"

namespace muster {
namespace {

// The largest logit seen, the first column that has it, and the sum of e^(x - largest).
struct Softmax {
  float largest;
  int column;
  float sum;
};

MUSTER_DEVICE void Include(Softmax& s, float x, int column) {
  if (x > s.largest) {
    s.sum = s.sum * Exp(s.largest - x) + 1;
    s.largest = x;
    s.column = column;
  } else if (x != -Infinity()) {
    // A NaN comes here, and stays in the sum.
    s.sum += Exp(x - s.largest);
  }
}

// Of N neighbours, which rescale the sum at most once: their exponentials wait for nothing but the
// largest of them.
template <int N>
MUSTER_DEVICE void IncludeAll(Softmax& s, const float (&x)[N], int column) {
  float largest = s.largest;
  int at = 0;
#pragma unroll
  for (int j = 0; j < N; ++j) {
    if (x[j] > largest) {
      largest = x[j];
      at = j;
    }
  }
  if (largest > s.largest) {
    s.sum *= Exp(s.largest - largest);
    s.largest = largest;
    s.column = column + at;
  }
  // While none is above -∞, -∞ - largest would be a NaN.
  const float shift = largest == -Infinity() ? 0 : largest;
  float sum = 0;
#pragma unroll
  for (int j = 0; j < N; ++j) sum += Exp(x[j] - shift);
  s.sum += sum;
}

// Columns beyond those left are not read; their values do not count.
template <int N>
MUSTER_DEVICE void LoadSome(const float* from, int64_t left, float (&values)[N]) {
  if (left >= N) {
    LoadFloats<N>(from, values);
  } else {
#pragma unroll
    for (int j = 0; j < N; ++j) values[j] = j < left ? from[j] : 0.0f;
  }
}

// What a block does with a row of logits, kThreads threads together, N columns each at a time.
template <int N>
struct RowSweeps {
  static constexpr int kThreads = 512;
  static constexpr int kWarps = kThreads / 32;
  static constexpr size_t kShared = kWarps * (sizeof(float) + sizeof(int) + sizeof(double));

  int64_t tokens;
  int64_t vocabulary;
  int64_t logits_stride;

  // Returns the softmax of the row's tokens on every thread. `sum` is its sum in f64.
  MUSTER_DEVICE Softmax Sum(const float* x, double& sum) const {
    Softmax mine = {-Infinity(), 0, 0};
    for (int64_t c = ThreadIndex() * N; c < tokens; c += kThreads * N) {
      float values[N];
      LoadSome(x + c, tokens - c, values);
      if (N > 1 && c + N <= tokens) {
        IncludeAll(mine, values, static_cast<int>(c));
        continue;
      }
#pragma unroll
      for (int j = 0; j < N; ++j) {
        if (c + j < tokens) Include(mine, values[j], static_cast<int>(c) + j);
      }
    }
    return Joined(mine, sum);
  }

  // All threads' pairs, in one order, on every thread. `sum` is all.sum in f64.
  static MUSTER_DEVICE Softmax Joined(Softmax mine, double& sum) {
    double* const sums = reinterpret_cast<double*>(SharedMemory());
    float* const largests = reinterpret_cast<float*>(sums + kWarps);
    int* const columns = reinterpret_cast<int*>(largests + kWarps);
    Softmax all = mine;
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) {
      const float largest = ShuffleXor(all.largest, mask);
      const int column = ShuffleXor(all.column, mask);
      if (largest > all.largest || (largest == all.largest && column < all.column)) {
        all.largest = largest;
        all.column = column;
      }
    }
    // Threads that saw nothing have the sum 0, or a NaN that must stay.
    double joined = mine.largest == -Infinity()
                        ? static_cast<double>(mine.sum)
                        : static_cast<double>(mine.sum * Exp(mine.largest - all.largest));
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) joined += ShuffleXor(joined, mask);
    if (LaneIndex() == 0) {
      sums[WarpIndex()] = joined;
      largests[WarpIndex()] = all.largest;
      columns[WarpIndex()] = all.column;
    }
    SyncBlock();
    all.largest = -Infinity();
    all.column = 0;
    for (int w = 0; w < kWarps; ++w) {
      // Warps that saw nothing say column 0; a warp before them that has it keeps it.
      if (largests[w] > all.largest || (largests[w] == all.largest && columns[w] < all.column)) {
        all.largest = largests[w];
        all.column = columns[w];
      }
    }
    sum = 0;
    for (int w = 0; w < kWarps; ++w) {
      sum += largests[w] == -Infinity()
                 ? sums[w]
                 : sums[w] * static_cast<double>(Exp(largests[w] - all.largest));
    }
    return all;
  }

  // Returns the sum of the row's tokens on every thread. Waits for those who read shared memory.
  MUSTER_DEVICE double SumOfLogits(const float* x) const {
    double* const sums = reinterpret_cast<double*>(SharedMemory());
    double sum = 0;
    for (int64_t c = ThreadIndex(); c < tokens; c += kThreads) sum += static_cast<double>(x[c]);
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) sum += ShuffleXor(sum, mask);
    SyncBlock();
    if (LaneIndex() == 0) sums[WarpIndex()] = sum;
    SyncBlock();
    sum = 0;
    for (int w = 0; w < kWarps; ++w) sum += sums[w];
    return sum;
  }

  // Writes what `made_of` says, if kLabelled, otherwise zeros. The row may lie over its own logits,
  // so that writes of one round of columns wait for all reads of that round; the next round's
  // logits lie behind what this one writes.
  template <bool kLabelled, typename Gradient>
  MUSTER_DEVICE void WriteGradient(Gradient* gradient, int64_t row, const float* x, int64_t label,
                                   float largest, const RowGradient& made_of) const {
    constexpr int64_t kGradientsInF32 = sizeof(float) / sizeof(Gradient);
    Gradient* const dx = gradient + row * logits_stride * kGradientsInF32;
    const bool over_itself = static_cast<const void*>(dx) == static_cast<const void*>(x) &&
                             sizeof(Gradient) != sizeof(float);
    for (int64_t first = 0; first < vocabulary; first += kThreads * N) {
      const int64_t c = first + ThreadIndex() * N;
      float values[N] = {};
      if (kLabelled && c < tokens) {
        LoadSome(x + c, tokens - c, values);
#pragma unroll
        for (int j = 0; j < N; ++j) {
          const float less = c + j == label ? made_of.at_label : made_of.each;
          values[j] = c + j < tokens ? Exp(values[j] - largest) * made_of.factor - less : 0.0f;
        }
      }
      if (over_itself) SyncBlock();
      if (c + N <= vocabulary) {
        StoreFloats<N>(values, dx + c);
      } else {
#pragma unroll
        for (int j = 0; j < N; ++j) {
          if (c + j < vocabulary) dx[c + j] = Narrow<Gradient>(values[j]);
        }
      }
    }
  }
};

// Returns what the gradient of a row is scaled by.
MUSTER_DEVICE float ScaleOf(const CrossEntropyArrays& arrays) {
  return arrays.gradient_scale != nullptr ? *arrays.gradient_scale : 1.0f;
}

// All rows of a kernel have this in common.
struct LossOfRows {
  LossTerms terms;
  RowLosses rows;

  MUSTER_DEVICE void Write(int64_t row, double sum, float largest, float label_logit,
                           double logits_sum, bool correct) const {
    const double loss = RowLoss(terms, {LogDouble(sum), static_cast<double>(largest),
                                        static_cast<double>(label_logit), logits_sum});
    rows.losses[row] = static_cast<float>(loss);
    rows.correct[row] = sum == sum && correct ? 1 : 0;
  }

  MUSTER_DEVICE RowGradient GradientOf(float scale, double sum, float largest) const {
    const double log_of_all = terms.z != 0 ? LogDouble(sum) + static_cast<double>(largest) : 0.0;
    return RowGradientOf(terms, scale, sum, log_of_all);
  }
};

MUSTER_DEVICE void WriteNoLoss(const RowLosses& rows, int64_t row) {
  rows.losses[row] = 0;
  rows.correct[row] = -1;
}

template <typename Gradient, int N>
struct CrossEntropyKernel {
  static constexpr int kThreads = RowSweeps<N>::kThreads;
  static constexpr int kMinBlocks = 2;
  static constexpr const char* kName = "cross entropy";
  static constexpr size_t kShared = RowSweeps<N>::kShared;

  RowSweeps<N> sweeps;
  CrossEntropyArrays arrays;
  LossOfRows loss;

  MUSTER_DEVICE void Run() const {
    const int64_t row = BlockX();
    const float* const x = arrays.logits + row * sweeps.logits_stride;
    Gradient* const gradient = static_cast<Gradient*>(arrays.gradient);
    const int label = arrays.labels[row];
    if (label < 0) {
      if (gradient != nullptr) {
        sweeps.template WriteGradient<false>(gradient, row, x, label, 0, {});
      }
      if (ThreadIndex() == 0) WriteNoLoss(loss.rows, row);
      return;
    }
    double sum;
    const Softmax all = sweeps.Sum(x, sum);
    // Read before the gradient is written over it.
    const float label_logit = x[label];
    const double logits_sum = loss.terms.smoothing != 0 ? sweeps.SumOfLogits(x) : 0.0;
    SyncBlock();
    if (ThreadIndex() == 0) {
      loss.Write(row, sum, all.largest, label_logit, logits_sum, all.column == label);
    }
    if (gradient == nullptr) return;
    sweeps.template WriteGradient<true>(gradient, row, x, label, all.largest,
                                        loss.GradientOf(ScaleOf(arrays), sum, all.largest));
  }
};

template <int N>
struct SoftmaxPartsKernel {
  static constexpr int kThreads = RowSweeps<N>::kThreads;
  static constexpr int kMinBlocks = 2;
  static constexpr const char* kName = "softmax parts";
  static constexpr size_t kShared = RowSweeps<N>::kShared;

  RowSweeps<N> sweeps;
  int32_t first_token;
  const float* logits;
  const int32_t* labels;
  SoftmaxPart* parts;
  bool smooths;

  MUSTER_DEVICE void Run() const {
    const int64_t row = BlockX();
    SoftmaxPart part = {-Infinity(), 0, -Infinity(), 0};
    if (labels[row] >= 0) {
      const float* const x = logits + row * sweeps.logits_stride;
      const int64_t label = static_cast<int64_t>(labels[row]) - first_token;
      double sum;
      const Softmax all = sweeps.Sum(x, sum);
      part.largest = all.largest;
      part.sum = static_cast<float>(sum);
      if (smooths) part.logits = static_cast<float>(sweeps.SumOfLogits(x));
      if (label >= 0 && label < sweeps.tokens) {
        part.label = x[label];
        if (all.column == label && x[label] == all.largest) part.sum = -part.sum;
      }
    }
    if (ThreadIndex() == 0) parts[row] = part;
  }
};

template <typename Gradient, int N>
struct CrossEntropyOfPartsKernel {
  static constexpr int kThreads = RowSweeps<N>::kThreads;
  static constexpr int kMinBlocks = 2;
  static constexpr const char* kName = "cross entropy of parts";

  RowSweeps<N> sweeps;
  int64_t row_count;
  int32_t first_token;
  VocabularyShareArrays arrays;
  LossOfRows loss;

  MUSTER_DEVICE void Run() const {
    const CrossEntropyArrays& columns = arrays.columns;
    const int64_t row = BlockX();
    const float* const x = columns.logits + row * sweeps.logits_stride;
    Gradient* const gradient = static_cast<Gradient*>(columns.gradient);
    if (columns.labels[row] < 0) {
      if (gradient != nullptr) {
        sweeps.template WriteGradient<false>(gradient, row, x, -1, 0, {});
      }
      if (ThreadIndex() == 0) WriteNoLoss(loss.rows, row);
      return;
    }
    SoftmaxPart all = arrays.parts[row];
    bool correct = all.sum < 0;
    for (int rank = 1; rank < arrays.ranks; ++rank) {
      const SoftmaxPart part = arrays.parts[rank * row_count + row];
      if (part.largest > all.largest) {
        all.largest = part.largest;
        correct = part.sum < 0;
      }
      if (part.label > all.label || part.label != part.label) all.label = part.label;
    }
    double sum = 0, logits_sum = 0;
    for (int rank = 0; rank < arrays.ranks; ++rank) {
      const SoftmaxPart part = arrays.parts[rank * row_count + row];
      logits_sum += static_cast<double>(part.logits);
      const double own = static_cast<double>(part.sum < 0 ? -part.sum : part.sum);
      // What has no column above -∞ has the sum 0, or a NaN that must stay.
      sum += part.largest == -Infinity()
                 ? own
                 : own * static_cast<double>(Exp(part.largest - all.largest));
    }
    if (ThreadIndex() == 0) {
      loss.Write(row, sum, all.largest, all.label, logits_sum, correct);
    }
    if (gradient == nullptr) return;
    sweeps.template WriteGradient<true>(
        gradient, row, x, static_cast<int64_t>(columns.labels[row]) - first_token, all.largest,
        loss.GradientOf(ScaleOf(columns), sum, all.largest));
  }
};

// One block: each thread adds every 256th row, then the threads' sums are added in one order.
struct HeadSumsKernel {
  static constexpr int kThreads = 256;
  static constexpr int kMinBlocks = 1;
  static constexpr const char* kName = "loss sums";
  static constexpr int kWarps = kThreads / 32;
  static constexpr size_t kShared = 3 * kWarps * sizeof(double);

  int64_t rows;
  const float* losses;
  const int32_t* correct;
  HeadSums* sums;

  MUSTER_DEVICE void Run() const {
    double* const shared = reinterpret_cast<double*>(SharedMemory());
    double sum[3] = {};
    for (int64_t r = ThreadIndex(); r < rows; r += kThreads) {
      if (correct[r] < 0) continue;
      sum[0] += losses[r];
      sum[1] += 1;
      sum[2] += correct[r];
    }
#pragma unroll
    for (int i = 0; i < 3; ++i) {
#pragma unroll
      for (int mask = 16; mask > 0; mask /= 2) sum[i] += ShuffleXor(sum[i], mask);
      if (LaneIndex() == 0) shared[i * kWarps + WarpIndex()] = sum[i];
    }
    SyncBlock();
    if (ThreadIndex() != 0) return;
    for (int w = 0; w < kWarps; ++w) {
      sums->loss += shared[w];
      sums->tokens += shared[kWarps + w];
      sums->correct += shared[2 * kWarps + w];
    }
  }
};

}  // namespace

namespace {

// Calls `launch` with the sweeps that fit the arrays.
template <typename LaunchWith>
void WithSweeps(const CrossEntropyShape& shape, const void* logits, const void* gradient,
                LaunchWith launch) {
  if (shape.logits_stride % 8 == 0 && IsAligned16(logits) && IsAligned16(gradient)) {
    launch(RowSweeps<8>{shape.tokens, shape.vocabulary, shape.logits_stride});
  } else {
    launch(RowSweeps<1>{shape.tokens, shape.vocabulary, shape.logits_stride});
  }
}

void AddSums(DeviceStream& stream, int64_t count, const RowLosses& rows, HeadSums* sums) {
  if (sums == nullptr) return;
  Launch(stream, {}, HeadSumsKernel::kShared,
         HeadSumsKernel{count, rows.losses, rows.correct, sums});
}

}  // namespace

void DeviceCrossEntropy(DeviceStream& stream, const CrossEntropyShape& shape, DType type,
                        const CrossEntropyArrays& arrays, const RowLosses& rows) {
  WithStorageType(type, [&](auto gradient) {
    using Gradient = decltype(gradient);
    WithSweeps(shape, arrays.logits, arrays.gradient, [&]<int N>(const RowSweeps<N>& sweeps) {
      using Kernel = CrossEntropyKernel<Gradient, N>;
      Launch(stream, {.x = shape.rows}, Kernel::kShared,
             Kernel{sweeps, arrays, {shape.terms, rows}});
    });
  });
  AddSums(stream, shape.rows, rows, arrays.sums);
}

void DeviceSoftmaxParts(DeviceStream& stream, const VocabularyShareShape& shape,
                        const float* logits, const int32_t* labels, SoftmaxPart* parts) {
  WithSweeps(shape.columns, logits, nullptr, [&]<int N>(const RowSweeps<N>& sweeps) {
    using Kernel = SoftmaxPartsKernel<N>;
    Launch(stream, {.x = shape.columns.rows}, Kernel::kShared,
           Kernel{sweeps, shape.first_token, logits, labels, parts,
                  shape.columns.terms.smoothing != 0});
  });
}

void DeviceCrossEntropyOfParts(DeviceStream& stream, const VocabularyShareShape& shape, DType type,
                               const VocabularyShareArrays& arrays, const RowLosses& rows) {
  const int64_t count = shape.columns.rows;
  WithStorageType(type, [&](auto gradient) {
    using Gradient = decltype(gradient);
    WithSweeps(shape.columns, arrays.columns.logits, arrays.columns.gradient,
               [&]<int N>(const RowSweeps<N>& sweeps) {
                 using Kernel = CrossEntropyOfPartsKernel<Gradient, N>;
                 Launch(
                     stream, {.x = count}, 0,
                     Kernel{sweeps, count, shape.first_token, arrays, {shape.columns.terms, rows}});
               });
  });
  AddSums(stream, count, rows, arrays.columns.sums);
}

}  // namespace muster
