#ifndef MUSTER_CLIENT_TERMINAL_FORMAT_H_
#define MUSTER_CLIENT_TERMINAL_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/text/format_count.h"

namespace muster {

// Returns a text such as "8s", "3m12s" or "2h05m"; "-" for a negative number or one that is not
// finite.
std::string FormatSeconds(double seconds);

// Returns a time as precise as a measurement is: "850 us", "12.3 ms", "4.2 s"; "-" as above.
std::string FormatTime(double seconds);

// Returns a figure with at most four digits that count, or all of a whole number below a million:
// "0.0512", "22.9", "195,871", "1.2 M".
std::string FormatNumber(double value);

// Returns a part of a whole: "12.5 %" for 0.125.
std::string FormatPercent(double part);

// Returns a loss or a metric's value, with four decimals, so that columns line up; from a million
// on with four digits and an exponent.
std::string FormatLoss(double value);

// Returns the text, or its first characters and "…", which are `most` characters together.
std::string CutText(absl::string_view text, size_t most);

// Returns rows of cells in aligned columns, two spaces apart, with a newline at the end. The first
// row is the header. Cells that look like numbers are aligned right. Characters that must not reach
// a terminal are escaped (PrintableLine).
std::string FormatTable(const std::vector<std::vector<std::string>>& rows);

}  // namespace muster

#endif  // MUSTER_CLIENT_TERMINAL_FORMAT_H_
