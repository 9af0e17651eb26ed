#include "worker/collectives/reduce/reduce_kernels.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/tensor/float16.h"
#include "gtest/gtest.h"
#include "worker/collectives/reduce/reduce_table.h"

namespace muster {
namespace {

constexpr DType kTypes[] = {DType::kF32,   DType::kF64,   DType::kF16,  DType::kBf16,
                            DType::kInt32, DType::kInt64, DType::kUint8};
constexpr Reduction kReductions[] = {Reduction::kSum,   Reduction::kAvg,   Reduction::kMin,
                                     Reduction::kMax,   Reduction::kProd,  Reduction::kBitAnd,
                                     Reduction::kBitOr, Reduction::kBitXor};
constexpr int kDivisor = 3;

template <typename T>
T Read(const std::byte* bytes, size_t index) {
  T value;
  std::memcpy(&value, bytes + index * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void Write(std::byte* bytes, size_t index, T value) {
  std::memcpy(bytes + index * sizeof(T), &value, sizeof(T));
}

// One after the other, in the type that accumulates.
template <typename T>
T JoinFloat(Reduction reduction, T a, T b) {
  switch (reduction) {
    case Reduction::kSum:
    case Reduction::kAvg:
      return a + b;
    case Reduction::kProd:
      return a * b;
    case Reduction::kMin:
      return std::isnan(a) || std::isnan(b) ? a + b : (a < b ? a : b);
    case Reduction::kMax:
      return std::isnan(a) || std::isnan(b) ? a + b : (a > b ? a : b);
    default:
      break;  // Only integers have those of bits.
  }
  return a;
}

// T's arithmetic modulo its range, by way of 128 bits.
template <typename T>
T JoinInteger(Reduction reduction, T a, T b) {
  switch (reduction) {
    case Reduction::kSum:
    case Reduction::kAvg:
      return static_cast<T>(static_cast<__int128>(a) + b);
    case Reduction::kProd:
      return static_cast<T>(static_cast<__int128>(a) * b);
    case Reduction::kMin:
      return std::min(a, b);
    case Reduction::kMax:
      return std::max(a, b);
    case Reduction::kBitAnd:
      return a & b;
    case Reduction::kBitOr:
      return a | b;
    case Reduction::kBitXor:
      return a ^ b;
  }
  return a;
}

template <typename T, typename Join>
T Fold(Reduction reduction, const std::vector<T>& terms, Join join) {
  T value = terms[0];
  for (size_t k = 1; k < terms.size(); ++k) value = join(reduction, value, terms[k]);
  if (reduction == Reduction::kAvg) value = static_cast<T>(value / static_cast<T>(kDivisor));
  return value;
}

// Writes the expected element `index` to `out`.
void Reference(DType type, Reduction reduction, const std::vector<const std::byte*>& inputs,
               size_t index, std::byte* out) {
  const auto terms = [&]<typename T>(T) {
    std::vector<T> values;
    for (const std::byte* in : inputs) values.push_back(Read<T>(in, index));
    return values;
  };
  const auto widened = [&](float (*widen)(uint16_t)) {
    std::vector<float> values;
    for (const std::byte* in : inputs) values.push_back(widen(Read<uint16_t>(in, index)));
    return values;
  };
  switch (type) {
    case DType::kF32:
      return Write(out, index, Fold(reduction, terms(0.0f), JoinFloat<float>));
    case DType::kF64:
      return Write(out, index, Fold(reduction, terms(0.0), JoinFloat<double>));
    case DType::kF16: {
      const auto widen = [](uint16_t bits) { return F32OfF16(bits); };
      return Write(out, index, F16OfF32(Fold(reduction, widened(widen), JoinFloat<float>)));
    }
    case DType::kBf16: {
      const auto widen = [](uint16_t bits) { return F32OfBf16(bits); };
      return Write(out, index, Bf16OfF32(Fold(reduction, widened(widen), JoinFloat<float>)));
    }
    case DType::kInt32:
      return Write(out, index, Fold(reduction, terms(int32_t{0}), JoinInteger<int32_t>));
    case DType::kInt64:
      return Write(out, index, Fold(reduction, terms(int64_t{0}), JoinInteger<int64_t>));
    case DType::kUint8:
      return Write(out, index, Fold(reduction, terms(uint8_t{0}), JoinInteger<uint8_t>));
  }
}

// Numbers near 1 of both signs, now and then large, infinite, subnormal or NaN; integers of all
// bits.
void Fill(DType type, std::mt19937& random, std::byte* out, size_t count) {
  std::normal_distribution<float> normal;
  const auto number = [&] {
    switch (random() % 32) {
      case 0:
        return std::numeric_limits<float>::quiet_NaN();
      case 1:
        return std::numeric_limits<float>::infinity();
      case 2:
        return 3e38f;
      case 3:
        return -1e-40f;
      case 4:
        return 6e-6f;
      case 5:
        return -0.0f;
      default:
        return normal(random);
    }
  };
  for (size_t i = 0; i < count; ++i) {
    switch (type) {
      case DType::kF32:
        Write(out, i, number());
        break;
      case DType::kF64:
        Write(out, i, number() * 1.000000001);
        break;
      case DType::kF16:
        Write(out, i, F16OfF32(number()));
        break;
      case DType::kBf16:
        Write(out, i, Bf16OfF32(number()));
        break;
      case DType::kInt32:
      case DType::kInt64:
      case DType::kUint8:
        for (size_t b = 0; b < SizeOf(type); ++b) {
          out[i * SizeOf(type) + b] = static_cast<std::byte>(random());
        }
        break;
    }
  }
}

bool IsNan(DType type, const std::byte* bytes, size_t index) {
  switch (type) {
    case DType::kF32:
      return std::isnan(Read<float>(bytes, index));
    case DType::kF64:
      return std::isnan(Read<double>(bytes, index));
    case DType::kF16:
      return std::isnan(F32OfF16(Read<uint16_t>(bytes, index)));
    case DType::kBf16:
      return std::isnan(F32OfBf16(Read<uint16_t>(bytes, index)));
    default:
      return false;
  }
}

// Returns the first index at which the bits differ, NaNs' payloads apart, or -1.
int FirstDifference(DType type, const std::byte* a, const std::byte* b, size_t count) {
  const size_t size = SizeOf(type);
  for (size_t i = 0; i < count; ++i) {
    if (IsNan(type, a, i) && IsNan(type, b, i)) continue;
    if (std::memcmp(a + i * size, b + i * size, size) != 0) return static_cast<int>(i);
  }
  return -1;
}

// Some inputs, `offset` bytes from an aligned address (and input k another k bytes).
struct Inputs {
  Inputs(DType type, size_t inputs, size_t count, size_t offset, uint32_t seed) {
    std::mt19937 random(seed);
    for (size_t k = 0; k < inputs; ++k) {
      memory.emplace_back(count * SizeOf(type) + 128);
      at.push_back(memory.back().data() + (offset == 0 ? 0 : offset + k));
      Fill(type, random, memory.back().data() + (at.back() - memory.back().data()), count);
    }
  }

  std::vector<const void*> pointers() const { return {at.begin(), at.end()}; }
  std::byte* mutable_at(size_t k) { return const_cast<std::byte*>(at[k]); }

  std::vector<std::vector<std::byte>> memory;
  std::vector<const std::byte*> at;
};

class ReduceKernelsTest : public testing::TestWithParam<std::tuple<DType, Reduction>> {
 protected:
  void SetUp() override {
    const bool integer =
        type() == DType::kInt32 || type() == DType::kInt64 || type() == DType::kUint8;
    if (IsBitwise(reduction()) && !integer) GTEST_SKIP() << "only integers have bits";
  }
  DType type() const { return std::get<0>(GetParam()); }
  Reduction reduction() const { return std::get<1>(GetParam()); }
  ReduceOp op() const { return {.dtype = type(), .reduction = reduction(), .divisor = kDivisor}; }

  std::vector<std::byte> Expected(const Inputs& inputs, size_t count) const {
    std::vector<std::byte> expected(count * SizeOf(type()));
    for (size_t i = 0; i < count; ++i) {
      Reference(type(), reduction(), inputs.at, i, expected.data());
    }
    return expected;
  }
};

TEST_P(ReduceKernelsTest, EqualsOneByOne) {
  for (size_t inputs = 1; inputs <= 9; ++inputs) {
    for (size_t count : {0, 1, 2, 3, 7, 8, 31, 64, 1023, 1025, 2100}) {
      for (size_t offset : {0, 1, 8}) {
        SCOPED_TRACE(absl::StrCat(inputs, " inputs of ", count, ", offset ", offset));
        const Inputs in(type(), inputs, count, offset, inputs * count + offset);
        const std::vector<std::byte> expected = Expected(in, count);
        // Nothing is written around the output.
        const size_t bytes = count * SizeOf(type());
        std::vector<std::byte> out(bytes + 64, std::byte{0x5a});
        ReduceInto(op(), in.pointers(), count, out.data() + 16 + offset);
        ASSERT_EQ(FirstDifference(type(), out.data() + 16 + offset, expected.data(), count), -1);
        for (size_t i = 0; i < 16 + offset; ++i) ASSERT_EQ(out[i], std::byte{0x5a});
        for (size_t i = 16 + offset + bytes; i < out.size(); ++i) {
          ASSERT_EQ(out[i], std::byte{0x5a});
        }
      }
    }
  }
}

TEST_P(ReduceKernelsTest, OutputMayBeAnyOfTheInputs) {
  constexpr size_t kCount = 2077;
  for (size_t inputs : {1, 2, 3, 4, 5, 8}) {
    for (size_t target = 0; target < inputs; ++target) {
      for (size_t offset : {0, 1}) {
        SCOPED_TRACE(absl::StrCat(inputs, " inputs, into ", target, ", offset ", offset));
        Inputs in(type(), inputs, kCount, offset, inputs + target);
        const std::vector<std::byte> expected = Expected(in, kCount);
        ReduceInto(op(), in.pointers(), kCount, in.mutable_at(target));
        ASSERT_EQ(FirstDifference(type(), in.at[target], expected.data(), kCount), -1);
      }
    }
  }
}

TEST_P(ReduceKernelsTest, EveryOutputGetsTheSame) {
  for (bool streaming : {false, true}) {
    for (size_t count : {0, 1, 5, 100, 9001}) {
      for (size_t offset : {0, 1, 8}) {
        SCOPED_TRACE(absl::StrCat(count, " elements, offset ", offset));
        Inputs in(type(), 3, count, offset, count);
        const std::vector<std::byte> expected = Expected(in, count);
        const size_t bytes = count * SizeOf(type());
        std::vector<std::byte> a(bytes + 64, std::byte{0x5a}), b(a);
        ReduceOp op = this->op();
        op.streaming = streaming;
        // The third one is in place.
        void* const outs[] = {a.data() + offset, b.data() + 7, in.mutable_at(1)};
        ReduceIntoAll(op, in.pointers(), count, outs);
        for (const void* out : outs) {
          ASSERT_EQ(
              FirstDifference(type(), static_cast<const std::byte*>(out), expected.data(), count),
              -1);
        }
        for (size_t i = offset + bytes; i < a.size(); ++i) ASSERT_EQ(a[i], std::byte{0x5a});
      }
    }
  }
}

TEST_P(ReduceKernelsTest, EveryInstructionSetGivesTheSameBits) {
  constexpr size_t kCount = 3001;
  const std::string best = ReduceInstructionSet();
  for (size_t inputs : {1, 2, 3, 4, 7}) {
    const Inputs in(type(), inputs, kCount, 0, inputs);
    const std::vector<std::byte> expected = Expected(in, kCount);
    for (const ReduceTable* table :
         {BaselineReduceTable(), Avx2ReduceTable(), Avx512ReduceTable()}) {
      // Those that this machine has.
      if (table == nullptr || (best != "avx512" && table->name == std::string("avx512")) ||
          (best == "baseline" && table->name != best)) {
        continue;
      }
      std::vector<std::byte> out(expected.size());
      table->functions[static_cast<int>(type())][static_cast<int>(reduction())](
          in.pointers().data(), inputs, 0, kCount, kDivisor, out.data());
      EXPECT_EQ(FirstDifference(type(), out.data(), expected.data(), kCount), -1) << table->name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ReduceKernelsTest,
                         testing::Combine(testing::ValuesIn(kTypes),
                                          testing::ValuesIn(kReductions)),
                         [](const testing::TestParamInfo<std::tuple<DType, Reduction>>& info) {
                           return absl::StrCat(Name(std::get<0>(info.param)),
                                               Name(std::get<1>(info.param)));
                         });

TEST(ReduceTest, HalvesAreRoundedOnce) {
  // 1 + 2^-11 + 2^-11 is 1 + 2^-10 if only the end is rounded, and 1 if each step is.
  const uint16_t one = F16OfF32(1), small = F16OfF32(0x1p-11f);
  const void* inputs[] = {&one, &small, &small};
  uint16_t out = 0;
  ReduceInto({.dtype = DType::kF16}, inputs, 1, &out);
  EXPECT_EQ(F32OfF16(out), 1 + 0x1p-10f);
}

TEST(ReduceTest, AdditionIsFromTheLeft) {
  const float large = 1e8f, minus = -1e8f, one = 1;
  float out = 0;
  const void* early[] = {&large, &minus, &one};
  ReduceInto({}, early, 1, &out);
  EXPECT_EQ(out, 1);
  const void* late[] = {&one, &large, &minus};
  ReduceInto({}, late, 1, &out);
  EXPECT_EQ(out, 0);
}

TEST(ReduceTest, IntegersWrapAndAreDividedTowardsZero) {
  const int32_t most = std::numeric_limits<int32_t>::max(), one = 1;
  int32_t out = 0;
  const void* wrapping[] = {&most, &one};
  ReduceInto({.dtype = DType::kInt32}, wrapping, 1, &out);
  EXPECT_EQ(out, std::numeric_limits<int32_t>::min());
  const int32_t minus = -4, zero = 0;
  const void* negative[] = {&minus, &one, &zero};
  ReduceInto({.dtype = DType::kInt32, .reduction = Reduction::kAvg, .divisor = 2}, negative, 1,
             &out);
  EXPECT_EQ(out, -1);
  const uint8_t a = 200, b = 100;
  uint8_t byte = 0;
  const void* bytes[] = {&a, &b};
  ReduceInto({.dtype = DType::kUint8, .reduction = Reduction::kAvg, .divisor = 300}, bytes, 1,
             &byte);
  EXPECT_EQ(byte, 0);
}

}  // namespace
}  // namespace muster
