// Jobs that run a program of the user's own, on clusters of real processes: shells and Python
// scripts, without any code of Muster's in them.

#include <sys/stat.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/rpc/rpc_credentials.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job_service.pb.h"
#include "proto/metrics.pb.h"
#include "tests/harness/process_cluster.h"
#include "tests/integration/program_fixture.h"

namespace muster {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST_F(ProgramTest, RunsOneProcessPerWorkerWithTheEnvironmentOfTorchrun) {
  v1::JobSpec spec = Shell(
      "echo \"rank=$RANK world=$WORLD_SIZE local=$LOCAL_RANK/$LOCAL_WORLD_SIZE "
      "restarts=$TORCHELASTIC_RESTART_COUNT/$TORCHELASTIC_MAX_RESTARTS "
      "run=$TORCHELASTIC_RUN_ID master=$MASTER_ADDR mine=$MINE "
      "gpus=[$CUDA_VISIBLE_DEVICES]"
      "\"; test -n \"$MASTER_PORT\" && test -S \"$MUSTER_TASK\"",
      4);
  (*spec.mutable_model()->mutable_program()->mutable_environment())["MINE"] = "a value";
  const v1::JobStatus status = Run(spec);
  EXPECT_EQ(status.state(), v1::SUCCEEDED) << status.message();
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_THAT(last_log_, HasSubstr(absl::StrCat("rank=", rank, " world=4 local=", rank % 2,
                                                  "/2 restarts=0/0 run=", status.job_id(),
                                                  " "
                                                  "master=127.0.0.1 mine=a value gpus=[]\n")));
  }
}

TEST_F(ProgramTest, GivesTheProgramNothingOfTheWorkers) {
  ASSERT_EQ(setenv("SECRET_OF_THE_TEST", "1", 1), 0);
  const v1::JobStatus status =
      Run(Shell("env | cut -d= -f1 | sort | tr '\\n' ' '; ls /proc/self/fd | tr '\\n' ' '; "
                "grep NoNewPrivs /proc/self/status; pwd; ls | wc -l; cat; umask",
                1));
  EXPECT_EQ(status.state(), v1::SUCCEEDED) << status.message();
  EXPECT_THAT(last_log_, HasSubstr("NoNewPrivs:\t1"));
  // Those of `ls`: the three standard ones, and the folder that it lists.
  EXPECT_THAT(last_log_, HasSubstr("WORLD_SIZE 0 1 2 3 NoNewPrivs"));
  EXPECT_THAT(last_log_, Not(HasSubstr("SECRET_OF_THE_TEST")));
  EXPECT_THAT(last_log_, Not(HasSubstr("GLIBC_TUNABLES")));
  EXPECT_THAT(last_log_, HasSubstr("/work\n0\n"));
  // The folder is gone with its task.
  const size_t at = last_log_.find("/muster-task-");
  ASSERT_NE(at, std::string::npos);
  const size_t begin = last_log_.rfind('\n', at) + 1;
  EXPECT_FALSE(std::filesystem::exists(last_log_.substr(begin, last_log_.find('\n', at) - begin)));
}

