#include "common/base/philox.h"

#include <cmath>
#include <numbers>

#include "common/base/fingerprint.h"

namespace muster {
namespace {

constexpr uint32_t kMultiplier0 = 0xD2511F53;
constexpr uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9;
constexpr uint32_t kWeyl1 = 0xBB67AE85;
constexpr int kRounds = 10;

float UnitInterval(uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }

}  // namespace

Philox::Philox(uint64_t seed, absl::string_view purpose, absl::string_view name)
    : key_(Fingerprint(name, Fingerprint(purpose, seed))) {}

std::array<uint32_t, 4> Philox::At(uint64_t low, uint64_t high) const {
  std::array<uint32_t, 4> x = {static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32),
                               static_cast<uint32_t>(high), static_cast<uint32_t>(high >> 32)};
  uint32_t key0 = static_cast<uint32_t>(key_);
  uint32_t key1 = static_cast<uint32_t>(key_ >> 32);
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t product0 = uint64_t{kMultiplier0} * x[0];
    const uint64_t product1 = uint64_t{kMultiplier1} * x[2];
    x = {static_cast<uint32_t>(product1 >> 32) ^ x[1] ^ key0, static_cast<uint32_t>(product1),
         static_cast<uint32_t>(product0 >> 32) ^ x[3] ^ key1, static_cast<uint32_t>(product0)};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return x;
}

uint64_t Philox::Uint64(uint64_t low, uint64_t high) const {
  const auto x = At(low, high);
  return uint64_t{x[1]} << 32 | x[0];
}

float Philox::Uniform(uint64_t low, uint64_t high) const { return UnitInterval(At(low, high)[0]); }

float Philox::Normal(uint64_t low, uint64_t high) const {
  const auto x = At(low, high);
  // 1 - u lies in (0, 1], so that the logarithm is finite.
  const float radius = std::sqrt(-2.0f * std::log(1.0f - UnitInterval(x[0])));
  return radius * std::cos(2.0f * std::numbers::pi_v<float> * UnitInterval(x[1]));
}

uint64_t Philox::Below(uint64_t bound, uint64_t low, uint64_t high) const {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(Uint64(low, high)) * bound) >> 64);
}

}  // namespace muster
