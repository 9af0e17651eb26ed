#ifndef MUSTER_CLIENT_TERMINAL_FORMAT_H_
#define MUSTER_CLIENT_TERMINAL_FORMAT_H_

#include <string>
#include <vector>

namespace muster {

// Returns a text such as "8s", "3m12s" or "2h05m"; "-" for a negative number or one that is not
// finite.
std::string FormatSeconds(double seconds);

// Returns a number with at most three decimals and commas between thousands: "12,345", "3.142".
std::string FormatNumber(double value);

// Returns rows of cells in aligned columns, two spaces apart, with a newline at the end. The first
// row is the header. Cells that look like numbers are aligned right. Characters that must not reach
// a terminal are escaped (PrintableLine).
std::string FormatTable(const std::vector<std::vector<std::string>>& rows);

}  // namespace muster

#endif  // MUSTER_CLIENT_TERMINAL_FORMAT_H_
