#ifndef MUSTER_CLIENT_COMMANDS_JOBS_COMPARISON_OUTPUT_H_
#define MUSTER_CLIENT_COMMANDS_JOBS_COMPARISON_OUTPUT_H_

#include "absl/status/statusor.h"
#include "client/cluster/session.h"
#include "client/compare/run_comparison.h"

namespace muster {

// Runs a comparison and prints its progress and its table. With --output json it prints only one
// object with the figures of every run.
absl::StatusOr<Comparison> CompareAndPrint(const Session& session, const v1::JobSpec& job,
                                           ComparisonOptions options);

}  // namespace muster

#endif  // MUSTER_CLIENT_COMMANDS_JOBS_COMPARISON_OUTPUT_H_