TEST_F(ProgramTest, ReportsBecomeProgressHistoryAndEvaluations) {
  const v1::JobStatus status = Run(Python(R"(
for step in range(1, 11):
    must("report", step=step, metrics={"loss": 1 / step, "accuracy": step / 10, "odd": "NaN"},
         examples=4, evaluation={"accuracy": 0.5, "loss": 0.25} if step == 10 else None)
info = must("info")
assert (info["rank"], info["world_size"], info["restarts"]) == (rank, 2, 0), info
must("report", step=9)
must("report", step=10, metrics={"Upper": 1})
assert "setp" in call("report", setp=10)["message"]
assert call("resume") == {"ok": True, "folder": None, "step": 0}
os.environ["MUSTER_TASK_TOKEN"] = "of another task"
assert call("info")["code"] == "PERMISSION_DENIED"
)"));
  EXPECT_EQ(status.state(), v1::SUCCEEDED) << status.message() << last_log_;
  EXPECT_EQ(status.progress().step(), 10u);
  ASSERT_EQ(status.evaluations_size(), 1);
  EXPECT_EQ(status.evaluations(0).clock(), 10u);
  EXPECT_EQ(status.evaluations(0).metric(), "accuracy");
  EXPECT_EQ(status.evaluations(0).value(), 0.5);
  EXPECT_EQ(status.evaluations(0).loss(), 0.25);
  v1::ReadMetricsRequest all;
  all.set_job_id(status.job_id());
  v1::MetricsChunk history;
  ASSERT_TRUE(cluster_->jobs().History(all, history).ok());
  std::map<std::string, double> last;
  for (const v1::Series& series : history.series()) {
    last[series.name()] = series.points().rbegin()->last();
  }
  EXPECT_EQ(last["train/loss"], 0.1);
  EXPECT_EQ(last["train/accuracy"], 1);
  EXPECT_EQ(last["held_out/accuracy"], 0.5);
  EXPECT_EQ(last["held_out/loss"], 0.25);
  EXPECT_EQ(last.count("train/odd"), 0u);
  EXPECT_EQ(CountOf("the report of step 9 is left out"), 2) << last_log_;
  EXPECT_EQ(CountOf("the metric \"Upper\" is left out"), 2) << last_log_;
}

TEST_F(ProgramTest, FiguresThatAreNotFiniteAreShownAsTheyAre) {
  const v1::JobStatus status = Run(Python(R"(
must("report", step=1, metrics={"loss": 0.5}, examples=8, evaluation={"accuracy": 0.5})
time.sleep(0.5)
must("report", step=2, metrics={"loss": "NaN"}, examples=8, evaluation={"accuracy": "NaN", "loss": "Infinity"})
)",
                                          1));
  EXPECT_EQ(status.state(), v1::SUCCEEDED) << status.message() << last_log_;
  EXPECT_TRUE(std::isnan(status.progress().loss())) << status.progress().loss();
  ASSERT_EQ(status.evaluations_size(), 2);
  EXPECT_TRUE(std::isnan(status.evaluations(1).value()));
  EXPECT_TRUE(std::isinf(status.evaluations(1).loss()));
  std::string metrics;
  ASSERT_TRUE(cluster_->jobs().Metrics(metrics).ok());
  const std::string gauge = absl::StrCat("muster_job_loss{job_id=\"", status.job_id(), "\"} ");
  EXPECT_THAT(metrics, HasSubstr(gauge + "Nan"));
  const v1::JobStatus none = Run(Python("must(\"report\", step=1, examples=8)", 1));
  EXPECT_FALSE(none.progress().has_loss());
}

TEST_F(ProgramTest, MoreMetricsThanAreKeptAreLeftOut) {
  const v1::JobStatus status = Run(Python(R"(
for step in range(1, 4):
    must("report", step=step, metrics={"loss": 0.5, **{f"layer{i}": i for i in range(1000)}})
)",
                                          1));
  EXPECT_EQ(status.state(), v1::SUCCEEDED) << status.message() << last_log_;
  EXPECT_EQ(status.progress().loss(), 0.5);
  EXPECT_EQ(CountOf(" is left out, and others"), 1) << last_log_;
}

// The end of a job is told once the log has all that its processes printed, however it ended.
TEST_F(ProgramTest, TheLogIsWholeWhenTheEndIsTold) {
  for (const char* end : {"", "exit 3"}) {
    for (int round = 0; round < 3; ++round) {
      std::string followed;
      const std::string id = Submit(Shell(absl::StrCat("sleep 0.3; echo the result; ", end), 4));
      v1::ReadLogsRequest follow;
      follow.set_job_id(id);
      follow.set_follow(true);
      ASSERT_TRUE(
          cluster_->jobs()
              .Logs(follow, [&](absl::string_view text) { absl::StrAppend(&followed, text); })
              .ok());
      Watch(id);
      EXPECT_EQ(followed, last_log_);
      const int printed = CountOf("the result\n");
      if (*end == '\0') {
        EXPECT_EQ(printed, 4) << last_log_;
      } else {
        // The first that fails ends the others.
        EXPECT_GE(printed, 1) << last_log_;
      }
      EXPECT_EQ(CountOf(" of the program ended "), CountOf(" of the program was ended ") > 0
                                                       ? 4 - CountOf(" of the program was ended ")
                                                       : 4)
          << last_log_;
    }
  }
  const std::string id = Submit(
      Shell("trap 'echo the last state; exit 0' TERM; echo ready; while true; do sleep 0.1; done"));
  AwaitLog(id, "ready");
  v1::JobStatus cancelled;
  ASSERT_TRUE(cluster_->jobs().Cancel(id, "the test", cancelled).ok());
  EXPECT_EQ(Watch(id).state(), v1::CANCELLED);
  EXPECT_THAT(last_log_, HasSubstr("the last state\n"));
}

