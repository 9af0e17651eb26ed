#include "common/tokenizer/files/trained_bits.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "common/base/round_up.h"
#include "common/base/status_macros.h"
#include "common/tokenizer/files/token_array.h"

namespace muster {
namespace {

// Bytes of equal bits that are appended at once.
constexpr uint64_t kPackBytes = 64 << 10;

}  // namespace

void TrainedBits::Restore(const State& state) {
  all_ = state.all;
  bits_ = state.bits;
  trained_ = state.trained;
  byte_ = state.byte;
}

absl::Status TrainedBits::Add(uint64_t count, bool trained) {
  if (count == 0) return absl::OkStatus();
  if (all_ && !trained) {
    all_ = false;
    const uint64_t before = std::exchange(bits_, 0);
    MUSTER_RETURN_IF_ERROR(Pack(before, true));
  }
  if (trained) trained_ += count;
  if (!all_) return Pack(count, trained);
  bits_ += count;
  return absl::OkStatus();
}

absl::Status TrainedBits::Pack(uint64_t count, bool trained) {
  while (count > 0) {
    if (bits_ % 8 == 0 && count >= 8) {
      const uint64_t bytes = std::min(count / 8, kPackBytes);
      MUSTER_RETURN_IF_ERROR(packed_.Append(std::string(bytes, trained ? '\xff' : '\0')));
      bits_ += 8 * bytes;
      count -= 8 * bytes;
      continue;
    }
    if (trained) byte_ |= static_cast<unsigned char>(1u << bits_ % 8);
    --count;
    if (++bits_ % 8 != 0) continue;
    const char byte = static_cast<char>(std::exchange(byte_, 0));
    MUSTER_RETURN_IF_ERROR(packed_.Append({&byte, 1}));
  }
  return absl::OkStatus();
}

absl::Status TrainedBits::Finish(absl::FunctionRef<absl::Status(absl::string_view packed)> take) {
  if (all_) return absl::OkStatus();
  MUSTER_RETURN_IF_ERROR(Pack((8 - bits_ % 8) % 8, false));
  return packed_.ForEach(take);
}

CheckedBits::CheckedBits(absl::string_view packed, absl::string_view checksums, std::string origin)
    : packed_(packed),
      checksums_(checksums),
      origin_(std::move(origin)),
      checked_(CeilDivide<uint64_t>(packed.size(), kTokenChunkBytes)) {}

absl::Status CheckedBits::Read(uint64_t first, uint64_t count, std::vector<uint8_t>& out) const {
  if (count == 0) return absl::OkStatus();
  const uint64_t last = (first + count - 1) / 8;
  for (uint64_t chunk = first / 8 / kTokenChunkBytes; chunk <= last / kTokenChunkBytes; ++chunk) {
    if (checked_[chunk].load(std::memory_order_relaxed)) continue;
    const uint64_t begin = chunk * kTokenChunkBytes;
    const absl::string_view bytes = packed_.substr(begin, kTokenChunkBytes);
    MUSTER_RETURN_IF_ERROR(
        CheckChunk(bytes, chunk, checksums_, origin_, 8 * begin, 8 * (begin + bytes.size())));
    checked_[chunk].store(true, std::memory_order_relaxed);
  }
  for (uint64_t i = first; i < first + count; ++i) {
    out.push_back(static_cast<unsigned char>(packed_[i / 8]) >> i % 8 & 1);
  }
  return absl::OkStatus();
}

}  // namespace muster
