#ifndef MUSTER_CLIENT_COMPARE_REPORT_H_
#define MUSTER_CLIENT_COMPARE_REPORT_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "client/compare/comparison.h"
#include "proto/metrics.pb.h"
#include "proto/status.pb.h"

namespace muster {

// A job and its history, as the coordinator tells them.
struct ReportedJob {
  v1::JobStatus status;
  std::vector<v1::Series> history;
};

// Both return a self-contained HTML page: the coordinator's view of a comparison (common/page/),
// with its data in the page, and a table of final figures. The page loads nothing.

// A comparison's roads stand in the place of jobs.
std::string ComparisonReport(const Comparison& comparison);
// One job or several that need have nothing in common.
std::string JobsReport(absl::Span<const ReportedJob> jobs);

}  // namespace muster

#endif  // MUSTER_CLIENT_COMPARE_REPORT_H_
