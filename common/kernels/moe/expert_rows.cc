#include "common/kernels/moe/expert_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <numeric>
#include <vector>

#include "common/kernels/parallel_for.h"
#include "common/kernels/transformer/vector_kernels.h"
#include "common/tensor/bfloat16.h"

namespace muster {
namespace {

// Calls body(row) for each row, on several threads.
template <typename F>
void ForRows(int64_t rows, int64_t width, const F& body) {
  constexpr int64_t kElements = 1 << 14;
  ParallelFor(rows, std::max<int64_t>(1, kElements / std::max<int64_t>(1, width)),
              [&](int64_t begin, int64_t end) {
                for (int64_t row = begin; row < end; ++row) body(row);
              });
}

struct Gate {
  float open;
  float slope;
};

// The logistic function, by e^-|x|: neither infinity nor cancellation.
Gate GateOf(float logit) {
  const float e = std::exp(-std::abs(logit));
  const float high = 1 / (1 + e), low = e / (1 + e);
  return {logit < 0 ? low : high, low * high};
}

}  // namespace

// A counting sort. It is not divided: it takes about a nanosecond a row, and products of the rows
// take thousands.
void OrderRows(const RouterShape& shape, const int32_t* chosen, const ExpertRows& rows) {
  const int64_t R = shape.rows();
  std::fill(rows.offsets, rows.offsets + shape.experts + 1, 0);
  for (int64_t a = 0; a < R; ++a) ++rows.offsets[chosen[a] + 1];
  for (int64_t e = 0; e < shape.experts; ++e) rows.offsets[e + 1] += rows.offsets[e];
  std::vector<int32_t> next(rows.offsets, rows.offsets + shape.experts);
  for (int64_t a = 0; a < R; ++a) {
    const int32_t row = next[chosen[a]]++;
    rows.assignments[row] = static_cast<int32_t>(a);
    rows.places[a] = row;
  }
}

void OrderHostedRows(const HostedRowsShape& shape, const int32_t* rank_offsets, int32_t* offsets,
                     int32_t* numbers) {
  const int64_t of_rank = shape.experts / shape.ranks, first = shape.rank * of_rank;
  for (int64_t e = 0; e <= of_rank; ++e) {
    int64_t before = 0;
    for (int64_t source = 0; source < shape.ranks; ++source) {
      const int32_t* const of_source = rank_offsets + source * (shape.experts + 1) + first;
      before += of_source[e] - of_source[0];
    }
    offsets[e] = static_cast<int32_t>(std::clamp<int64_t>(before - shape.first, 0, shape.rows));
  }
  std::iota(numbers, numbers + shape.rows, 0);
}

void GatherRows(const TokenRowsShape& shape, const void* x, const int32_t* assignments,
                void* rows) {
  const int64_t bytes = shape.width * static_cast<int64_t>(SizeOf(shape.type));
  ForRows(shape.tokens * shape.top_k, shape.width, [&](int64_t row) {
    std::memcpy(static_cast<char*>(rows) + row * bytes,
                static_cast<const char*>(x) + assignments[row] / shape.top_k * bytes, bytes);
  });
}

template <typename T>
void CombineRows(const TokenRowsShape& shape, const CombineArrays& arrays) {
  const TypedVectorKernels<T>& kernels = ActiveKernelsOf<T>();
  const int64_t k = shape.top_k;
  const int32_t kept = static_cast<int32_t>(arrays.kept == nullptr ? shape.tokens * shape.top_k
                                                                   : int64_t{*arrays.kept});
  ForRows(shape.tokens, shape.width * shape.top_k, [&](int64_t n) {
    const int32_t* places = arrays.places + n * k;
    int64_t count = k;
    std::vector<int32_t> some;
    if (std::any_of(places, places + k, [kept](int32_t place) { return place >= kept; })) {
      std::copy_if(places, places + k, std::back_inserter(some),
                   [kept](int32_t place) { return place < kept; });
      places = some.data();
      count = static_cast<int64_t>(some.size());
    }
    const T* bases[3] = {};
    for (int b = 0; b < 3; ++b) {
      if (arrays.bases[b] == nullptr) continue;
      bases[b] = static_cast<const T*>(arrays.bases[b]) + n * shape.width;
    }
    kernels.sum_of_rows(shape.width, count, static_cast<const T*>(arrays.rows), places, bases,
                        static_cast<T*>(arrays.out) + n * shape.width);
  });
}

template <typename T>
void GateRows(const TokenRowsShape& shape, const GateRowsArrays& arrays) {
  const TypedVectorKernels<T>& kernels = ActiveKernelsOf<T>();
  ForRows(shape.tokens, shape.width, [&](int64_t n) {
    kernels.scale_row(shape.width, GateOf(arrays.logits[n]).open,
                      static_cast<const T*>(arrays.x) + n * shape.width,
                      static_cast<T*>(arrays.y) + n * shape.width);
  });
}

template <typename T>
void GateRowsBackward(const TokenRowsShape& shape, const GateRowsGradientArrays& arrays) {
  const TypedVectorKernels<T>& kernels = ActiveKernelsOf<T>();
  ForRows(shape.tokens, shape.width, [&](int64_t n) {
    const Gate gate = GateOf(arrays.logits[n]);
    const float sum = kernels.scale_row_backward(shape.width, gate.open,
                                                 static_cast<const T*>(arrays.x) + n * shape.width,
                                                 static_cast<const T*>(arrays.dy) + n * shape.width,
                                                 static_cast<T*>(arrays.dx) + n * shape.width);
    StoreRounded(gate.slope * sum, static_cast<T*>(arrays.dlogits) + n);
  });
}

template void CombineRows<float>(const TokenRowsShape&, const CombineArrays&);
template void CombineRows<BFloat16>(const TokenRowsShape&, const CombineArrays&);
template void CombineRows<Float16>(const TokenRowsShape&, const CombineArrays&);
template void GateRows<float>(const TokenRowsShape&, const GateRowsArrays&);
template void GateRows<BFloat16>(const TokenRowsShape&, const GateRowsArrays&);
template void GateRows<Float16>(const TokenRowsShape&, const GateRowsArrays&);
template void GateRowsBackward<float>(const TokenRowsShape&, const GateRowsGradientArrays&);
template void GateRowsBackward<BFloat16>(const TokenRowsShape&, const GateRowsGradientArrays&);
template void GateRowsBackward<Float16>(const TokenRowsShape&, const GateRowsGradientArrays&);

}  // namespace muster
