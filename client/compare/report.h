#ifndef MUSTER_CLIENT_COMPARE_REPORT_H_
#define MUSTER_CLIENT_COMPARE_REPORT_H_

#include <string>

#include "client/compare/comparison.h"

namespace muster {

// Returns a self-contained HTML page with the table, curves of loss and metric over examples and
// over seconds, and bars of a step's parts, drawn as SVG. The page needs no other file and no
// script.
std::string ComparisonReport(const Comparison& comparison);

}  // namespace muster

#endif  // MUSTER_CLIENT_COMPARE_REPORT_H_
