#ifndef MUSTER_COMMON_KERNELS_TRANSFORMER_KERNEL_TEST_LIB_H_
#define MUSTER_COMMON_KERNELS_TRANSFORMER_KERNEL_TEST_LIB_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "common/kernels/matmul.h"
#include "common/kernels/transformer/vector_kernels.h"
#include "common/tensor/bfloat16.h"
#include "gtest/gtest.h"

namespace muster {

// What the tests of the transformer's kernels, and of its head, share: typed arrays, f64 copies of
// them, finite differences, and every instruction set of this machine.

using KernelTypes = testing::Types<float, BFloat16, Float16>;

// Half a unit in the last place of T, relative.
template <typename T>
constexpr double kRounding = std::is_same_v<T, BFloat16>  ? 1.0 / 256
                             : std::is_same_v<T, Float16> ? 1.0 / 2048
                                                          : 1.0 / (1 << 24);

template <typename T>
T Rounded(double value) {
  T result;
  StoreRounded(static_cast<float>(value), &result);
  return result;
}

// Uniform in [low, high).
template <typename T = float>
std::vector<T> RandomArray(int64_t n, uint32_t seed, float low = -1, float high = 1) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> distribution(low, high);
  std::vector<T> values(n);
  for (T& value : values) value = Rounded<T>(distribution(random));
  return values;
}

template <typename T>
std::vector<double> Doubles(const std::vector<T>& values) {
  std::vector<double> result;
  for (const T& value : values) result.push_back(static_cast<double>(ToFloat(value)));
  return result;
}

// ∂f/∂x[i] by central differences, whose own error in f64 is some 1e-9 for smooth functions of
// values near 1.
inline double Difference(const std::function<double(const std::vector<double>&)>& f,
                         std::vector<double> x, int64_t i) {
  constexpr double kStep = 1e-5;
  const double at = x[i];
  x[i] = at + kStep;
  const double above = f(x);
  x[i] = at - kStep;
  return (above - f(x)) / (2 * kStep);
}

inline double Dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// |got - wanted| <= absolute + relative · |wanted| everywhere.
template <typename T>
void ExpectNear(const std::vector<T>& got, const std::vector<double>& wanted, double absolute,
                double relative, const std::string& what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  for (size_t i = 0; i < wanted.size(); ++i) {
    ASSERT_LE(std::abs(static_cast<double>(ToFloat(got[i])) - wanted[i]),
              absolute + relative * std::abs(wanted[i]))
        << what << "[" << i << "]: " << ToFloat(got[i]) << " for " << wanted[i];
  }
}

// ‖got - wanted‖ / ‖wanted‖.
template <typename T>
double RelativeError(const std::vector<T>& got, const std::vector<double>& wanted) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const double difference = static_cast<double>(ToFloat(got[i])) - wanted[i];
    error += difference * difference;
    norm += wanted[i] * wanted[i];
  }
  return std::sqrt(error / std::max(norm, 1e-300));
}

// Runs the body once per instruction set that this machine has, the best last, so that it stays.
inline void ForEachInstructionSet(const std::function<void()>& body) {
  const VectorKernelList list = UsableVectorKernels();
  for (int i = list.count - 1; i >= 0; --i) {
    SCOPED_TRACE(list.kernels[i]->name);
    SetVectorKernelsForTesting(*list.kernels[i]);
    body();
    if (testing::Test::HasFatalFailure()) break;
  }
  SetVectorKernelsForTesting(*list.kernels[0]);
}

// Sets factors[i], for i < count, to the factor of element begin + i of `example`, computed on the
// instruction set in use.
inline void DropoutFactors(const DropoutMask& mask, uint64_t example, int64_t begin, int64_t count,
                           float* factors) {
  ActiveVectorKernels().dropout_factors(mask, example, begin, count, factors);
}

// Whether the body gives the same on 1, 2 and 3 threads, and again.
template <typename Body>
void ExpectSameBitsOnAnyThreads(const Body& body) {
  SetComputeThreads(1);
  const auto first = body();
  for (const int threads : {1, 2, 3}) {
    SetComputeThreads(threads);
    EXPECT_TRUE(body() == first) << threads << " threads";
  }
  SetComputeThreads(1);
}

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_TRANSFORMER_KERNEL_TEST_LIB_H_
