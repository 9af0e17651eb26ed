#include "common/fuzz/mutate.h"

#include <algorithm>
#include <cstddef>

#include "common/base/philox.h"

namespace muster {

std::string Mutate(absl::string_view seed, absl::string_view target, uint64_t round) {
  static constexpr char kTelling[] = "\0\n\r\",:+-.0129eENna#{}[]\x08\x1f\x7f\x80\x8b\xff\t ";
  const Philox random(1, "fuzz", target);
  std::string bytes(seed);
  uint64_t draw = 0;
  const auto below = [&](uint64_t bound) { return random.Below(bound, round, draw++); };
  const uint64_t edits = 1 + below(4);
  for (uint64_t edit = 0; edit < edits && !bytes.empty(); ++edit) {
    const size_t at = below(bytes.size());
    const size_t length = 1 + below(std::min<size_t>(8, bytes.size() - at));
    const char byte =
        below(2) == 0 ? kTelling[below(sizeof(kTelling) - 1)] : static_cast<char>(below(256));
    switch (below(5)) {
      case 0:
        bytes[at] = byte;
        break;
      case 1:
        bytes.erase(at, length);
        break;
      case 2:
        bytes.insert(at, bytes.substr(at, length));
        break;
      case 3:
        bytes.insert(at, 1, byte);
        break;
      case 4:
        bytes.resize(at);
        break;
    }
  }
  return bytes;
}

}  // namespace muster
