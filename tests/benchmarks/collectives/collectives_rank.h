#ifndef MUSTER_TESTS_BENCHMARKS_COLLECTIVES_COLLECTIVES_RANK_H_
#define MUSTER_TESTS_BENCHMARKS_COLLECTIVES_COLLECTIVES_RANK_H_

#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/benchmarks/collectives/collectives_case.h"

namespace muster {

// One rank of a group whose f32 sum all-reduce is measured, whatever system carries it out.
class MeasuredGroup {
 public:
  virtual ~MeasuredGroup() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Memory of `count` floats for the calls to come; what the last Open returned is gone. A
  // collective call.
  virtual absl::StatusOr<float*> Open(size_t count) = 0;
  // Sums over the ranks, in place, all of what Open returned.
  virtual absl::Status AllReduce() = 0;
  virtual absl::Status Barrier() = 0;
  // What a system cannot do without between two calls; not measured.
  virtual absl::Status BetweenCalls() { return absl::OkStatus(); }
};

// Measures the cases on every rank, and lets rank 0 write for each the line
//
//   case NAME BYTES T1 T2 ...
//
// with the duration of each call in microseconds, the mean over the ranks: of calls that follow one
// another, these add up to the time that passed; and then
//
//   cost NAME BYTES CPU SWITCHES
//
// with what one call cost all ranks together: processor time in microseconds, and how often a
// thread of theirs went to sleep. Neither depends much on what else the machine does. Calls come in
// batches; before each, outside the
// measured time, the memory is filled and a barrier passed; after each, all sums are verified to
// the bit and another barrier passed. Internal: a sum is wrong. A rank that makes no call for
// minutes is ended by SIGALRM. REQUIRES: a power of two of ranks, at most 16: so that the sums stay
// exact.
absl::Status MeasureAllReduce(MeasuredGroup& group, const std::string& name,
                              const std::vector<CollectivesCase>& cases, std::ostream& out);

// Writes what ends a rank's lines: "end", or "error ..." with the message. Returns the exit code.
int EndOfRank(const absl::Status& status, std::ostream& out);

}  // namespace muster

#endif  // MUSTER_TESTS_BENCHMARKS_COLLECTIVES_COLLECTIVES_RANK_H_
