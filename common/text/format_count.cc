#include "common/text/format_count.h"

#include "absl/strings/str_cat.h"

namespace muster {

std::string FormatCount(uint64_t count) {
  std::string digits = absl::StrCat(count);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) digits.insert(at, ",");
  return digits;
}

}  // namespace muster
