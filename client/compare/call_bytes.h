#ifndef MUSTER_CLIENT_COMPARE_CALL_BYTES_H_
#define MUSTER_CLIENT_COMPARE_CALL_BYTES_H_

#include <cstdint>
#include <map>
#include <vector>

#include "client/compare/worker_traffic.h"
#include "common/tensor/dtype.h"
#include "worker/collectives/collective_call.h"

namespace muster {

// The bytes of collective calls, from the schedules by which ranks make them
// (worker/collectives/schedule.h). Pure functions.

// Transport between ranks that make calls together.
enum class AllReduceWay { kSharedMemory, kTcp, kDevices };

// The ranks that make a call together, and how.
struct CallGroup {
  int size = 1;
  AllReduceWay way = AllReduceWay::kSharedMemory;
  bool deterministic = false;
};

// The number of calls of each size, in elements. A large model's calls have few different sizes.
using CallSizes = std::map<uint64_t, uint64_t>;

// Returns the bytes that each rank of a group sends and receives in all-reduces of these sizes.
std::vector<WorkerTraffic> AllReduceBytes(const CallSizes& sizes, DType dtype,
                                          const CallGroup& group);

// Returns the mean over the ranks of AllReduceBytes. Takes no longer for large groups.
double MeanAllReduceBytes(const CallSizes& sizes, DType dtype, const CallGroup& group);

// Returns the bytes that each rank of a group sends, and receives, in gathers or scatters with
// slices of these sizes. Slices are equal, so all ranks send the same.
double SliceBytes(Collective kind, const CallSizes& slices, DType dtype, const CallGroup& group);

}  // namespace muster

#endif  // MUSTER_CLIENT_COMPARE_CALL_BYTES_H_
