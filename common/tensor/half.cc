#include "common/tensor/half.h"

#include <cstring>

#include "common/base/machine/simd_clones.h"
#include "common/tensor/float16.h"
#include "common/tensor/half_kernels.h"

namespace muster {
namespace {

// One of the two types, for loops that are compiled once for each.
struct Bf16 {
  static constexpr uint32_t kInfinity = 0x7f80;

  MUSTER_ALWAYS_INLINE static uint16_t Round(float value) { return Bf16OfF32(value); }
  MUSTER_ALWAYS_INLINE static float Widen(uint16_t bits) { return F32OfBf16(bits); }
  // Of a value's magnitude; `random` has 32 bits, of which the lower half serves.
  MUSTER_ALWAYS_INLINE static uint32_t RoundMagnitude(uint32_t magnitude, uint32_t random) {
    return (magnitude + (random & 0xffff)) >> 16;
  }
};

struct F16 {
  static constexpr uint32_t kInfinity = 0x7c00;

  MUSTER_ALWAYS_INLINE static uint16_t Round(float value) { return F16OfF32(value); }
  MUSTER_ALWAYS_INLINE static float Widen(uint16_t bits) { return F32OfF16(bits); }
  MUSTER_ALWAYS_INLINE static uint32_t RoundMagnitude(uint32_t magnitude, uint32_t random) {
    random &= 0x1fff;
    // 2^16 and above; what follows would wrap around.
    const uint32_t limited = magnitude < 0x47800000 ? magnitude : 0x47800000;
    const uint32_t normal = (limited + random - (112u << 23)) >> 13;
    // Below 2^-14 numbers are units of 2^-24: here 13 bits more, and those are rounded away.
    const float tiny = limited < 0x38800000 ? F32OfBits(limited) : 0.0f;
    const uint32_t units = static_cast<uint32_t>(static_cast<int32_t>(tiny * 0x1p37f));
    const uint32_t small = (units + random) >> 13;
    return limited < 0x38800000 ? small : normal;
  }
};

// A function of both that is as good as random for neighbours in either (the finaliser of
// MurmurHash3).
MUSTER_ALWAYS_INLINE uint32_t RandomBits(uint32_t low, uint32_t high, uint32_t i) {
  uint32_t x = i * 0x9e3779b9u + low;
  x = (x ^ (x >> 16)) * 0x85ebca6bu;
  x ^= high;
  x = (x ^ (x >> 13)) * 0xc2b2ae35u;
  return x ^ (x >> 16);
}

MUSTER_ALWAYS_INLINE uint16_t Load(const std::byte* bits, size_t i) {
  uint16_t value;
  std::memcpy(&value, bits + i * sizeof(value), sizeof(value));
  return value;
}

template <typename Half>
MUSTER_ALWAYS_INLINE void RoundLoop(size_t n, const float* __restrict values,
                                    uint16_t* __restrict bits) {
  for (size_t i = 0; i < n; ++i) bits[i] = Half::Round(values[i]);
}

template <typename Half>
MUSTER_ALWAYS_INLINE void WidenLoop(size_t n, const std::byte* __restrict bits,
                                    float* __restrict values) {
  for (size_t i = 0; i < n; ++i) values[i] = Half::Widen(Load(bits, i));
}

template <typename Half>
MUSTER_ALWAYS_INLINE void AddLoop(size_t n, const std::byte* __restrict bits,
                                  float* __restrict values) {
  for (size_t i = 0; i < n; ++i) values[i] += Half::Widen(Load(bits, i));
}

template <typename Half>
MUSTER_ALWAYS_INLINE void ResidualLoop(size_t n, const float* __restrict values,
                                       float* __restrict residual, uint16_t* __restrict bits) {
  for (size_t i = 0; i < n; ++i) {
    const float v = values[i] + residual[i];
    // All ones where v is finite.
    const uint32_t finite =
        static_cast<uint32_t>(static_cast<int32_t>((BitsOfF32(v) & 0x7fffffff) - 0x7f800000) >> 31);
    const uint32_t nearest = Half::Round(v);
    const uint32_t overflows = (nearest & 0x7fff) == Half::kInfinity ? 1 : 0;
    const uint16_t sent = static_cast<uint16_t>(nearest - (overflows & finite));
    bits[i] = sent;
    residual[i] = F32OfBits(BitsOfF32(v - Half::Widen(sent)) & finite);
  }
}

template <typename Half>
MUSTER_ALWAYS_INLINE void StochasticLoop(size_t n, const float* __restrict values, uint32_t low,
                                         uint32_t high, uint16_t* __restrict bits) {
  for (size_t i = 0; i < n; ++i) {
    const uint32_t all = BitsOfF32(values[i]);
    const uint32_t magnitude = all & 0x7fffffff;
    const uint32_t random = RandomBits(low, high, static_cast<uint32_t>(i));
    const uint32_t near = Half::RoundMagnitude(magnitude, random);
    const uint32_t limited = near < Half::kInfinity ? near : Half::kInfinity - 1;
    const uint32_t special = Half::Round(values[i]) & 0x7fffu;
    const uint32_t result = magnitude < 0x7f800000 ? limited : special;
    bits[i] = static_cast<uint16_t>((all >> 16 & 0x8000) | result);
  }
}

MUSTER_SIMD_CLONES
void RoundBf16(size_t n, const float* values, uint16_t* bits) { RoundLoop<Bf16>(n, values, bits); }
MUSTER_SIMD_CLONES
void RoundF16(size_t n, const float* values, uint16_t* bits) { RoundLoop<F16>(n, values, bits); }

MUSTER_SIMD_CLONES
void WidenBf16(size_t n, const std::byte* bits, float* values) { WidenLoop<Bf16>(n, bits, values); }
MUSTER_SIMD_CLONES
void WidenF16(size_t n, const std::byte* bits, float* values) { WidenLoop<F16>(n, bits, values); }

MUSTER_SIMD_CLONES
void AddBf16(size_t n, const std::byte* bits, float* values) { AddLoop<Bf16>(n, bits, values); }
MUSTER_SIMD_CLONES
void AddF16(size_t n, const std::byte* bits, float* values) { AddLoop<F16>(n, bits, values); }

MUSTER_SIMD_CLONES
void ResidualBf16(size_t n, const float* values, float* residual, uint16_t* bits) {
  ResidualLoop<Bf16>(n, values, residual, bits);
}
MUSTER_SIMD_CLONES
void ResidualF16(size_t n, const float* values, float* residual, uint16_t* bits) {
  ResidualLoop<F16>(n, values, residual, bits);
}

MUSTER_SIMD_CLONES
void StochasticBf16(size_t n, const float* values, uint32_t low, uint32_t high, uint16_t* bits) {
  StochasticLoop<Bf16>(n, values, low, high, bits);
}
MUSTER_SIMD_CLONES
void StochasticF16(size_t n, const float* values, uint32_t low, uint32_t high, uint16_t* bits) {
  StochasticLoop<F16>(n, values, low, high, bits);
}

constexpr HalfKernels kBf16Clones = {RoundBf16, WidenBf16, AddBf16, ResidualBf16, StochasticBf16};
constexpr HalfKernels kF16Clones = {RoundF16, WidenF16, AddF16, ResidualF16, StochasticF16};

const HalfKernels& KernelsFor(DType type) {
  static const bool avx512 = Avx512HalfKernels(type) != nullptr;
  if (avx512) return *Avx512HalfKernels(type);
  return *PortableHalfKernels(type);
}

}  // namespace

const HalfKernels* PortableHalfKernels(DType type) {
  return type == DType::kBf16 ? &kBf16Clones : &kF16Clones;
}

void RoundToHalf(DType type, absl::Span<const float> values, uint16_t* bits) {
  KernelsFor(type).round(values.size(), values.data(), bits);
}

void WidenHalf(DType type, const std::byte* bits, absl::Span<float> values) {
  KernelsFor(type).widen(values.size(), bits, values.data());
}

void AddHalf(DType type, const std::byte* bits, absl::Span<float> values) {
  KernelsFor(type).add(values.size(), bits, values.data());
}

void RoundWithResidual(DType type, absl::Span<const float> values, float* residual,
                       uint16_t* bits) {
  KernelsFor(type).round_with_residual(values.size(), values.data(), residual, bits);
}

void RoundStochastically(DType type, absl::Span<const float> values, uint64_t seed,
                         uint16_t* bits) {
  KernelsFor(type).round_stochastically(values.size(), values.data(), static_cast<uint32_t>(seed),
                                        static_cast<uint32_t>(seed >> 32), bits);
}

}  // namespace muster
