#include "client/compare/chart.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace muster {
namespace {

// Told apart also by people who see colours differently (Okabe and Ito's set).
constexpr const char* kPalette[] = {"#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7"};
constexpr int kColours = sizeof(kPalette) / sizeof(kPalette[0]);

constexpr double kWidth = 520, kHeight = 300;
constexpr double kLeft = 64, kRight = 16, kTop = 34, kBottom = 46;

std::string Colour(int index) { return kPalette[index % kColours]; }

std::string Number(double value) {
  const double size = std::abs(value);
  if (size >= 1e6) return absl::StrCat(absl::StrFormat("%.4g", value / 1e6), "M");
  if (size >= 1e4) return absl::StrCat(absl::StrFormat("%.4g", value / 1e3), "k");
  return absl::StrFormat("%.4g", value);
}

std::string Text(double x, double y, const std::string& anchor, const std::string& text,
                 const std::string& more = "") {
  return absl::StrFormat("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"%s>%s</text>\n", x, y,
                         anchor, more, EscapeHtml(text));
}

std::string Open(double width, double height, const std::string& title) {
  return absl::StrFormat(
             "<svg viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" role=\"img\" "
             "aria-label=\"%s\">\n",
             width, height, width, height, EscapeHtml(title)) +
         Text(width / 2, 16, "middle", title, " class=\"title\"");
}

}  // namespace

std::string EscapeHtml(const std::string& text) {
  return absl::StrReplaceAll(
      text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
}

std::vector<double> Ticks(double low, double high, int count) {
  // Values that differ by rounding alone are one value.
  const double size = std::max(std::abs(low), std::abs(high));
  if (!(high - low > 1e-9 * size)) high = low + (size == 0 ? 1 : size * 0.1);
  const double rough = (high - low) / std::max(1, count);
  const double scale = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * scale;
  for (double nice : {1.0, 2.0, 2.5, 5.0}) {
    if (nice * scale >= rough * 0.999) {
      step = nice * scale;
      break;
    }
  }
  std::vector<double> ticks;
  const double first = std::floor(low / step + 1e-9), last = std::ceil(high / step - 1e-9);
  for (double i = first; i <= last; ++i) ticks.push_back(i * step);
  return ticks;
}

std::string LineChart(const std::string& title, const std::string& x_label,
                      const std::vector<LineSeries>& series) {
  double x_low = 0, x_high = 0, y_low = INFINITY, y_high = -INFINITY;
  std::vector<LineSeries> lines = series;
  for (LineSeries& line : lines) {
    std::erase_if(line.points, [](const std::pair<double, double>& point) {
      return !std::isfinite(point.first) || !std::isfinite(point.second);
    });
    for (const auto& [x, y] : line.points) {
      x_high = std::max(x_high, x);
      y_low = std::min(y_low, y);
      y_high = std::max(y_high, y);
    }
  }
  if (y_low > y_high) y_low = y_high = 0;
  const std::vector<double> xs = Ticks(x_low, x_high, 5), ys = Ticks(y_low, y_high, 5);
  const auto x_of = [&](double x) {
    return kLeft + (x - xs.front()) / (xs.back() - xs.front()) * (kWidth - kLeft - kRight);
  };
  const auto y_of = [&](double y) {
    return kHeight - kBottom -
           (y - ys.front()) / (ys.back() - ys.front()) * (kHeight - kTop - kBottom);
  };
  const double legend = 18 * lines.size();
  std::string svg = Open(kWidth, kHeight + legend, title);
  for (double y : ys) {
    absl::StrAppendFormat(
        &svg, "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>\n", kLeft,
        kWidth - kRight, y_of(y), y_of(y));
    absl::StrAppend(&svg, Text(kLeft - 6, y_of(y) + 4, "end", Number(y)));
  }
  for (double x : xs) {
    absl::StrAppend(&svg, Text(x_of(x), kHeight - kBottom + 16, "middle", Number(x)));
  }
  absl::StrAppend(&svg, Text((kLeft + kWidth - kRight) / 2, kHeight - 10, "middle", x_label));
  for (size_t i = 0; i < lines.size(); ++i) {
    std::string points;
    for (const auto& [x, y] : lines[i].points) {
      absl::StrAppendFormat(&points, "%s%.1f,%.1f", points.empty() ? "" : " ", x_of(x), y_of(y));
      absl::StrAppendFormat(&svg, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\" fill=\"%s\"/>\n",
                            x_of(x), y_of(y), Colour(lines[i].colour));
    }
    absl::StrAppendFormat(&svg, "<polyline class=\"line\" stroke=\"%s\" points=\"%s\"/>\n",
                          Colour(lines[i].colour), points);
    const double y = kHeight + 18 * i + 8;
    absl::StrAppendFormat(&svg,
                          "<rect x=\"%.1f\" y=\"%.1f\" width=\"14\" height=\"4\" fill=\"%s\"/>\n",
                          kLeft, y - 6, Colour(lines[i].colour));
    absl::StrAppend(&svg, Text(kLeft + 22, y, "start", lines[i].name));
  }
  return svg + "</svg>\n";
}

std::string StackedBars(const std::string& title, const std::vector<std::string>& parts,
                        const std::vector<BarRow>& rows, const std::string& unit) {
  constexpr double kRow = 30, kNames = 110;
  double longest = 0;
  for (const BarRow& row : rows) {
    double sum = 0;
    for (double part : row.parts) sum += part;
    longest = std::max(longest, sum);
  }
  const double scale = longest > 0 ? (kWidth - kNames - 90) / longest : 0;
  const double height = kTop + kRow * rows.size() + 18 * parts.size() + 12;
  std::string svg = Open(kWidth, height, title);
  for (size_t i = 0; i < rows.size(); ++i) {
    const double y = kTop + kRow * i;
    absl::StrAppend(&svg, Text(kNames - 8, y + 15, "end", rows[i].name));
    double x = kNames, sum = 0;
    for (size_t part = 0; part < rows[i].parts.size(); ++part) {
      const double width = rows[i].parts[part] * scale;
      absl::StrAppendFormat(
          &svg, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"20\" fill=\"%s\"/>\n", x, y,
          width, Colour(static_cast<int>(part)));
      x += width;
      sum += rows[i].parts[part];
    }
    absl::StrAppend(&svg, Text(x + 6, y + 15, "start", absl::StrCat(Number(sum), " ", unit)));
  }
  for (size_t part = 0; part < parts.size(); ++part) {
    const double y = kTop + kRow * rows.size() + 18 * part + 12;
    absl::StrAppendFormat(&svg,
                          "<rect x=\"%.1f\" y=\"%.1f\" width=\"12\" height=\"12\" fill=\"%s\"/>\n",
                          kNames, y - 10, Colour(static_cast<int>(part)));
    absl::StrAppend(&svg, Text(kNames + 20, y, "start", parts[part]));
  }
  return svg + "</svg>\n";
}

}  // namespace muster
