#ifndef MUSTER_TESTS_BENCHMARKS_COLLECTIVES_COLLECTIVES_MEMBER_H_
#define MUSTER_TESTS_BENCHMARKS_COLLECTIVES_COLLECTIVES_MEMBER_H_

#include <string>

namespace muster {

// A process of `muster bench collectives` that is one rank of Muster's own communicator. Writes the
// line "address HEX", reads the line
//
//   RANK SECRET ADDRESS0 ADDRESS1 ...
//
// (addresses in hex, by rank), meets the others and measures `cases` (FormatCases) with memory of
// the user, named "user", and over shared memory with the communicator's too: "communicator".
// `transport`: "shared-memory", "tcp" or "tls"; the latter two over `connections` per pair of
// ranks. Returns the exit code.
int RunCollectivesMember(const std::string& transport, int connections, const std::string& cases);

}  // namespace muster

#endif  // MUSTER_TESTS_BENCHMARKS_COLLECTIVES_COLLECTIVES_MEMBER_H_
