// The contract of the NCCL backend, on GPUs: ranks are processes (gpu_ranks.h), all on one GPU if
// there is only one. Without a GPU every test is skipped with the reason.
#include <gtest/gtest.h>
#include <nccl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <iostream>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "tests/gpu/gpu_ranks.h"
#include "worker/collectives/nccl/device_contract.h"
#include "worker/collectives/nccl/nccl_watch.h"

namespace muster {
namespace {

// All contracts that leave the group whole, one after another in one group.
constexpr char kOrderly[] = "Orderly";

bool Chosen(const DeviceContract& contract, const GpuRank& rank) {
  if (rank.task != kOrderly) return rank.task == contract.name;
  const bool few = contract.calls == DeviceContract::Calls::kFew;
  return contract.leaves == DeviceContract::Leaves::kWhole && rank.world >= contract.least_ranks &&
         (few || rank.world <= 2);
}

// What rank 0 says comes at once, so that a contract that is slow can be told from one that hangs.
void Say(const GpuRank& rank, const std::string& what) {
  if (rank.rank == 0) std::cout << what << std::endl;
}

// By SIGSTOP, so that all threads stand still: the one that reports to the others, too.
void StandStill(absl::Duration time) {
  const pid_t waker = fork();
  if (waker == 0) {
    const timespec length = absl::ToTimespec(time);
    nanosleep(&length, nullptr);
    kill(getppid(), SIGCONT);
    _exit(0);
  }
  raise(SIGSTOP);
  waitpid(waker, nullptr, 0);
}

// One rank, as a process of its own.
absl::Status RunRank(const GpuRank& rank) {
  int version = 0;
  ncclGetVersion(&version);
  Say(rank, absl::StrCat("NCCL ", version, ", ", rank.world, " ranks"));
  MUSTER_ASSIGN_OR_RETURN(const GpuGroup group, MeetGpuRanks(rank));
  // A second for the host's communicator to name it, then the abort.
  SetStopLastRank([] { raise(SIGKILL); }, absl::Seconds(1) + NcclWatch::kAbort);
  SetStandStill(StandStill);
  SetAwaitOthers([](absl::Duration time) { absl::SleepFor(time); });
  for (const DeviceContract& contract : DeviceContracts()) {
    if (!Chosen(contract, rank)) continue;
    Say(rank, absl::StrCat(contract.name, ": begins"));
    const absl::Time begun = absl::Now();
    const absl::Status status = contract.run(*group.nccl);
    if (!status.ok()) {
      return absl::Status(status.code(), absl::StrCat(contract.name, ": ", status.message()));
    }
    Say(rank, absl::StrCat(contract.name, ": holds, ", absl::FormatDuration(absl::Now() - begun)));
  }
  return absl::OkStatus();
}

class NcclContractGpuTest : public ::testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(NcclContractGpuTest, HoldsOnEveryRank) {
  std::string reason;
  if (CountGpus(&reason) == 0) GTEST_SKIP() << reason;
  const auto& [contract, world] = GetParam();
  const int dying = contract == "LostRank" ? world - 1 : -1;
  GpuRun run;
  run.task = contract;
  run.world = world;
  run.expected = [dying](int rank) { return rank == dying ? RankEnd::kKilled : RankEnd::kWell; };
  // Thousands of calls.
  if (contract == kOrderly) run.limit = absl::Minutes(10);
  RunGpuRanks(run);
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

}  // namespace
}  // namespace muster

int main(int argc, char** argv) { return muster::GpuRanksMain(argc, argv, muster::RunRank); }
