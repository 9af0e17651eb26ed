#ifndef MUSTER_WORKER_COLLECTIVES_REDUCE_REDUCE_LOOPS_H_
#define MUSTER_WORKER_COLLECTIVES_REDUCE_REDUCE_LOOPS_H_

#include <cstddef>
#include <cstdint>

#if defined(__F16C__) && defined(__AVX2__)
#include <immintrin.h>
#endif

#include "common/base/machine/simd_clones.h"
#include "common/tensor/float16.h"
#include "worker/collectives/reduce/reduce_table.h"

// The loops of all reductions, compiled once per instruction set: only reduce_baseline.cc,
// reduce_avx2.cc and reduce_avx512.cc include this file, with different compiler options.
// Everything is in an unnamed namespace and calls nothing of the standard library, so that the
// linker cannot take one file's code for another's.
//
// Up to four inputs are read in one pass, straight into the output. More inputs are added up in
// cache blocks that stay in the first-level cache, as are f16 and bf16, which become f32 first.

namespace muster {
namespace {

constexpr size_t kBlock = 1024;

// Element types. Memory has any alignment and may have been written as any type; template arguments
// would lose that attribute, hence one struct per type. Integers are added and multiplied unsigned,
// so that they wrap, and compared and divided signed.
struct Float {
  using Value = float;
  using Memory = float __attribute__((aligned(1), may_alias));
};
struct Double {
  using Value = double;
  using Memory = double __attribute__((aligned(1), may_alias));
};
struct Word {
  using Value = int32_t;
  using Memory = int32_t __attribute__((aligned(1), may_alias));
};
struct Long {
  using Value = int64_t;
  using Memory = int64_t __attribute__((aligned(1), may_alias));
};
struct WrappingWord {
  using Value = uint32_t;
  using Memory = uint32_t __attribute__((aligned(1), may_alias));
};
struct WrappingLong {
  using Value = uint64_t;
  using Memory = uint64_t __attribute__((aligned(1), may_alias));
};
struct Byte {
  using Value = uint8_t;
  using Memory = uint8_t __attribute__((may_alias));
};
using Bits16 = uint16_t __attribute__((aligned(1), may_alias));

struct Add {
  template <typename V>
  static MUSTER_ALWAYS_INLINE V Join(V a, V b) {
    return static_cast<V>(a + b);
  }
};

struct Multiply {
  template <typename V>
  static MUSTER_ALWAYS_INLINE V Join(V a, V b) {
    return static_cast<V>(a * b);
  }
};

// Returns the first operand if it is a NaN; a NaN as the second operand makes the comparison false.
struct Smaller {
  template <typename V>
  static MUSTER_ALWAYS_INLINE V Join(V a, V b) {
    return ((a < b) | (a != a)) ? a : b;
  }
};

struct Larger {
  template <typename V>
  static MUSTER_ALWAYS_INLINE V Join(V a, V b) {
    return ((a > b) | (a != a)) ? a : b;
  }
};

struct And {
  template <typename V>
  static MUSTER_ALWAYS_INLINE V Join(V a, V b) {
    return a & b;
  }
};

struct Or {
  template <typename V>
  static MUSTER_ALWAYS_INLINE V Join(V a, V b) {
    return a | b;
  }
};

struct Xor {
  template <typename V>
  static MUSTER_ALWAYS_INLINE V Join(V a, V b) {
    return a ^ b;
  }
};

struct Keep {
  template <typename V>
  static MUSTER_ALWAYS_INLINE V Finish(V value, int) {
    return value;
  }
};

// Divides as type `As`, which is signed if an unsigned sum stands for a signed number.
template <typename As>
struct Divide {
  template <typename V>
  static MUSTER_ALWAYS_INLINE V Finish(V value, int divisor) {
    return static_cast<V>(static_cast<As>(value) / static_cast<As>(divisor));
  }
};

// out[i] = in[0][i] ⊕ … ⊕ in[kInputs-1][i], finished.
template <typename T, typename Op, typename End, int kInputs>
MUSTER_ALWAYS_INLINE void Fused(const typename T::Memory* const* in, size_t count, int divisor,
                                typename T::Memory* out) {
  using Memory = typename T::Memory;
  using Value = typename T::Value;
  const Memory* a = in[0];
  const Memory* b = in[kInputs > 1 ? 1 : 0];
  const Memory* c = in[kInputs > 2 ? 2 : 0];
  const Memory* d = in[kInputs > 3 ? 3 : 0];
  MUSTER_INDEPENDENT_ITERATIONS
  for (size_t i = 0; i < count; ++i) {
    Value value = a[i];
    if constexpr (kInputs > 1) value = Op::template Join<Value>(value, b[i]);
    if constexpr (kInputs > 2) value = Op::template Join<Value>(value, c[i]);
    if constexpr (kInputs > 3) value = Op::template Join<Value>(value, d[i]);
    out[i] = End::template Finish<Value>(value, divisor);
  }
}

template <typename T, typename Op, typename End>
MUSTER_ALWAYS_INLINE void UpToFour(const typename T::Memory* const* in, size_t inputs, size_t count,
                                   int divisor, typename T::Memory* out) {
  switch (inputs) {
    case 1:
      return Fused<T, Op, End, 1>(in, count, divisor, out);
    case 2:
      return Fused<T, Op, End, 2>(in, count, divisor, out);
    case 3:
      return Fused<T, Op, End, 3>(in, count, divisor, out);
    default:
      return Fused<T, Op, End, 4>(in, count, divisor, out);
  }
}

template <typename T, typename Op, typename End>
void Reduce(const void* const* inputs, size_t input_count, size_t begin, size_t count, int divisor,
            void* out) {
  using Memory = typename T::Memory;
  Memory* const result = static_cast<Memory*>(out);
  const size_t direct = input_count <= 4 ? input_count : 4;
  // Up to four inputs take one pass; cache blocks are for more.
  const size_t block = input_count <= 4 ? count : kBlock;
  alignas(64) typename T::Value sum[kBlock];
  for (size_t done = 0; done < count; done += block) {
    const size_t length = count - done < block ? count - done : block;
    const Memory* in[4];
    for (size_t k = 0; k < direct; ++k) {
      in[k] = static_cast<const Memory*>(inputs[k]) + begin + done;
    }
    if (input_count <= 4) {
      UpToFour<T, Op, End>(in, input_count, length, divisor, result + done);
      continue;
    }
    Fused<T, Op, Keep, 4>(in, length, divisor, sum);
    // Then three at a time, after the sum so far; the last ones finish it.
    in[0] = sum;
    for (size_t next = 4; next < input_count;) {
      const size_t terms = input_count - next < 3 ? input_count - next : 3;
      for (size_t k = 0; k < terms; ++k) {
        in[1 + k] = static_cast<const Memory*>(inputs[next + k]) + begin + done;
      }
      next += terms;
      if (next < input_count) {
        Fused<T, Op, Keep, 4>(in, length, divisor, sum);
      } else {
        UpToFour<T, Op, End>(in, 1 + terms, length, divisor, result + done);
      }
    }
  }
}

struct Bf16 {
  static MUSTER_ALWAYS_INLINE void Widen(const Bits16* in, size_t count, float* out) {
    for (size_t i = 0; i < count; ++i) out[i] = F32OfBf16(in[i]);
  }
  static MUSTER_ALWAYS_INLINE void Narrow(const float* in, size_t count, Bits16* out) {
    for (size_t i = 0; i < count; ++i) out[i] = Bf16OfF32(in[i]);
  }
};

struct F16 {
  static MUSTER_ALWAYS_INLINE void Widen(const Bits16* in, size_t count, float* out) {
    size_t i = 0;
#if defined(__F16C__) && defined(__AVX2__)
    for (; i + 8 <= count; i += 8) {
      const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i));
      _mm256_storeu_ps(out + i, _mm256_cvtph_ps(bits));
    }
#endif
    for (; i < count; ++i) out[i] = F32OfF16(in[i]);
  }
  static MUSTER_ALWAYS_INLINE void Narrow(const float* in, size_t count, Bits16* out) {
    size_t i = 0;
#if defined(__F16C__) && defined(__AVX2__)
    for (; i + 8 <= count; i += 8) {
      const __m128i bits = _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), bits);
    }
