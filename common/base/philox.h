#ifndef MUSTER_COMMON_BASE_PHILOX_H_
#define MUSTER_COMMON_BASE_PHILOX_H_

#include <array>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace muster {

// Counter-based generator Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As
// Easy as 1, 2, 3", SC 2011). A value is a pure function of (key, counter), so any process that
// knows both makes the same one, in any order; there is no state to save. Thread-safe, cheap to
// copy.
class Philox {
 public:
  explicit Philox(uint64_t key) : key_(key) {}

  // Makes a generator for one use, keyed by the job's seed, the purpose ("init", "shuffle",
  // "dropout") and a logical name. Never key by rank.
  Philox(uint64_t seed, absl::string_view purpose, absl::string_view name);

  // Returns 128 random bits for a counter.
  std::array<uint32_t, 4> At(uint64_t low, uint64_t high = 0) const;

  // Returns 64 random bits for a counter.
  uint64_t Uint64(uint64_t low, uint64_t high = 0) const;

  // Returns a uniform number in [0, 1) with 24 random bits.
  float Uniform(uint64_t low, uint64_t high = 0) const;

  // Returns a normal number with mean 0 and variance 1 (Box-Muller).
  float Normal(uint64_t low, uint64_t high = 0) const;

  // Returns a number in [0, bound) with negligible bias (multiply-shift of 64 bits). REQUIRES:
  // bound > 0.
  uint64_t Below(uint64_t bound, uint64_t low, uint64_t high = 0) const;

 private:
  uint64_t key_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_BASE_PHILOX_H_
