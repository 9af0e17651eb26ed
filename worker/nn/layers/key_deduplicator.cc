#include "worker/nn/layers/key_deduplicator.h"

#include <algorithm>
#include <bit>

#include "common/base/fingerprint.h"

namespace muster {

void KeyDeduplicator::Build(absl::Span<const uint64_t> uses, std::vector<uint64_t>& keys,
                            std::vector<int32_t>& inverse) {
  const size_t slots = std::bit_ceil(std::max<size_t>(16, 2 * uses.size()));
  slots_.assign(slots, -1);
  keys.clear();
  inverse.resize(uses.size());
  const size_t mask = slots - 1;
  for (size_t i = 0; i < uses.size(); ++i) {
    size_t position = MixBits(uses[i]) & mask;
    while (slots_[position] >= 0 && keys[slots_[position]] != uses[i]) {
      position = (position + 1) & mask;
    }
    if (slots_[position] < 0) {
      slots_[position] = static_cast<int32_t>(keys.size());
      keys.push_back(uses[i]);
    }
    inverse[i] = slots_[position];
  }
}

}  // namespace muster