#endif
    for (; i < count; ++i) out[i] = F16OfF32(in[i]);
  }
};

template <typename T, typename Op, typename End>
void ReduceHalf(const void* const* inputs, size_t input_count, size_t begin, size_t count,
                int divisor, void* out) {
  alignas(64) float sum[kBlock];
  alignas(64) float term[kBlock];
  for (size_t done = 0; done < count; done += kBlock) {
    const size_t length = count - done < kBlock ? count - done : kBlock;
    const auto at = [&](size_t k) { return static_cast<const Bits16*>(inputs[k]) + begin + done; };
    T::Widen(at(0), length, sum);
    for (size_t k = 1; k < input_count; ++k) {
      T::Widen(at(k), length, term);
      const Float::Memory* both[] = {sum, term};
      Fused<Float, Op, Keep, 2>(both, length, divisor, sum);
    }
    const Float::Memory* finished[] = {sum};
    Fused<Float, Op, End, 1>(finished, length, divisor, sum);
    T::Narrow(sum, length, static_cast<Bits16*>(out) + done);
  }
}

constexpr ReduceTable MakeReduceTable(const char* name) {
  return {
      name,
      {
          {Reduce<Float, Add, Keep>, Reduce<Float, Add, Divide<float>>,
           Reduce<Float, Smaller, Keep>, Reduce<Float, Larger, Keep>, Reduce<Float, Multiply, Keep>,
           nullptr, nullptr, nullptr},
          {Reduce<Double, Add, Keep>, Reduce<Double, Add, Divide<double>>,
           Reduce<Double, Smaller, Keep>, Reduce<Double, Larger, Keep>,
           Reduce<Double, Multiply, Keep>, nullptr, nullptr, nullptr},
          {ReduceHalf<F16, Add, Keep>, ReduceHalf<F16, Add, Divide<float>>,
           ReduceHalf<F16, Smaller, Keep>, ReduceHalf<F16, Larger, Keep>,
           ReduceHalf<F16, Multiply, Keep>, nullptr, nullptr, nullptr},
          {ReduceHalf<Bf16, Add, Keep>, ReduceHalf<Bf16, Add, Divide<float>>,
           ReduceHalf<Bf16, Smaller, Keep>, ReduceHalf<Bf16, Larger, Keep>,
           ReduceHalf<Bf16, Multiply, Keep>, nullptr, nullptr, nullptr},
          {Reduce<WrappingWord, Add, Keep>, Reduce<WrappingWord, Add, Divide<int32_t>>,
           Reduce<Word, Smaller, Keep>, Reduce<Word, Larger, Keep>,
           Reduce<WrappingWord, Multiply, Keep>, Reduce<WrappingWord, And, Keep>,
           Reduce<WrappingWord, Or, Keep>, Reduce<WrappingWord, Xor, Keep>},
          {Reduce<WrappingLong, Add, Keep>, Reduce<WrappingLong, Add, Divide<int64_t>>,
           Reduce<Long, Smaller, Keep>, Reduce<Long, Larger, Keep>,
           Reduce<WrappingLong, Multiply, Keep>, Reduce<WrappingLong, And, Keep>,
           Reduce<WrappingLong, Or, Keep>, Reduce<WrappingLong, Xor, Keep>},
          {Reduce<Byte, Add, Keep>, Reduce<Byte, Add, Divide<int32_t>>, Reduce<Byte, Smaller, Keep>,
           Reduce<Byte, Larger, Keep>, Reduce<Byte, Multiply, Keep>, Reduce<Byte, And, Keep>,
           Reduce<Byte, Or, Keep>, Reduce<Byte, Xor, Keep>},
      }};
}

}  // namespace
}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_REDUCE_REDUCE_LOOPS_H_
