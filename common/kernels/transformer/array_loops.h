#ifndef MUSTER_COMMON_KERNELS_TRANSFORMER_ARRAY_LOOPS_H_
#define MUSTER_COMMON_KERNELS_TRANSFORMER_ARRAY_LOOPS_H_

#include <cstdint>

#include "common/kernels/transformer/vec16.h"
#include "common/kernels/transformer/vector_kernels.h"

// Loops over arrays: conversion, sums, rotary. Included by vector_kernels_*.cc alone.
// Everything is in an unnamed namespace and nothing of the standard library's is called, so that
// the linker cannot take one file's code for another's.

namespace muster {
namespace {

template <typename From, typename To>
void ConvertLoop(int64_t n, const From* x, To* y) {
  ForVec16(n, [&](int64_t i, int64_t count) { StoreUpTo(LoadUpTo(x + i, count), count, y + i); });
}

void ExpLoop(int64_t n, const float* x, float* y) {
  ForVec16(
      n, [&](int64_t i, int64_t count) { StoreUpTo(Exp16(LoadUpTo(x + i, count)), count, y + i); });
}

// A NaN or an infinity times 0 is a NaN, and stays one in a sum of such.
bool IsNumber(Vec16 sums) {
  const float sum = Sum16(sums);
  return sum == sum;
}

bool AllFiniteLoop(int64_t n, const float* x) {
  // Several sums, so that none waits for the addition before it.
  constexpr int64_t kSums = 4;
  Vec16 sums[kSums] = {};
  const int64_t whole = n / (16 * kSums) * (16 * kSums);
  for (int64_t i = 0; i < whole; i += 16 * kSums) {
    for (int64_t s = 0; s < kSums; ++s) sums[s] += Load16(x + i + 16 * s) * 0.0f;
  }
  ForVec16(n - whole,
           [&](int64_t i, int64_t count) { sums[0] += LoadUpTo(x + whole + i, count) * 0.0f; });
  return IsNumber((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

bool UnscaleLoop(int64_t n, float factor, float* x) {
  Vec16 sum = {};
  ForVec16(n, [&](int64_t i, int64_t count) {
    const Vec16 value = LoadUpTo(x + i, count) * factor;
    sum += value * 0.0f;
    StoreUpTo(value, count, x + i);
  });
  return IsNumber(sum);
}

void AddLoop(int64_t n, const float* x, float* y) {
  ForVec16(n, [&](int64_t i, int64_t count) {
    StoreUpTo(LoadUpTo(y + i, count) + LoadUpTo(x + i, count), count, y + i);
  });
}

void EmbedLoop(int64_t n, const float* a, const float* b, float* out) {
  ForVec16(n, [&](int64_t i, int64_t count) {
    Vec16 value = LoadUpTo(a + i, count);
    if (b != nullptr) value += LoadUpTo(b + i, count);
    StoreUpTo(value, count, out + i);
  });
}

void ScaleLoop(int64_t n, const float* factors, const float* x, float* y) {
  ForVec16(n, [&](int64_t i, int64_t count) {
    StoreUpTo(LoadUpTo(x + i, count) * LoadUpTo(factors + i, count), count, y + i);
  });
}

// Columns by fours of vectors, whose sums stay in registers while the rows go by.
template <typename T>
void RowSumsLoop(int64_t rows, int64_t cols, int64_t stride, const T* x, float* sums) {
  int64_t c = 0;
  for (; c + 4 * kVec16 <= cols; c += 4 * kVec16) {
    Vec16 sum0 = Load16(sums + c), sum1 = Load16(sums + c + 16);
    Vec16 sum2 = Load16(sums + c + 32), sum3 = Load16(sums + c + 48);
    for (int64_t r = 0; r < rows; ++r) {
      const T* row = x + r * stride + c;
      sum0 += Load16(row);
      sum1 += Load16(row + 16);
      sum2 += Load16(row + 32);
      sum3 += Load16(row + 48);
    }
    Store16(sum0, sums + c);
    Store16(sum1, sums + c + 16);
    Store16(sum2, sums + c + 32);
    Store16(sum3, sums + c + 48);
  }
  ForVec16(cols - c, [&](int64_t i, int64_t count) {
    Vec16 sum = LoadUpTo(sums + c + i, count);
    for (int64_t r = 0; r < rows; ++r) sum += LoadUpTo(x + r * stride + c + i, count);
    StoreUpTo(sum, count, sums + c + i);
  });
}

template <typename T>
void RotaryLoop(const RotaryShape& shape, const float* table, float direction, int64_t begin,
                int64_t end, T* x) {
  const int64_t half = shape.head_dim / 2;
  for (int64_t r = begin; r < end; ++r) {
    const int64_t position = shape.token_positions != nullptr
                                 ? shape.token_positions[r]
                                 : shape.first_position + r % shape.context;
    const float* cosines = table + position * shape.head_dim;
    const float* sines = cosines + half;
    for (int64_t h = 0; h < shape.heads; ++h) {
      T* low = x + r * shape.stride + h * shape.head_dim;
      T* high = low + half;
      ForVec16(half, [&](int64_t i, int64_t count) {
        const Vec16 cosine = LoadUpTo(cosines + i, count);
        const Vec16 sine = direction * LoadUpTo(sines + i, count);
        const Vec16 a = LoadUpTo(low + i, count), b = LoadUpTo(high + i, count);
        StoreUpTo(a * cosine - b * sine, count, low + i);
        StoreUpTo(b * cosine + a * sine, count, high + i);
      });
    }
  }
}

}  // namespace
}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_TRANSFORMER_ARRAY_LOOPS_H_
