#include "common/parquet/bit_packing.h"

#include <algorithm>
#include <cstring>

namespace muster {
namespace {

// Blocks with more numbers than any writer makes are refused: with a difference that is the same
// everywhere, a block takes a few bytes.
constexpr uint64_t kMostBlockNumbers = uint64_t{1} << 14;
constexpr int kMostDeltaBits = 64;

uint64_t MaskOf(int width) { return width == 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1; }

uint64_t Unzigzag(uint64_t value) { return value >> 1 ^ (0 - (value & 1)); }

}  // namespace

uint64_t BitsAt(absl::string_view bytes, uint64_t first, int width) {
  const uint64_t begin = first / 8;
  const int shift = static_cast<int>(first % 8);
  if (begin >= bytes.size()) return 0;
  uint64_t low = 0;
  std::memcpy(&low, bytes.data() + begin, std::min<size_t>(sizeof(low), bytes.size() - begin));
  low >>= shift;
  // A ninth byte has the highest bits of wide numbers.
  if (shift + width > 64 && begin + 8 < bytes.size()) {
    low |= uint64_t{static_cast<unsigned char>(bytes[begin + 8])} << (64 - shift);
  }
  return low & MaskOf(width);
}

bool TakeVarint(absl::string_view& bytes, uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= uint64_t{byte & 0x7fu} << shift;
    if ((byte & 0x80) == 0) return true;
  }
  return false;
}

bool RunDecoder::BeginRun() {
  while (left_ == 0) {
    uint64_t head = 0;
    if (!TakeVarint(rest_, head)) return false;
    is_packed_ = (head & 1) == 1;
    left_ = head >> 1;
    if (is_packed_) {
      // Each of these groups has 8 numbers, so `width` bytes. The last one may be cut off.
      const uint64_t groups = left_;
      if (groups > UINT32_MAX) return false;
      const uint64_t bytes = std::min<uint64_t>(groups * width_, rest_.size());
      packed_ = rest_.substr(0, bytes);
      left_ = width_ == 0 ? groups * 8 : bytes * 8 / width_;
      rest_.remove_prefix(bytes);
      bit_ = 0;
    } else {
      const size_t bytes = static_cast<size_t>(width_ + 7) / 8;
      if (rest_.size() < bytes) return false;
      const uint64_t value = BitsAt(rest_, 0, static_cast<int>(8 * bytes));
      if (value > MaskOf(width_)) return false;
      repeated_ = static_cast<uint32_t>(value);
      rest_.remove_prefix(bytes);
    }
  }
  return true;
}

bool RunDecoder::Next(uint32_t& value) {
  if (left_ == 0 && !BeginRun()) return false;
  --left_;
  if (is_packed_) {
    value = static_cast<uint32_t>(BitsAt(packed_, bit_, width_));
    bit_ += width_;
  } else {
    value = repeated_;
  }
  return true;
}

bool DeltaDecoder::Start(absl::string_view bytes) {
  rest_ = bytes;
  uint64_t block = 0;
  if (!TakeVarint(rest_, block) || !TakeVarint(rest_, miniblocks_) || !TakeVarint(rest_, left_) ||
      !TakeVarint(rest_, value_)) {
    return false;
  }
  value_ = Unzigzag(value_);
  if (miniblocks_ == 0 || block > kMostBlockNumbers || block % miniblocks_ != 0) return false;
  numbers_ = block / miniblocks_;
  return numbers_ > 0 && numbers_ % 8 == 0;
}

bool DeltaDecoder::BeginMiniblock() {
  if (widths_.empty()) {
    uint64_t least = 0;
    if (!TakeVarint(rest_, least) || rest_.size() < miniblocks_) return false;
    least_delta_ = Unzigzag(least);
    widths_ = rest_.substr(0, miniblocks_);
    rest_.remove_prefix(miniblocks_);
  }
  width_ = static_cast<unsigned char>(widths_.front());
  widths_.remove_prefix(1);
  const uint64_t bytes = numbers_ * static_cast<uint64_t>(width_) / 8;
  if (width_ > kMostDeltaBits || rest_.size() < bytes) return false;
  miniblock_ = rest_.substr(0, bytes);
  rest_.remove_prefix(bytes);
  left_in_miniblock_ = numbers_;
  bit_ = 0;
  return true;
}

bool DeltaDecoder::Next(int64_t& value) {
  if (left_ == 0) return false;
  if (first_) {
    first_ = false;
  } else {
    if (left_in_miniblock_ == 0 && !BeginMiniblock()) return false;
    value_ += least_delta_ + BitsAt(miniblock_, bit_, width_);
    bit_ += width_;
    --left_in_miniblock_;
  }
  --left_;
  value = static_cast<int64_t>(value_);
  return true;
}

}  // namespace muster
