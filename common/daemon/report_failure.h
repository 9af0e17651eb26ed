#ifndef MUSTER_COMMON_DAEMON_REPORT_FAILURE_H_
#define MUSTER_COMMON_DAEMON_REPORT_FAILURE_H_

#include "absl/status/status.h"

namespace muster {

// The form in which a program tells what it did.
enum class ReportForm { kText, kJson };

// Says on standard error why a program that takes the place of `muster` failed, as `muster` does: a
// line of text, or as common/text/error_json.h has it. Nothing is said of success. Returns the exit
// code: 0, 2 for InvalidArgument and NotFound, otherwise 1.
int ReportFailure(const absl::Status& status, ReportForm form);

}  // namespace muster

#endif  // MUSTER_COMMON_DAEMON_REPORT_FAILURE_H_
