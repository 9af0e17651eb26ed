// Tests of how programs as jobs end, and what goes on, when processes, tasks and daemons are lost
// or told to end.

#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "common/base/philox.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job_service.pb.h"
#include "tests/harness/process_cluster.h"
#include "tests/integration/program_fixture.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

class ProgramLossesTest : public ProgramTest {
 protected:
  // Kills a rank of a job so often, and checks that the job ends right.
  void KillRanks(uint64_t kills_in_all) {
    v1::JobSpec spec =
        Python(absl::StrCat("def at_step(step):\n  time.sleep(0.02)\n",
                            absl::StrReplaceAll(kProgramCounts, {{"< 20", "< 200"}})));
    spec.mutable_model()->mutable_program()->set_max_restarts(kills_in_all);
    const std::string id = Submit(spec);
    const Philox random(35);
    // Processes of earlier generations.
    std::set<pid_t> earlier;
    const auto present = [&] {
      std::vector<pid_t> processes = ProcessesOf(id);
      std::erase_if(processes, [&](pid_t process) { return earlier.contains(process); });
      return processes;
    };
    for (uint64_t kills = 0; kills < kills_in_all; ++kills) {
      const auto runs = cluster_->Await(id, [&](const v1::JobStatus& status) {
        return status.generation() == kills + 1 && present().size() == 2;
      });
      ASSERT_TRUE(runs.ok()) << runs.status();
      // Some are killed before their program has begun, others while a checkpoint is committed.
      absl::SleepFor(absl::Milliseconds(random.Below(300, kills)));
      const std::vector<pid_t> processes = present();
      ASSERT_EQ(processes.size(), 2u);
      kill(processes[random.Below(2, kills, 1)], SIGKILL);
      earlier.insert(processes.begin(), processes.end());
    }
    const auto status = cluster_->AwaitEnd(id);
    ASSERT_TRUE(status.ok()) << status.status();
    EXPECT_EQ(status->state(), v1::SUCCEEDED) << status->message();
    EXPECT_EQ(status->generation(), kills_in_all + 1);
    EXPECT_EQ(status->checkpoint_clock(), 200u);
    AwaitNoProcess(id);
  }
};

TEST_F(ProgramLossesTest, CancelLeavesNothing) {
  // A child in a session of its own, one that ignores SIGTERM, and one that is stopped.
  const v1::JobSpec spec = [] {
    v1::JobSpec job = Shell(
        "setsid sleep 1000 & (trap '' TERM; while true; do sleep 1000; done) & sleep 1000 & "
        "kill -STOP $!; trap 'echo got SIGTERM; exit 0' TERM; echo ready; wait; wait; wait");
    job.mutable_model()->mutable_program()->set_grace_seconds(1);
    return job;
  }();
  const std::string id = Submit(spec);
  AwaitLog(id, "ready");
  ASSERT_GE(ProcessesOf(id).size(), 6u);
  v1::JobStatus cancelled;
  ASSERT_TRUE(cluster_->jobs().Cancel(id, "the test", cancelled).ok());
  AwaitNoProcess(id);
  while (Log(id).find("got SIGTERM") == std::string::npos) absl::SleepFor(absl::Milliseconds(10));
}

TEST_F(ProgramLossesTest, GoesOnFromTheLastCheckpointWhereverARankIsKilled) {
  // Kills itself at different steps; the other rank then waits for it with its part, or is killed.
  for (const int step : {1, 4, 5, 6, 11, 20}) {
    SCOPED_TRACE(step);
    const v1::JobStatus status = Run(Counting(absl::StrCat(
        "if rank == 1 and step == ", step, " and restarts == 0: os.kill(os.getpid(), 9)")));
    EXPECT_EQ(status.state(), v1::SUCCEEDED) << status.message() << last_log_;
    EXPECT_EQ(status.checkpoint_clock(), 20u);
    EXPECT_EQ(status.generation(), 2u);
    EXPECT_THAT(last_log_, HasSubstr(absl::StrCat("goes on from ", (step - 1) / 5 * 5, "\n")));
    EXPECT_THAT(Events(status.job_id()),
                Contains(HasSubstr("the program was ended by signal 9 (Killed)")));
  }
}

