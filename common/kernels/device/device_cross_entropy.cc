// A block takes a row and reads it twice: once for the largest logit and the sum of e^(x - largest)
// together, each thread keeping its own pair (an online softmax), once, then from the second-level
// cache, for the gradient.
#include "common/kernels/device/device_cross_entropy.h"

#include "common/kernels/device/simt.h"

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

template <typename Gradient, int N>
struct CrossEntropyKernel {
  static constexpr int kThreads = 512;
  static constexpr int kMinBlocks = 2;
  static constexpr const char* kName = "cross entropy";
  static constexpr int kWarps = kThreads / 32;
  static constexpr size_t kShared = kWarps * (sizeof(float) + sizeof(int) + sizeof(double));

  int64_t tokens;
  int64_t vocabulary;
  int64_t logits_stride;
  CrossEntropyArrays arrays;
  float* losses;
  int32_t* correct;

  MUSTER_DEVICE void Run() const {
    const int64_t row = BlockX();
    const float* const x = arrays.logits + row * logits_stride;
    const int label = arrays.labels[row];
    if (label < 0) {
      if (arrays.gradient != nullptr) WriteGradient<false>(row, x, label, 0, 0, 0);
      if (ThreadIndex() == 0) {
        losses[row] = 0;
        correct[row] = -1;
      }
      return;
    }
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
    double sum;
    const Softmax all = Joined(mine, sum);
    // Read before the gradient is written over it.
    const float label_logit = x[label];
    SyncBlock();
    if (ThreadIndex() == 0) {
      const double loss =
          LogDouble(sum) - (static_cast<double>(label_logit) - static_cast<double>(all.largest));
      losses[row] = static_cast<float>(loss);
      correct[row] = sum == sum && all.column == label ? 1 : 0;
    }
    if (arrays.gradient == nullptr) return;
    const float scale = arrays.gradient_scale != nullptr ? *arrays.gradient_scale : 1.0f;
    WriteGradient<true>(row, x, label, all.largest, static_cast<float>(scale / sum), scale);
  }

  // Columns beyond those left are not read; their values do not count.
  static MUSTER_DEVICE void LoadSome(const float* from, int64_t left, float (&values)[N]) {
    if (left >= N) {
      LoadFloats<N>(from, values);
    } else {
#pragma unroll
      for (int j = 0; j < N; ++j) values[j] = j < left ? from[j] : 0.0f;
    }
  }

  // All threads' pairs, in one order, on every thread. `sum` is all.sum in f64.
  MUSTER_DEVICE Softmax Joined(Softmax mine, double& sum) const {
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

  // The row may lie over its own logits, so that writes of one round of columns wait for all reads
  // of that round; the next round's logits lie behind what this one writes.
  template <bool kLabelled>
  MUSTER_DEVICE void WriteGradient(int64_t row, const float* x, int label, float largest,
                                   float factor, float scale) const {
    constexpr int64_t kGradientsInF32 = sizeof(float) / sizeof(Gradient);
    Gradient* const dx =
        static_cast<Gradient*>(arrays.gradient) + row * logits_stride * kGradientsInF32;
    const bool over_itself = static_cast<const void*>(dx) == static_cast<const void*>(x) &&
                             sizeof(Gradient) != sizeof(float);
    for (int64_t first = 0; first < vocabulary; first += kThreads * N) {
      const int64_t c = first + ThreadIndex() * N;
      float values[N] = {};
      if (kLabelled && c < tokens) {
        LoadSome(x + c, tokens - c, values);
#pragma unroll
        for (int j = 0; j < N; ++j) {
          values[j] = c + j < tokens ? Exp(values[j] - largest) * factor : 0.0f;
          if (c + j == label) values[j] -= scale;
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

void DeviceCrossEntropy(DeviceStream& stream, const CrossEntropyShape& shape, DType type,
                        const CrossEntropyArrays& arrays, float* losses, int32_t* correct) {
  const bool packed =
      shape.logits_stride % 8 == 0 && IsAligned16(arrays.logits) && IsAligned16(arrays.gradient);
  WithStorageType(type, [&](auto gradient) {
    using Gradient = decltype(gradient);
    const auto launch = [&](auto kernel) {
      Launch(stream, {.x = shape.rows}, kernel.kShared, kernel);
    };
    if (packed) {
      launch(CrossEntropyKernel<Gradient, 8>{shape.tokens, shape.vocabulary, shape.logits_stride,
                                             arrays, losses, correct});
    } else {
      launch(CrossEntropyKernel<Gradient, 1>{shape.tokens, shape.vocabulary, shape.logits_stride,
                                             arrays, losses, correct});
    }
  });
  if (arrays.sums != nullptr) {
    Launch(stream, {}, HeadSumsKernel::kShared,
           HeadSumsKernel{shape.rows, losses, correct, arrays.sums});
  }
}

}  // namespace muster
