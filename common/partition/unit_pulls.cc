#include "common/partition/unit_pulls.h"

#include <algorithm>
#include <utility>

namespace muster {

UnitPulls::UnitPulls(std::vector<uint64_t> bytes, uint64_t window_bytes)
    : bytes_(std::move(bytes)), window_bytes_(window_bytes) {}

int UnitPulls::Begin() {
  next_ = 0;
  asked_bytes_ = 0;
  const auto first = std::find_if(bytes_.begin(), bytes_.end(), [](uint64_t b) { return b > 0; });
  return AskThrough(static_cast<int>(first - bytes_.begin()));
}

int UnitPulls::AskThrough(int unit) {
  for (; next_ < static_cast<int>(bytes_.size()); ++next_) {
    if (next_ > unit && asked_bytes_ + bytes_[next_] > window_bytes_) break;
    asked_bytes_ += bytes_[next_];
  }
  return next_;
}

}  // namespace muster
