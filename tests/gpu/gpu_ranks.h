#ifndef MUSTER_TESTS_GPU_GPU_RANKS_H_
#define MUSTER_TESTS_GPU_GPU_RANKS_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/collectives/communicator.h"
#include "worker/collectives/endpoint.h"

namespace muster {

// Ranks of a NCCL group as processes: a test's program runs itself once for each, with
// `--rank=R --world=W --folder=F --task=NAME`. Ranks meet by files in the folder. They share GPUs
// where there are fewer than ranks: NCCL allows that when each process names a host of its own
// (NCCL_HOSTID); they then talk over loopback sockets (NCCL_NET=Socket, whatever else the machine
// has), which shows that results are right and nothing about speed.
struct GpuRank {
  int rank = 0;
  int world = 1;
  std::string folder;
  // What the rank is to do.
  std::string task;
};

// How many GPUs there are; for 0, why, beginning with "no GPU: ".
int CountGpus(std::string* reason);

// A rank's place in its group; all of it is kept as long as the last.
struct GpuGroup {
  std::unique_ptr<CollectiveEndpoint> endpoint;
  std::unique_ptr<Communicator> host;
  std::unique_ptr<Communicator> nccl;
};
// Meets the other ranks.
absl::StatusOr<GpuGroup> MeetGpuRanks(const GpuRank& rank);

// How a rank is expected to end.
enum class RankEnd { kWell, kKilled };

struct GpuRun {
  std::string task;
  int world = 1;
  // Of each rank; null: all end well.
  std::function<RankEnd(int rank)> expected;
  // Sees the folder when all ranks have ended; may be null.
  std::function<void(const std::string& folder)> look;
  // Starting CUDA in each rank takes seconds. Ranks that share a GPU wait for their turns on it,
  // which makes a call milliseconds long.
  absl::Duration limit = absl::Minutes(3);
};

// Starts the ranks in an empty folder, which is removed afterwards, and waits for all. Fails the
// test where one ends otherwise than expected, or not within the limit.
void RunGpuRanks(const GpuRun& run);

// The program: its own tests, or one rank, which `run` carries out. What went wrong is printed.
int GpuRanksMain(int argc, char** argv, const std::function<absl::Status(const GpuRank&)>& run);

// A file that is there whole or not at all.
void PublishText(const std::string& path, const std::string& content);

}  // namespace muster

#endif  // MUSTER_TESTS_GPU_GPU_RANKS_H_
