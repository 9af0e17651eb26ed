#include "common/text/format_bytes.h"

#include <cstddef>
#include <iterator>

#include "absl/strings/str_format.h"

namespace muster {

std::string FormatBytes(double bytes) {
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return absl::StrFormat("%.0f bytes", bytes);
  double value = bytes / 1024;
  size_t unit = 0;
  // A number that would be rounded to 1024.0 is 1.0 of the next unit.
  while (value >= 1023.95 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

}  // namespace muster
