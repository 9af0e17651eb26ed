// Products of linear layers.
#include <cmath>
#include <ostream>
#include <type_traits>

#include "common/compute/ops_contract.h"
#include "common/kernels/gemm/gemm.h"
#include "common/kernels/gemm/row_sums.h"
#include "common/kernels/transformer/activation.h"

namespace muster {
namespace {

using Result = LinearForwardArrays::Result;

struct Size {
  int64_t rows, in, out;
  // Elements between a row of y and the next one.
  int64_t gap = 0;
};

constexpr Size kSizes[] = {{1, 1, 1},     {1, 40, 33},      {13, 7, 24},
                           {37, 64, 129}, {20, 96, 50, 14}, {64, 2, 8},
                           {65, 2, 264},  {3000, 2, 72, 8}, {9000, 1, 3}};

// f32 sums of values below 1.
constexpr double kSums = 2e-5;

// f32 sums of so many values below 1.
double SumsOf(int64_t rows) { return kSums + 2e-7 * static_cast<double>(rows); }

Linear LinearOf(DType type, const Size& size) {
  return {.type = type,
          .rows = size.rows,
          .in = size.in,
          .out = size.out,
          .out_stride = size.gap > 0 ? size.out + size.gap : 0};
}

// Returns the rows of a gradient of y with NaNs between them.
HostArray WithGaps(const HostArray& dense, const Size& size) {
  HostArray array(dense.type(), size.rows * (size.out + size.gap));
  for (int64_t i = 0; i < dense.size(); ++i) {
    array.Set(i / size.out * (size.out + size.gap) + i % size.out, dense.Get(i));
  }
  return array;
}

std::ostream& operator<<(std::ostream& out, const Size& size) {
  return out << size.rows << " rows of " << size.in << " to " << size.out << ", gap " << size.gap;
}

// Expects finite values: what is between rows counts for nothing.
void ExpectFinite(const HostArray& array) {
  for (int64_t i = 0; i < array.size(); ++i) ASSERT_TRUE(std::isfinite(array.Get(i))) << i;
}

TEST_P(OpsContractTest, LinearForward) {
  for (const Size& size : kSizes) {
    SCOPED_TRACE(testing::Message() << size);
    const Linear linear = LinearOf(type(), size);
    const HostArray x = Random(type(), size.rows * size.in, 1);
    const HostArray weight = Random(type(), size.out * size.in, 2);
    const HostArray bias = Random(type(), size.out, 3);
    HostArray master(DType::kF32, size.out);
    for (int64_t i = 0; i < size.out; ++i) master.Set(i, bias.Get(i));
    for (const bool has_bias : {false, true}) {
      for (const auto result : {Result::kRounded, Result::kF32}) {
        if (has_bias && result == Result::kF32) continue;
        const DType y_type = result == Result::kRounded ? type() : DType::kF32;
        const int64_t elements = size.rows * (size.out + size.gap);
        HostArray y(y_type, elements);
        WithType(type(), [&](auto zero) {
          using T = decltype(zero);
          WithType(y_type, [&](auto out_zero) {
            using Out = decltype(out_zero);
            if constexpr (std::is_same_v<Out, float> || std::is_same_v<Out, T>) {
              Gemm(size.rows, size.out, size.in, x.As<T>(), weight.As<T>(), y.As<Out>(),
                   {.transpose_b = Transpose::kYes,
                    .c_stride = size.out + size.gap,
                    .bias = has_bias ? master.As<float>() : nullptr});
            }
          });
        });
        void* const got = Room(y_type, elements);
        ops().LinearForward(linear, {.x = Put(x),
                                     .weight = Put(weight),
                                     .bias = PutBias(has_bias ? &bias : nullptr),
                                     .result = result,
                                     .y = got});
        Expect(got, y, {.absolute = kSums}, has_bias ? "y with a bias" : "y");
      }
    }
  }
}

TEST_P(OpsContractTest, LinearBackwardInput) {
  for (const Size& size : kSizes) {
    SCOPED_TRACE(testing::Message() << size);
    const HostArray dy = WithGaps(Random(type(), size.rows * size.out, 1), size);
    const HostArray weight = Random(type(), size.out * size.in, 2);
    HostArray dx(type(), size.rows * size.in);
    WithType(type(), [&](auto zero) {
      using T = decltype(zero);
      Gemm(size.rows, size.in, size.out, dy.As<T>(), weight.As<T>(), dx.As<T>(),
           {.a_stride = size.out + size.gap});
    });
    ExpectFinite(dx);
    void* const got = Room(type(), size.rows * size.in);
    ops().LinearBackwardInput(LinearOf(type(), size), Put(dy), Put(weight), got);
    Expect(got, dx, {.absolute = kSums}, "dx");
  }
}

TEST_P(OpsContractTest, GradientsOfWeightsAreWrittenOrAdded) {
  for (const Size& size : kSizes) {
    SCOPED_TRACE(testing::Message() << size);
    const int64_t stride = size.out + size.gap;
    HostArray dy = WithGaps(Random(type(), size.rows * size.out, 1), size);
    HostArray x = Random(type(), size.rows * size.in, 2);
    // Products of the first column of each are below the least f32, and negative: -0 where they
    // are written, 0 where they are added to 0.
    for (int64_t r = 0; r < size.rows; ++r) {
      dy.Set(r * stride, type() == DType::kF16 ? -0.0f : -1e-30f);
      x.Set(r * size.in, type() == DType::kF16 ? 1 : 1e-30f);
    }
    for (const Accumulation accumulation : {Accumulation::kWrite, Accumulation::kAdd}) {
      for (const bool has_bias : {false, true}) {
        const bool adds = accumulation == Accumulation::kAdd;
        SCOPED_TRACE(adds ? "added" : "written");
        HostArray dweight(DType::kF32, size.out * size.in), dbias(DType::kF32, size.out);
        if (adds) {
          dweight = Random(DType::kF32, size.out * size.in, 3);
          dweight.Set(0, -0.0f);
          dbias = Random(DType::kF32, size.out, 4);
        }
        float* const got_weight = PutFloats(dweight);
        float* const got_bias = PutFloats(dbias);
        WithType(type(), [&](auto zero) {
          using T = decltype(zero);
          Gemm(size.out, size.in, size.rows, dy.As<T>(), x.As<T>(), dweight.As<float>(),
               {.transpose_a = Transpose::kYes, .a_stride = stride, .accumulation = accumulation});
          if (!has_bias) return;
          if (!adds) SetToZero(size.out, dbias.As<float>());
          AddRowSums(size.rows, size.out, stride, dy.As<T>(), dbias.As<float>());
        });
        ExpectFinite(dweight);
        if (has_bias) ExpectFinite(dbias);
        ops().LinearBackwardWeights(LinearOf(type(), size),
                                    {.dy = Put(dy),
                                     .x = Put(x),
                                     .accumulation = accumulation,
                                     .weight = got_weight,
                                     .bias = has_bias ? got_bias : nullptr});
        const double sums = SumsOf(size.rows);
        Expect(got_weight, dweight, {.absolute = sums}, "the weights' gradient");
        // Without one: as it was.
        Expect(got_bias, dbias, {.absolute = sums}, "the bias's gradient");
      }
    }
  }
}

TEST_P(OpsGeluContractTest, LinearGelu) {
  for (const Size& size : {Size{1, 3, 5}, {13, 40, 33}, {17, 24, 64}}) {
    SCOPED_TRACE(testing::Message() << size);
    const int64_t elements = size.rows * size.out;
    const HostArray x = Random(type(), size.rows * size.in, 1);
    const HostArray weight = Random(type(), size.out * size.in, 2);
    const HostArray bias = Random(type(), size.out, 3);
    HostArray master(DType::kF32, size.out);
    for (int64_t i = 0; i < size.out; ++i) master.Set(i, bias.Get(i));
    for (const bool has_bias : {false, true}) {
      HostArray before(type(), elements), after(type(), elements);
      WithType(type(), [&](auto zero) {
        using T = decltype(zero);
        Gemm(size.rows, size.out, size.in, x.As<T>(), weight.As<T>(), before.As<T>(),
             {.transpose_b = Transpose::kYes, .bias = has_bias ? master.As<float>() : nullptr});
        Gelu(elements, before.As<T>(), after.As<T>());
      });
      void* const got_before = Room(type(), elements);
      void* const got_after = Room(type(), elements);
      ops().LinearGelu(LinearOf(type(), size), {.x = Put(x),
                                                .weight = Put(weight),
                                                .bias = PutBias(has_bias ? &bias : nullptr),
                                                .before = got_before,
                                                .after = got_after});
      Expect(got_before, before, {.absolute = kSums}, "before");
      // Perhaps of the sum before it is rounded.
      const double rounded = 4 * RoundingOf(type());
      Expect(got_after, after, {.absolute = 2 * kSums + rounded}, "after");
    }
  }
}

TEST_P(OpsGeluContractTest, LinearGeluBackwardInput) {
  for (const Size& size : {Size{1, 5, 3}, {13, 33, 40}, {17, 64, 24}}) {
    SCOPED_TRACE(testing::Message() << size);
    const int64_t elements = size.rows * size.in;
    const HostArray dy = Random(type(), size.rows * size.out, 1);
    const HostArray weight = Random(type(), size.out * size.in, 2);
    HostArray before = Random(type(), elements, 3, -6, 6);
    before.Set(0, -60);
    before.Set(1, 60);
    HostArray dbefore(type(), elements);
    WithType(type(), [&](auto zero) {
      using T = decltype(zero);
      Gemm(size.rows, size.in, size.out, dy.As<T>(), weight.As<T>(), dbefore.As<T>());
      GeluBackward(elements, before.As<T>(), dbefore.As<T>(), dbefore.As<T>());
    });
    void* const got = Room(type(), elements);
    ops().LinearGeluBackwardInput(
        LinearOf(type(), size),
        {.dy = Put(dy), .weight = Put(weight), .before = Put(before), .dbefore = got});
    // Perhaps of a gradient that was not rounded between.
    Expect(got, dbefore, {.absolute = 2 * kSums, .relative = 2 * RoundingOf(type())}, "dbefore");
  }
}

}  // namespace
}  // namespace muster
