#ifndef MUSTER_WORKER_DATA_SAMPLING_PERMUTATION_H_
#define MUSTER_WORKER_DATA_SAMPLING_PERMUTATION_H_

#include <array>
#include <cstdint>

namespace muster {

// A pseudo-random permutation of [0, n). Takes constant memory, and maps any position by itself.
//
// A Feistel network permutes the numbers of 2k bits, the smallest such domain that holds n (at
// least 6 bits). Each round replaces (left, right) by (right, left ^ F(key, right)), which can be
// undone for any F. A position that lands outside [0, n) is mapped again until it lands inside.
// Since the network is a bijection, so is this walk on [0, n) (Black and Rogaway, "Ciphers with
// Arbitrary Finite Domains", CT-RSA 2002, section 3). The domain is less than 4 n for n > 16, so a
// position takes fewer than 4 walks of 8 rounds on average.
//
// Immutable, so thread-safe; cheap to copy.
class Permutation {
 public:
  // Makes the permutation of [0, n) for (seed, epoch). REQUIRES: 0 < n <= 2^62.
  Permutation(uint64_t seed, uint64_t epoch, int64_t n);

  // Returns where a position is mapped. REQUIRES: position in [0, n).
  int64_t operator()(int64_t position) const;

 private:
  static constexpr int kRounds = 8;

  uint64_t n_;
  int half_bits_;
  std::array<uint64_t, kRounds> keys_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_SAMPLING_PERMUTATION_H_
