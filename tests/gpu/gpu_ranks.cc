#include "tests/gpu/gpu_ranks.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/files/bytes_of_file.h"
#include "worker/collectives/nccl/nccl_communicator.h"

extern char** environ;

namespace muster {
namespace {

// This process's environment, with what one rank needs.
std::vector<std::string> EnvironmentOf(int rank) {
  // Between what it thinks are machines NCCL would take InfiniBand, where there is any.
  const std::pair<std::string, std::string> needed[] = {
      {"NCCL_HOSTID=", absl::StrCat("muster-rank-", rank)},
      {"NCCL_NET=", "Socket"},
      {"NCCL_SOCKET_IFNAME=", "lo"},
  };
  std::vector<std::string> environment;
  for (char** each = environ; *each != nullptr; ++each) {
    const bool replaced = std::any_of(
        std::begin(needed), std::end(needed),
        [each](const auto& variable) { return absl::StartsWith(*each, variable.first); });
    if (!replaced) environment.push_back(*each);
  }
  for (const auto& [name, value] : needed) environment.push_back(name + value);
  return environment;
}

pid_t Spawn(const GpuRank& rank) {
  std::vector<std::string> words = {
      "rank",
      absl::StrCat("--rank=", rank.rank),
      absl::StrCat("--world=", rank.world),
      absl::StrCat("--folder=", rank.folder),
      absl::StrCat("--task=", rank.task),
  };
  std::vector<std::string> environment = EnvironmentOf(rank.rank);
  std::vector<char*> word_pointers;
  std::vector<char*> environment_pointers;
  for (std::string& word : words) word_pointers.push_back(word.data());
  for (std::string& entry : environment) environment_pointers.push_back(entry.data());
  word_pointers.push_back(nullptr);
  environment_pointers.push_back(nullptr);
  pid_t pid = -1;
  if (posix_spawn(&pid, "/proc/self/exe", nullptr, nullptr, word_pointers.data(),
                  environment_pointers.data()) != 0) {
    return -1;
  }
  return pid;
}

void AwaitRanks(std::map<pid_t, int> ranks, const GpuRun& run) {
  const absl::Time until = absl::Now() + run.limit;
  while (!ranks.empty()) {
    int status = 0;
    const pid_t pid = waitpid(-1, &status, WNOHANG);
    if (pid <= 0) {
      if (absl::Now() > until) break;
      absl::SleepFor(absl::Milliseconds(5));
      continue;
    }
    const int rank = ranks[pid];
    ranks.erase(pid);
    if (run.expected != nullptr && run.expected(rank) == RankEnd::kKilled) {
      EXPECT_TRUE(WIFSIGNALED(status)) << "rank " << rank << " was to be killed";
    } else {
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
          << "rank " << rank << " ended with status " << status << "; it says why above";
    }
  }
  for (const auto& [pid, rank] : ranks) {
    ADD_FAILURE() << "rank " << rank << " did not end within " << absl::FormatDuration(run.limit);
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
}

bool Flag(absl::string_view word, absl::string_view name, std::string* value) {
  if (!absl::ConsumePrefix(&word, absl::StrCat("--", name, "="))) return false;
  *value = std::string(word);
  return true;
}

}  // namespace

int CountGpus(std::string* reason) {
  int devices = 0;
  const cudaError_t result = cudaGetDeviceCount(&devices);
  if (result != cudaSuccess) {
    *reason = absl::StrCat("no GPU: cudaGetDeviceCount says ", cudaGetErrorName(result), ", ",
                           cudaGetErrorString(result));
    return 0;
  }
  if (devices == 0) *reason = "no GPU: the driver knows no device";
  return devices;
}

void PublishText(const std::string& path, const std::string& content) {
  std::ofstream(path + ".new", std::ios::binary) << content;
  std::filesystem::rename(path + ".new", path);
}

absl::StatusOr<GpuGroup> MeetGpuRanks(const GpuRank& rank) {
  std::string reason;
  const int devices = CountGpus(&reason);
  if (devices == 0) return absl::UnavailableError(reason);
  GpuGroup result;
  MUSTER_ASSIGN_OR_RETURN(result.endpoint, MakeHostEndpoint({}));
  PublishText(absl::StrCat(rank.folder, "/", rank.rank), result.endpoint->address());
  CollectiveEndpoint::Group group;
  group.name = "world";
  group.round = 1;
  group.secret = "of this test";
  group.rank = rank.rank;
  const absl::Time until = absl::Now() + absl::Seconds(60);
  for (int r = 0; r < rank.world; ++r) {
    const std::string path = absl::StrCat(rank.folder, "/", r);
    while (!std::filesystem::exists(path)) {
      if (absl::Now() > until) {
        return absl::DeadlineExceededError(absl::StrCat("rank ", r, " has not come"));
      }
      absl::SleepFor(absl::Milliseconds(5));
    }
    group.addresses.push_back(BytesOfFile(path));
  }
  MUSTER_ASSIGN_OR_RETURN(result.host, result.endpoint->Connect(group, absl::Seconds(60)));
  NcclGroupOptions options;
  options.device = rank.rank % devices;
  MUSTER_ASSIGN_OR_RETURN(
      result.nccl, MakeNcclCommunicator(std::make_shared<NcclWatch>(), *result.host, options));
  return result;
}

void RunGpuRanks(const GpuRun& run) {
  GpuRank rank;
  rank.task = run.task;
  rank.world = run.world;
  rank.folder = (std::filesystem::temp_directory_path() / "muster-gpu-XXXXXX").string();
  ASSERT_NE(mkdtemp(rank.folder.data()), nullptr);
  std::map<pid_t, int> ranks;
  for (rank.rank = 0; rank.rank < run.world; ++rank.rank) {
    const pid_t pid = Spawn(rank);
    ASSERT_GT(pid, 0);
    ranks[pid] = rank.rank;
  }
  AwaitRanks(std::move(ranks), run);
  if (run.look != nullptr) run.look(rank.folder);
  std::filesystem::remove_all(rank.folder);
}

int GpuRanksMain(int argc, char** argv, const std::function<absl::Status(const GpuRank&)>& run) {
  std::string number;
  std::string world;
  GpuRank rank;
  for (int i = 1; i < argc; ++i) {
    Flag(argv[i], "rank", &number) || Flag(argv[i], "world", &world) ||
        Flag(argv[i], "folder", &rank.folder) || Flag(argv[i], "task", &rank.task);
  }
  if (number.empty()) {
    ::testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
  }
  rank.rank = std::stoi(number);
  rank.world = std::stoi(world);
  const absl::Status status = run(rank);
  if (!status.ok()) std::cerr << "rank " << number << ": " << status << std::endl;
  return status.ok() ? 0 : 1;
}

}  // namespace muster