TEST_F(ProgramTest, WhatTheTaskSaysBeginsALine) {
  const v1::JobStatus status =
      Run(Shell("printf '\\r 10%%\\r 60%%'; printf '\\r100%%\\n'; printf 'no line break'", 1));
  EXPECT_EQ(status.state(), v1::SUCCEEDED) << status.message();
  EXPECT_THAT(last_log_, HasSubstr("\n100%\nno line break\n"));
}

TEST_F(ProgramTest, SaysHowAProgramFailedWithItsLastLines) {
  const v1::JobStatus status = Run(Shell("echo first; echo the reason >&2; exit 3", 1));
  EXPECT_EQ(status.state(), v1::FAILED);
  EXPECT_THAT(
      status.message(),
      AllOf(HasSubstr("slot 0 on worker worker-"), HasSubstr("the program ended with status 3"),
            HasSubstr("first\nthe reason"), HasSubstr("max_restarts is 0")));
}

TEST_F(ProgramTest, FailsAtOnceWhatCannotStart) {
  struct Case {
    std::vector<std::string> command;
    std::string folder;
    std::string text;
  };
  const std::string script = testing::TempDir() + "/no_script";
  std::ofstream(script) << "echo\n";
  chmod(script.c_str(), 0755);
  for (const Case& wrong :
       {Case{{"no-such-program"}, "", "no such program in the folders of PATH"},
        Case{{"/no/such/program"}, "", "model.program.command[0] is \"/no/such/program\""},
        Case{{script}, "", "#!/bin/sh"},
        Case{{"true"}, "/no/such/folder", "model.program.working_folder is \"/no/such/folder\""}}) {
    v1::JobSpec spec = Job(wrong.command, 1);
    spec.mutable_model()->mutable_program()->set_working_folder(wrong.folder);
    spec.mutable_model()->mutable_program()->set_max_restarts(3);
    const v1::JobStatus status = Run(spec);
    EXPECT_EQ(status.state(), v1::FAILED) << wrong.text;
    EXPECT_THAT(status.message(), HasSubstr(wrong.text));
    EXPECT_EQ(status.generation(), 1u) << "not tried again";
  }
}

TEST_F(ProgramTest, NeverWaitsForALogThatIsTooLong) {
  const v1::JobStatus status = Run(Python(R"(
line = "x" * 1023
for _ in range(64 << 10):
    print(line)
print("the end")
sys.exit(4)
)",
                                          1));
  EXPECT_EQ(status.state(), v1::FAILED);
  EXPECT_THAT(status.message(), HasSubstr("the end"));
  EXPECT_THAT(last_log_, HasSubstr("bytes of output were dropped here"));
  EXPECT_LT(last_log_.size(), 8u << 20);
}

TEST_F(ProgramTest, EndsAProgramThatTakesMoreMemoryThanItSaid) {
  v1::JobSpec spec = Python("hog = b'x' * (300 << 20)\ntime.sleep(600)\n", 1);
  spec.mutable_model()->mutable_program()->set_memory_bytes(100 << 20);
  const v1::JobStatus status = Run(spec);
  EXPECT_EQ(status.state(), v1::FAILED);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("RESOURCE_EXHAUSTED"), HasSubstr("memory_bytes is 100")));
}

TEST_F(ProgramTest, CheckpointsAreOfAllRanksAndResumable) {
  const v1::JobStatus first = Run(Counting("pass"));
  EXPECT_EQ(first.state(), v1::SUCCEEDED) << first.message() << last_log_;
  EXPECT_EQ(first.checkpoint_clock(), 20u);
  v1::ListCheckpointsReply checkpoints;
  ASSERT_TRUE(cluster_->jobs().Checkpoints(first.job_id(), checkpoints).ok());
  ASSERT_EQ(checkpoints.checkpoints_size(), 2) << "as many as are kept";
  EXPECT_EQ(checkpoints.checkpoints(0).clock(), 15u);
  EXPECT_EQ(checkpoints.checkpoints(0).files(), 2u);
  v1::CheckpointRequest last;
  last.set_job_id(first.job_id());
  v1::VerifyCheckpointReply verified;
  ASSERT_TRUE(cluster_->jobs().VerifyCheckpoint(last, verified).ok());
  EXPECT_EQ(verified.damage_size(), 0);

  v1::JobSpec next = Counting("pass");
  next.set_resume_from(absl::StrCat(first.job_id(), "@15"));
  const v1::JobStatus rest = Run(next);
  EXPECT_EQ(rest.state(), v1::SUCCEEDED) << rest.message() << last_log_;
  EXPECT_THAT(last_log_, HasSubstr("goes on from 15\n"));

  const absl::Status exported =
      cluster_->jobs().Export(last, [](absl::string_view) { return absl::OkStatus(); });
  EXPECT_THAT(std::string(exported.message()), HasSubstr("files that a program wrote"));
}

