#ifndef MUSTER_CLIENT_COMPARE_CHART_H_
#define MUSTER_CLIENT_COMPARE_CHART_H_

#include <string>
#include <utility>
#include <vector>

namespace muster {

struct LineSeries {
  std::string name;
  // Index into the palette. A road has the same colour in all charts.
  int colour = 0;
  std::vector<std::pair<double, double>> points;
};

// Returns lines over two linear axes with round ticks, as an <svg> element. Points that are not
// finite are left out.
std::string LineChart(const std::string& title, const std::string& x_label,
                      const std::vector<LineSeries>& series);

struct BarRow {
  std::string name;
  // One value per part; not negative.
  std::vector<double> parts;
};

// Returns stacked horizontal bars, one per row, as an <svg> element. `unit` follows the numbers.
std::string StackedBars(const std::string& title, const std::vector<std::string>& parts,
                        const std::vector<BarRow>& rows, const std::string& unit);

// Returns the text with &, <, > and quotes escaped.
std::string EscapeHtml(const std::string& text);

// Returns about `count` round numbers, from at or below `low` to at or above `high`.
std::vector<double> Ticks(double low, double high, int count);

}  // namespace muster

#endif  // MUSTER_CLIENT_COMPARE_CHART_H_
