#ifndef MUSTER_COMMON_BASE_FINGERPRINT_H_
#define MUSTER_COMMON_BASE_FINGERPRINT_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/strings/string_view.h"

namespace muster {

// Returns the 64-bit XXH3: the one checksum of stored records and the one fingerprint of values to
// compare. Not cryptographic. The value is the same on all machines and in all versions.
uint64_t Fingerprint(absl::string_view bytes, uint64_t seed = 0);

// Computes the Fingerprint of several spans of bytes as if they were concatenated. Not thread-safe.
class FingerprintStream {
 public:
  FingerprintStream();
  ~FingerprintStream();

  void Add(const void* data, size_t bytes);
  uint64_t Finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Mixes all bits of a key (the finaliser of SplitMix64), so that near keys land far apart.
constexpr uint64_t MixBits(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace muster

#endif  // MUSTER_COMMON_BASE_FINGERPRINT_H_
