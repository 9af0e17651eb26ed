#ifndef MUSTER_CLIENT_COMPARE_REPORT_H_
#define MUSTER_CLIENT_COMPARE_REPORT_H_

#include <string>

#include "client/compare/comparison.h"

namespace muster {

// Returns a self-contained HTML page: the coordinator's view of a comparison (common/page/), with
// the roads in the place of jobs, its data in the page, and the table. The page loads nothing.
std::string ComparisonReport(const Comparison& comparison);

}  // namespace muster

#endif  // MUSTER_CLIENT_COMPARE_REPORT_H_