TEST_F(ProgramTest, WrongCheckpointsAreRefusedByName) {
  const v1::JobStatus status = Run(Python(R"(
def commit(name, step, **fields):
    folder = must("begin_checkpoint", step=step)["folder"]
    if name:
        open(f"{folder}/{name}", "w").write(str(rank))
    return call("commit_checkpoint", step=step, **fields)

assert "no checkpoint was begun" in call("commit_checkpoint", step=1)["message"]
answer = commit("same", 1)
if not answer["ok"]:
    assert "slots 0 and 1 both wrote" in answer["message"] or "slots 1 and 0 both wrote" in answer["message"], answer
    print("refused", answer["message"])
    answer = commit(f"own-{rank}", 1)
assert answer["ok"], answer
folder = must("begin_checkpoint", step=2)["folder"]
os.symlink("/etc/passwd", f"{folder}/link")
assert "no regular file" in call("commit_checkpoint", step=2)["message"]
if rank == 0:
    answer = commit("alone", 3, whole=True)
    assert answer["ok"], answer
)"));
  EXPECT_EQ(status.state(), v1::SUCCEEDED) << status.message() << last_log_;
  EXPECT_THAT(last_log_, HasSubstr("refused"));
  EXPECT_EQ(status.checkpoint_clock(), 3u);
}

// A script as people have it: nothing in it is for Muster. The loss of a rank ends the others'
// calls, and all begin again.
TEST_F(ProgramTest, AnUnchangedTorchrunScriptTrains) {
  if (std::system("/usr/bin/python3 -c 'import torch' 2> /dev/null") != 0) {
    GTEST_SKIP() << "/usr/bin/python3 has no torch (Debian: python3-torch)";
  }
  constexpr char kScript[] = R"(
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

assert dist.is_torchelastic_launched()
dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + dist.get_rank())
for step in range(50):
    if step == 20 and dist.get_rank() == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        os.kill(os.getpid(), 9)
    x = torch.randn(16, 8)
    loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
assert loss.item() < 0.01, loss
print(f"rank {dist.get_rank()} of {dist.get_world_size()} has {model.module.weight.sum().item()}")
)";
  v1::JobSpec spec = Job({"/usr/bin/python3", "-c", kScript});
  spec.mutable_model()->mutable_program()->set_memory_bytes(uint64_t{2} << 30);
  spec.mutable_model()->mutable_program()->set_max_restarts(2);
  const v1::JobStatus status = Run(spec);
  EXPECT_EQ(status.state(), v1::SUCCEEDED) << status.message() << last_log_;
  EXPECT_GE(status.generation(), 2u);
  // Both ranks have the same weights.
  const size_t first = last_log_.find("rank 0 of 2 has "),
               second = last_log_.find("rank 1 of 2 has ");
  ASSERT_NE(first, std::string::npos);
  ASSERT_NE(second, std::string::npos);
  const auto weights = [&](size_t at) {
    return last_log_.substr(at + 16, last_log_.find('\n', at) - at - 16);
  };
  EXPECT_EQ(weights(first), weights(second));
}

TEST_F(ProgramTest, NeedsTheToken) {
  JobClient stranger(cluster_->coordinator_address(), RpcCredentials::PlainText());
  std::string id;
  EXPECT_EQ(stranger.Submit(Shell("true"), id).code(), absl::StatusCode::kFailedPrecondition);
  const std::string wrong = testing::TempDir() + "/wrong.token";
  std::ofstream(wrong) << "not-the-right-token\n";
  JobClient guesser(cluster_->coordinator_address(), RpcCredentials::PlainText(),
                    JobClient::Patience(), wrong);
  EXPECT_EQ(guesser.Submit(Shell("true"), id).code(), absl::StatusCode::kPermissionDenied);
}

TEST(ProgramClusterTest, WorkersTakeNoProgramsUnlessTheyAreTold) {
  auto cluster = ProcessCluster::Start({.servers = 0, .workers = 1, .coordinator_arguments = {}});
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  v1::JobSpec spec;
  spec.set_name("program");
  spec.mutable_model()->mutable_program()->add_command("true");
  spec.mutable_model()->mutable_program()->set_memory_bytes(1 << 28);
  EXPECT_EQ((*cluster)->Submit(spec).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace muster
