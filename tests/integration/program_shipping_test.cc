// Tests of the folder that is sent with a program: the machine that submitted the job no longer has
// it, and whatever is lost, the program goes on in its own copy of it.

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/files/temp_folder.h"
#include "common/rpc/rpc_credentials.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job_service.pb.h"
#include "tests/harness/muster_command.h"
#include "tests/harness/process_cluster.h"
#include "tests/integration/program_fixture.h"

namespace muster {
namespace {

using testing::HasSubstr;

// Asks a module of its own folder for its words, and writes where it is.
constexpr char kShippedScript[] = R"(
import words
assert os.getcwd() != home, os.getcwd()
print(words.GREETING, "in", os.getcwd(), "by", open("data/text").read())
def at_step(step):
  open(f"output-{rank}", "w").write(str(step))
  time.sleep(pace)
)";

class ProgramShippingTest : public ProgramTest {
 protected:
  // Writes a job and the folder that is to be sent with it; returns the job's file.
  std::string WriteFolder(const std::string& greeting, double pace = 0) {
    home_.Write("words.py", absl::StrCat("GREETING = '", greeting, "'\n"));
    std::filesystem::create_directories(home_.path() + "/data");
    home_.Write("data/text", "the data");
    home_.Write("not_sent.log", "x");
    home_.Write(".musterignore", "*.log\n");
    home_.Write("train.py", absl::StrCat(kProgramTalks, "home = '", home_.path(),
                                         "'\npace = ", pace, "\n", kShippedScript, kProgramCounts));
    return home_.Write("job.yaml", R"(
name: shipped
workers: 2
model:
  program:
    command: [python3, train.py]
    memory_bytes: 1GiB
    max_restarts: 3
)");
  }

  // Submits by the command line; returns what it printed.
  CommandResult Ship(const std::string& job_file, const std::string& flags = "--ship") {
    return Muster(absl::StrCat("submit ", job_file, " ", flags, " --coordinator ",
                               cluster_->coordinator_address()),
                  absl::StrCat("MUSTER_PROGRAM_TOKEN_FILE=", cluster_->folder(), "/program.token"));
  }

  // Ships the folder and removes it; returns the job's id.
  std::string ShipAndRemove(const std::string& job_file) {
    const CommandResult shipped = Ship(job_file);
    EXPECT_EQ(shipped.exit_code, 0) << shipped.output;
    std::filesystem::remove_all(home_.path());
    v1::ListJobsReply jobs;
    EXPECT_TRUE(cluster_->jobs().List({}, jobs).ok());
    return jobs.jobs_size() == 0 ? "" : jobs.jobs(jobs.jobs_size() - 1).job_id();
  }

  static std::string ArchiveOf(const std::string& id) {
    v1::JobStatus status;
    EXPECT_TRUE(cluster_->jobs().Get(id, status).ok());
    EXPECT_EQ(status.spec().model().program().working_folder(), "");
    return absl::StrCat(cluster_->folder(), "/checkpoints/shipped/",
                        status.spec().model().program().shipped(), "/archive");
  }

  // Returns whether this machine has a copy of the job's folder.
  static bool IsUnpacked(const std::string& id) {
    const std::string base = absl::StrCat(std::filesystem::temp_directory_path().string(),
                                          "/muster-shipped-", geteuid());
    for (const auto& each : std::filesystem::directory_iterator(base)) {
      if (each.path().filename().string().find(id) == 0) return true;
    }
    return false;
  }

