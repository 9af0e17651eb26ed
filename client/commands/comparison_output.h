#ifndef MUSTER_CLIENT_COMMANDS_COMPARISON_OUTPUT_H_
#define MUSTER_CLIENT_COMMANDS_COMPARISON_OUTPUT_H_

#include "absl/status/statusor.h"
#include "client/cluster/session.h"
#include "client/compare/run_comparison.h"

namespace muster {

// Runs a comparison and prints what goes on and its table (with --output json, one object with the
// figures of every run instead, and nothing else).
absl::StatusOr<Comparison> CompareAndPrint(const Session& session, const v1::JobSpec& job,
                                           ComparisonOptions options);

}  // namespace muster

#endif  // MUSTER_CLIENT_COMMANDS_COMPARISON_OUTPUT_H_