TEST_F(ProgramLossesTest, EndsRightWhenRanksAreKilled) { KillRanks(4); }

// The pause before each further start is longer.
TEST_F(ProgramLossesTest, EndsRightHoweverOftenARankIsKilledExhaustive) { KillRanks(10); }

TEST_F(ProgramLossesTest, ATaskThatIsKilledTakesItsProgramAlong) {
  v1::JobSpec spec = Shell("sleep 1000 & echo ready; wait");
  spec.mutable_model()->mutable_program()->set_max_restarts(1);
  const std::string id = Submit(spec);
  AwaitLog(id, "ready");
  const std::vector<pid_t> programs = ProcessesOf(id);
  const std::vector<pid_t> tasks = cluster_->ChildrenOf("worker-0");
  ASSERT_EQ(tasks.size(), 1u);
  kill(tasks[0], SIGKILL);
  const auto again =
      cluster_->Await(id, [](const v1::JobStatus& status) { return status.generation() == 2; });
  ASSERT_TRUE(again.ok()) << again.status();
  const auto gone = [&] {
    const std::vector<pid_t> left = ProcessesOf(id);
    return std::none_of(programs.begin(), programs.end(), [&](pid_t process) {
      return std::count(left.begin(), left.end(), process) > 0;
    });
  };
  while (!gone()) absl::SleepFor(absl::Milliseconds(10));
  v1::JobStatus cancelled;
  ASSERT_TRUE(cluster_->jobs().Cancel(id, "the test", cancelled).ok());
  AwaitNoProcess(id);
}

TEST_F(ProgramLossesTest, RestartsAreBounded) {
  v1::JobSpec spec = Shell("exit 1", 1);
  spec.mutable_model()->mutable_program()->set_max_restarts(1);
  const v1::JobStatus status = Run(spec);
  EXPECT_EQ(status.state(), v1::FAILED);
  EXPECT_EQ(status.generation(), 2u);
  EXPECT_THAT(status.message(), HasSubstr("(model.program.max_restarts)"));
}

TEST_F(ProgramLossesTest, NamesARankThatEndedEarly) {
  const v1::JobStatus status =
      Run(Python("sys.exit(0) if rank == 1 else None\n"
                 "time.sleep(1)\nsys.exit('lost my peer')\n"));
  EXPECT_EQ(status.state(), v1::FAILED);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("lost my peer"), HasSubstr("slot 1 had ended with status 0 before")));
}

TEST_F(ProgramLossesTest, NamesARankThatHangs) {
  v1::JobSpec spec = Python(R"(
must("report", step=1)
if rank == 1:
    os.kill(os.getpid(), signal.SIGSTOP)
for step in range(2, 1000000):
    must("report", step=step)
    time.sleep(0.05)
)");
  spec.mutable_model()->mutable_program()->set_report_within_seconds(2);
  spec.mutable_model()->mutable_program()->set_grace_seconds(1);
  const v1::JobStatus status = Run(spec);
  EXPECT_EQ(status.state(), v1::FAILED);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("slot 1 on worker"),
                                      HasSubstr("is stuck at step 1"), HasSubstr("is stopped")));
  AwaitNoProcess(status.job_id());
}

TEST_F(ProgramLossesTest, AnElasticProgramGetsBackTheLostRankAlone) {
  v1::JobSpec spec = Python(R"(
assert "MASTER_ADDR" not in os.environ
must("report", step=1)
print("rank", rank, "runs, restarts", restarts)
if rank == 1 and restarts == 0:
    os.kill(os.getpid(), 9)
while rank == 0 and not os.path.exists(os.environ["MARK"]):
    time.sleep(0.02)
open(os.environ["MARK"], "w")
)");
  v1::ProgramSpec& program = *spec.mutable_model()->mutable_program();
  program.set_elastic(true);
  program.set_max_restarts(2);
  (*program.mutable_environment())["MARK"] = testing::TempDir() + "/mark";
  const v1::JobStatus status = Run(spec);
  EXPECT_EQ(status.state(), v1::SUCCEEDED) << status.message() << last_log_;
  EXPECT_EQ(status.generation(), 1u);
  EXPECT_THAT(last_log_, HasSubstr("rank 1 runs, restarts 1"));
  EXPECT_THAT(last_log_, Not(HasSubstr("rank 0 runs, restarts 1")));
}

