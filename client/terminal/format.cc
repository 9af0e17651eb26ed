#include "client/terminal/format.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "common/text/printable.h"
#include "common/text/utf8.h"

namespace muster {
namespace {

bool LooksNumeric(const std::string& cell) {
  return !cell.empty() && (absl::ascii_isdigit(cell[0]) ||
                           (cell.size() > 1 && cell[0] == '-' && absl::ascii_isdigit(cell[1])));
}

// Characters.
size_t Width(absl::string_view cell) {
  size_t width = 0;
  for (; !cell.empty(); cell.remove_prefix(FirstCodePoint(cell).bytes)) ++width;
  return width;
}

}  // namespace

std::string FormatSeconds(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "-";
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 60) return absl::StrFormat("%ds", whole);
  if (whole < 3600) return absl::StrFormat("%dm%02ds", whole / 60, whole % 60);
  return absl::StrFormat("%dh%02dm", whole / 3600, whole % 3600 / 60);
}

std::string FormatTime(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "-";
  if (seconds < 0.9995e-3) return absl::StrFormat("%.3g us", seconds * 1e6);
  if (seconds < 0.9995) return absl::StrFormat("%.3g ms", seconds * 1e3);
  // Beyond three digits, %g would write an exponent.
  return seconds < 999.5 ? absl::StrFormat("%.3g s", seconds) : FormatSeconds(seconds);
}

std::string FormatNumber(double value) {
  if (!std::isfinite(value)) return absl::StrFormat("%f", value);
  const double magnitude = std::fabs(value);
  const std::string sign = value < 0 ? "-" : "";
  if (magnitude < 999.95) return absl::StrFormat("%.4g", value);
  if (magnitude < 999'999.5) return sign + FormatCount(std::llround(magnitude));
  const double millions = magnitude / 1e6;
  if (millions < 999.5) return absl::StrFormat("%s%.3g M", sign, millions);
  return absl::StrFormat("%s%.4g G", sign, millions / 1e3);
}

std::string FormatPercent(double part) { return absl::StrFormat("%.1f %%", 100 * part); }

std::string FormatLoss(double value) {
  constexpr double kLong = 1e6;
  return std::abs(value) < kLong ? absl::StrFormat("%.4f", value) : absl::StrFormat("%.4g", value);
}

std::string CutText(absl::string_view text, size_t most) {
  size_t end = 0, before_last = 0;
  for (size_t characters = 0; end < text.size(); ++characters) {
    if (characters == most) return absl::StrCat(text.substr(0, before_last), "…");
    before_last = end;
    end += FirstCodePoint(text.substr(end)).bytes;
  }
  return std::string(text);
}

std::string FormatTable(const std::vector<std::vector<std::string>>& cells) {
  std::vector<std::vector<std::string>> rows = cells;
  for (auto& row : rows) {
    for (std::string& cell : row) cell = PrintableLine(cell);
  }
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], Width(row[i]));
  }
  std::vector<bool> right(widths.size(), rows.size() > 1);
  for (size_t r = 1; r < rows.size(); ++r) {
    for (size_t i = 0; i < rows[r].size(); ++i) {
      if (rows[r][i] != "-" && !LooksNumeric(rows[r][i])) right[i] = false;
    }
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - Width(row[i]), ' ');
      absl::StrAppend(&line, i == 0 ? "" : "  ", right[i] ? padding : "", row[i],
                      right[i] ? "" : padding);
    }
    absl::StrAppend(&text, absl::StripTrailingAsciiWhitespace(line), "\n");
  }
  return text;
}

}  // namespace muster
