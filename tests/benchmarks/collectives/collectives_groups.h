#ifndef MUSTER_TESTS_BENCHMARKS_COLLECTIVES_COLLECTIVES_GROUPS_H_
#define MUSTER_TESTS_BENCHMARKS_COLLECTIVES_COLLECTIVES_GROUPS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/benchmarks/collectives/collectives_case.h"
#include "tests/benchmarks/collectives/collectives_table.h"

namespace muster {

// Each starts `world` processes of one system, has them measure all cases and waits for their end.
// Internal: what a rank reported, such as a wrong sum. Unavailable: it ended without a word.
// NotFound: a program is not there.

// Processes of this very program, with `--role=member` (collectives_member.h). `transport` and
// `connections` are its.
absl::StatusOr<std::vector<CollectivesRow>> RunMusterGroup(
    int world, const std::string& transport, int connections,
    const std::vector<CollectivesCase>& cases);

// By mpirun. `transport`: "shared-memory" or "tcp". `program`: peers/openmpi_rank.
absl::StatusOr<std::vector<CollectivesRow>> RunOpenMpiGroup(
    const std::string& program, int world, const std::string& transport,
    const std::vector<CollectivesCase>& cases);

// One row for each of the algorithms, such as "ring,bcube". `program`: peers/gloo_rank.
absl::StatusOr<std::vector<CollectivesRow>> RunGlooGroup(const std::string& program, int world,
                                                         const std::string& algorithms,
                                                         const std::vector<CollectivesCase>& cases);

}  // namespace muster

#endif  // MUSTER_TESTS_BENCHMARKS_COLLECTIVES_COLLECTIVES_GROUPS_H_
