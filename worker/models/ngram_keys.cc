#include "worker/models/ngram_keys.h"

#include "common/base/fingerprint.h"

namespace muster {
namespace {

// 2^64 divided by the golden ratio: odd, with bits that look random.
constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;

}  // namespace

void NgramKeys(absl::Span<const int32_t> tokens, uint64_t buckets, absl::Span<uint64_t> keys) {
  uint64_t hash = kGolden;
  for (size_t o = 1; o <= keys.size(); ++o) {
    const uint64_t symbol = static_cast<uint64_t>(tokens[tokens.size() - o] + 1);
    hash = MixBits((hash ^ symbol) + kGolden);
    const uint64_t key = MixBits(hash + o * kGolden);
    keys[o - 1] =
        buckets == 0
            ? key
            : (o - 1) * buckets +
                  static_cast<uint64_t>((static_cast<unsigned __int128>(key) * buckets) >> 64);
  }
}

}  // namespace muster