  TempFolder home_;
};

TEST_F(ProgramShippingTest, AProgramRunsWhereItsFolderIsNot) {
  const std::string id = ShipAndRemove(WriteFolder("hello"));
  const v1::JobStatus status = Watch(id);
  EXPECT_EQ(status.state(), v1::SUCCEEDED) << status.message() << last_log_;
  EXPECT_EQ(CountOf("hello in "), 2) << last_log_;
  EXPECT_EQ(CountOf("by the data"), 2) << last_log_;
  EXPECT_FALSE(IsUnpacked(id));
  // Another job goes on from its checkpoint, in the same folder.
  const std::string archive = ArchiveOf(id);
  v1::JobSpec next = status.spec();
  next.set_resume_from(absl::StrCat(id, "@15"));
  const v1::JobStatus rest = Run(next);
  EXPECT_EQ(rest.state(), v1::SUCCEEDED) << rest.message() << last_log_;
  EXPECT_THAT(last_log_, HasSubstr("goes on from 15\n"));
  // The archive goes with the last job that names it.
  ASSERT_TRUE(cluster_->jobs().Delete(id).ok());
  absl::SleepFor(absl::Seconds(2));
  EXPECT_TRUE(std::filesystem::exists(archive));
  ASSERT_TRUE(cluster_->jobs().Delete(rest.job_id()).ok());
  while (std::filesystem::exists(archive)) absl::SleepFor(absl::Milliseconds(10));
  EXPECT_EQ(cluster_->Submit(next).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ProgramShippingTest, ItGoesOnAfterTheLossOfAWorkerAndOfTheCoordinator) {
  const std::string id = ShipAndRemove(WriteFolder("again", 0.2));
  const auto counted = cluster_->Await(
      id, [](const v1::JobStatus& status) { return status.checkpoint_clock() >= 5; });
  ASSERT_TRUE(counted.ok()) << counted.status();
  EXPECT_TRUE(IsUnpacked(id));
  cluster_->Kill("coordinator", SIGKILL);
  for (const char* worker : {"worker-0", "worker-1"}) cluster_->Kill(worker, SIGKILL);
  AwaitNoProcess(id);
  for (const char* daemon : {"coordinator", "worker-0", "worker-1"}) {
    ASSERT_TRUE(cluster_->Restart(daemon).ok());
  }
  const v1::JobStatus status = Watch(id);
  EXPECT_EQ(status.state(), v1::SUCCEEDED) << status.message() << last_log_;
  EXPECT_GE(status.generation(), 2u);
  EXPECT_GE(CountOf("again in "), 4) << last_log_;
  EXPECT_FALSE(IsUnpacked(id));
}

TEST_F(ProgramShippingTest, WhatTheCoordinatorHasIsNotSentAgain) {
  const std::string job = WriteFolder("once");
  ASSERT_EQ(Ship(job).exit_code, 0);
  v1::ListJobsReply jobs;
  ASSERT_TRUE(cluster_->jobs().List({}, jobs).ok());
  const std::string archive = ArchiveOf(jobs.jobs(jobs.jobs_size() - 1).job_id());
  struct stat before, after;
  ASSERT_EQ(stat(archive.c_str(), &before), 0);
  ASSERT_EQ(Ship(job).exit_code, 0);
  ASSERT_EQ(stat(archive.c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);
}

TEST_F(ProgramShippingTest, SaysWhatCannotBeSent) {
  const std::string job = WriteFolder("hello");
  ASSERT_EQ(symlink("/etc/passwd", (home_.path() + "/link").c_str()), 0);
  const CommandResult link = Ship(job);
  EXPECT_NE(link.exit_code, 0);
  EXPECT_THAT(link.output, HasSubstr("/link is a symbolic link"));
  EXPECT_THAT(Ship(job, "--ship --set model.program.working_folder=/no/such/folder").output,
              HasSubstr("there is no folder /no/such/folder on this machine"));
  const std::string other = home_.Write("mlp.yaml", "name: mlp\nmodel: {mlp: {classes: 2}}\n");
  EXPECT_THAT(Ship(other).output, HasSubstr("leave --ship out"));
  // Whoever has no right to programs sends nothing.
  JobClient stranger(cluster_->coordinator_address(), RpcCredentials::PlainText());
  EXPECT_EQ(stranger.Ship("sha256-", "x").code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace muster
