#include "worker/data/sampling/permutation.h"

#include <algorithm>

#include "common/base/fingerprint.h"
#include "common/base/philox.h"

namespace muster {
namespace {

// The smallest domain. With 2 + 2 bits some permutations of 2 or 3 examples are visibly rarer than
// others for any number of rounds; with 3 + 3 bits and 8 rounds no bias shows over 200,000 epochs.
constexpr int kLeastHalfBits = 3;

}  // namespace

Permutation::Permutation(uint64_t seed, uint64_t epoch, int64_t n)
    : n_(static_cast<uint64_t>(n)), half_bits_(kLeastHalfBits) {
  while ((uint64_t{1} << (2 * half_bits_)) < n_) ++half_bits_;
  const Philox keys(seed, "shuffle", "examples");
  for (int round = 0; round < kRounds; ++round) keys_[round] = keys.Uint64(epoch, round);
}

int64_t Permutation::operator()(int64_t position) const {
  const uint64_t half_mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t x = static_cast<uint64_t>(position);
  do {
    uint64_t left = x >> half_bits_;
    uint64_t right = x & half_mask;
    for (const uint64_t key : keys_) {
      // The high bits are mixed better.
      const uint64_t mixed = MixBits(right + key) >> (64 - half_bits_);
      const uint64_t next = left ^ mixed;
      left = right;
      right = next;
    }
    x = left << half_bits_ | right;
  } while (x >= n_);
  return static_cast<int64_t>(x);
}

}  // namespace muster
