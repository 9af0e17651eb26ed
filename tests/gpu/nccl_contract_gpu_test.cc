// The contract of the NCCL backend, on GPUs: ranks are processes, all on one GPU if there is only
// one. NCCL allows that when each process names a host of its own (NCCL_HOSTID); they then talk
// over loopback sockets, which shows that results are right and nothing about speed.
//
// The program runs itself as the ranks: `--rank=R --world=W --folder=F --contract=NAME`. Ranks meet
// by files in the folder. Without a GPU every test is skipped with the reason.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <nccl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "worker/collectives/endpoint.h"
#include "worker/collectives/nccl/device_contract.h"
#include "worker/collectives/nccl/nccl_communicator.h"

extern char** environ;

namespace muster {
namespace {

// All contracts that leave the group whole, one after another in one group.
constexpr char kOrderly[] = "Orderly";
// How long one group of processes may take; starting CUDA in each takes seconds.
constexpr absl::Duration kGroup = absl::Minutes(3);

int Devices(std::string* reason) {
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

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream content;
  content << file.rdbuf();
  return content.str();
}

// Writes the file so that it is there whole or not at all.
void Publish(const std::string& path, const std::string& content) {
  std::ofstream(path + ".new", std::ios::binary) << content;
  std::filesystem::rename(path + ".new", path);
}

struct RankArguments {
  int rank = 0;
  int world = 1;
  std::string folder;
  std::string contract;
};

// One rank, as a process of its own. What went wrong is printed.
absl::Status RunRank(const RankArguments& arguments) {
  std::string reason;
  const int devices = Devices(&reason);
  if (devices == 0) return absl::UnavailableError(reason);
  auto endpoint = MakeHostEndpoint({});
  if (!endpoint.ok()) return endpoint.status();
  Publish(absl::StrCat(arguments.folder, "/", arguments.rank), (*endpoint)->address());
  CollectiveEndpoint::Group group;
  group.name = "world";
  group.round = 1;
  group.secret = "of this test";
  group.rank = arguments.rank;
  const absl::Time until = absl::Now() + absl::Seconds(60);
  for (int r = 0; r < arguments.world; ++r) {
    const std::string path = absl::StrCat(arguments.folder, "/", r);
    while (!std::filesystem::exists(path)) {
      if (absl::Now() > until) {
        return absl::DeadlineExceededError(absl::StrCat("rank ", r, " has not come"));
      }
      absl::SleepFor(absl::Milliseconds(5));
    }
    group.addresses.push_back(ReadFile(path));
  }
  auto host = (*endpoint)->Connect(group, absl::Seconds(60));
  if (!host.ok()) return host.status();
  NcclGroupOptions options;
  options.device = arguments.rank % devices;
  auto nccl = MakeNcclCommunicator(std::make_shared<NcclWatch>(), **host, options);
  if (!nccl.ok()) return nccl.status();

  SetStopLastRank([] { raise(SIGKILL); });
  for (const DeviceContract& contract : DeviceContracts()) {
    const bool chosen = arguments.contract == kOrderly
                            ? contract.leaves == DeviceContract::Leaves::kWhole &&
                                  arguments.world >= contract.least_ranks
                            : arguments.contract == contract.name;
    if (!chosen) continue;
    const absl::Time begun = absl::Now();
    const absl::Status status = contract.run(**nccl);
    if (!status.ok()) {
      return absl::Status(status.code(), absl::StrCat(contract.name, ": ", status.message()));
    }
    if (arguments.rank == 0) {
      std::cout << contract.name << ": holds, " << absl::FormatDuration(absl::Now() - begun)
                << std::endl;
    }
  }
  return absl::OkStatus();
}

// This process's environment, with what one rank needs.
std::vector<std::string> EnvironmentOf(int rank) {
  std::vector<std::string> environment;
  for (char** each = environ; *each != nullptr; ++each) {
    const bool replaced =
        absl::StartsWith(*each, "NCCL_HOSTID=") || absl::StartsWith(*each, "NCCL_SOCKET_IFNAME=");
    if (!replaced) environment.push_back(*each);
  }
  environment.push_back(absl::StrCat("NCCL_HOSTID=muster-rank-", rank));
  environment.push_back("NCCL_SOCKET_IFNAME=lo");
  return environment;
}

pid_t Spawn(const RankArguments& arguments) {
  std::vector<std::string> words = {
      "rank",
      absl::StrCat("--rank=", arguments.rank),
      absl::StrCat("--world=", arguments.world),
      absl::StrCat("--folder=", arguments.folder),
      absl::StrCat("--contract=", arguments.contract),
  };
  std::vector<std::string> environment = EnvironmentOf(arguments.rank);
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

class NcclContractGpuTest : public ::testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(NcclContractGpuTest, HoldsOnEveryRank) {
  std::string reason;
  if (Devices(&reason) == 0) GTEST_SKIP() << reason;
  RankArguments arguments;
  arguments.contract = std::get<0>(GetParam());
  arguments.world = std::get<1>(GetParam());
  std::string folder = (std::filesystem::temp_directory_path() / "muster-gpu-XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  arguments.folder = folder;
  std::map<pid_t, int> ranks;
  for (arguments.rank = 0; arguments.rank < arguments.world; ++arguments.rank) {
    const pid_t pid = Spawn(arguments);
    ASSERT_GT(pid, 0);
    ranks[pid] = arguments.rank;
  }
  const bool dies = arguments.contract == "LostRank";
  const absl::Time until = absl::Now() + kGroup;
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
    if (dies && rank == arguments.world - 1) {
      EXPECT_TRUE(WIFSIGNALED(status)) << "rank " << rank << " was to be killed";
    } else {
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
          << "rank " << rank << " ended with status " << status << "; it says why above";
    }
  }
  for (const auto& [pid, rank] : ranks) {
    ADD_FAILURE() << "rank " << rank << " did not end";
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  std::filesystem::remove_all(folder);
}

std::vector<std::tuple<std::string, int>> Groups() {
  std::vector<std::tuple<std::string, int>> groups;
  for (int world : {1, 2, 3, 4}) groups.push_back({kOrderly, world});
  for (const DeviceContract& contract : DeviceContracts()) {
    if (contract.leaves == DeviceContract::Leaves::kWhole) continue;
    for (int world : {2, 3}) groups.push_back({contract.name, world});
  }
  return groups;
}

INSTANTIATE_TEST_SUITE_P(All, NcclContractGpuTest, ::testing::ValuesIn(Groups()),
                         [](const auto& info) {
                           return absl::StrCat(std::get<0>(info.param), "_",
                                               std::get<1>(info.param));
                         });

bool Flag(absl::string_view word, absl::string_view name, std::string* value) {
  if (!absl::ConsumePrefix(&word, absl::StrCat("--", name, "="))) return false;
  *value = std::string(word);
  return true;
}

int Main(int argc, char** argv) {
  std::string rank;
  std::string world;
  RankArguments arguments;
  for (int i = 1; i < argc; ++i) {
    Flag(argv[i], "rank", &rank) || Flag(argv[i], "world", &world) ||
        Flag(argv[i], "folder", &arguments.folder) ||
        Flag(argv[i], "contract", &arguments.contract);
  }
  if (rank.empty()) {
    ::testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
  }
  arguments.rank = std::stoi(rank);
  arguments.world = std::stoi(world);
  const absl::Status status = RunRank(arguments);
  if (!status.ok()) std::cerr << "rank " << rank << ": " << status << std::endl;
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) { return muster::Main(argc, argv); }