TEST(ProgramClusterTest, NothingIsLeftAfterADaemonsDeath) {
  for (const std::string daemon : {"worker-0", "coordinator"}) {
    auto cluster = ProcessCluster::Start({.servers = 0, .workers = 1, .allow_programs = true});
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    v1::JobSpec spec;
    spec.set_name("program");
    v1::ProgramSpec& program = *spec.mutable_model()->mutable_program();
    const std::string mark = absl::StrCat(testing::TempDir(), "/runs-", daemon);
    for (const std::string argument :
         {std::string("sh"), std::string("-c"),
          absl::StrCat("setsid sleep 1000 & echo $! > ", mark, ".new && mv ", mark, ".new ", mark,
                       "; wait")}) {
      program.add_command(argument);
    }
    program.set_memory_bytes(uint64_t{1} << 28);
    const auto id = (*cluster)->Submit(spec);
    ASSERT_TRUE(id.ok()) << id.status();
    while (!fs::exists(mark)) absl::SleepFor(absl::Milliseconds(10));
    pid_t child = 0;
    std::ifstream(mark) >> child;
    ASSERT_GT(child, 0);
    ASSERT_EQ(kill(child, 0), 0);
    (*cluster)->Kill(daemon, SIGKILL);
    if (daemon == "coordinator") {
      // The program goes on while the coordinator is away.
      EXPECT_EQ(kill(child, 0), 0);
      ASSERT_TRUE((*cluster)->Restart(daemon).ok());
      v1::JobStatus cancelled;
      ASSERT_TRUE((*cluster)->jobs().Cancel(*id, "the test", cancelled).ok());
    }
    const auto gone = [child] {
      std::ifstream file(absl::StrCat("/proc/", child, "/stat"));
      std::string stat;
      std::getline(file, stat);
      return stat.empty() || stat.find(") Z") != std::string::npos;
    };
    while (!gone()) absl::SleepFor(absl::Milliseconds(10));
  }
}

TEST(ProgramClusterTest, AProgramMaySaveInItsGraceWhenItsWorkerEnds) {
  auto cluster = ProcessCluster::Start({.servers = 0, .workers = 1, .allow_programs = true});
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  v1::JobSpec spec;
  spec.set_name("program");
  v1::ProgramSpec& program = *spec.mutable_model()->mutable_program();
  for (const std::string& argument :
       {std::string("python3"), std::string("-c"), absl::StrCat(kProgramTalks, R"(
import subprocess

# It needs its helper to save, which would not outlive a signal.
helper = subprocess.Popen(["sh", "-c", "read line; echo saved"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

def save(number, frame):
    folder = must("begin_checkpoint", step=1)["folder"]
    open(f"{folder}/state", "wb").write(helper.communicate(b"go\n")[0])
    assert helper.returncode == 0, helper.returncode
    must("commit_checkpoint", step=1, whole=True)
    sys.exit(0)

signal.signal(signal.SIGTERM, save)
must("report", step=1)
while True:
    time.sleep(1)
)")}) {
    program.add_command(argument);
  }
  program.set_memory_bytes(uint64_t{1} << 28);
  const auto id = (*cluster)->Submit(spec);
  ASSERT_TRUE(id.ok()) << id.status();
  const auto runs = (*cluster)->Await(
      *id, [](const v1::JobStatus& status) { return status.progress().step() == 1; });
  ASSERT_TRUE(runs.ok()) << runs.status();
  (*cluster)->Stop("worker-0");
  v1::JobStatus left;
  ASSERT_TRUE((*cluster)->jobs().Get(*id, left).ok());
  EXPECT_EQ(left.checkpoint_clock(), 1u);
  EXPECT_THAT(left.message(), Not(HasSubstr("the task was told to stop"))) << "it has not failed";
}

}  // namespace
}  // namespace muster
