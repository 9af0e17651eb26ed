#ifndef MUSTER_CLIENT_TERMINAL_FORMAT_H_
#define MUSTER_CLIENT_TERMINAL_FORMAT_H_

#include <string>
#include <vector>

namespace muster {

// "8s", "3m12s", "2h05m". Negative or not finite: "-".
std::string FormatSeconds(double seconds);

// A number with at most three decimals and thousands apart: "12,345", "3.142".
std::string FormatNumber(double value);

// Rows of cells in aligned columns, two spaces apart; the first row is the header. Cells that look
// like numbers are set to the right. What must not reach a terminal is written out (PrintableLine).
// Ends with a newline.
std::string FormatTable(const std::vector<std::vector<std::string>>& rows);

}  // namespace muster

#endif  // MUSTER_CLIENT_TERMINAL_FORMAT_H_
