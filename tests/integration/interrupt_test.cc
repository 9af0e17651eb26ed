// What Ctrl-C leaves behind of commands that take long: nothing, or what they name.

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "client/cluster/spawn.h"
#include "common/files/bytes_of_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/harness/jobs.h"
#include "tests/harness/muster_command.h"
#include "tests/integration/written_job.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

v1::JobSpec LongJob() {
  v1::JobSpec spec = SmallJob();
  spec.mutable_stop()->set_steps(100'000'000);
  return spec;
}

// Runs `muster` until its output has `text`, and interrupts it. Returns the output; `status` is
// what waitpid told.
std::string Interrupted(const std::string& arguments, const std::string& text, int& status) {
  const std::string output = ::testing::TempDir() + "/interrupted.txt";
  std::filesystem::remove(output);
  std::vector<std::string> command = {std::filesystem::absolute("client/muster").string()};
  for (const absl::string_view word : absl::StrSplit(arguments, ' ')) command.emplace_back(word);
  const auto pid = Spawn({.command = command, .output_file = output});
  EXPECT_TRUE(pid.ok()) << pid.status();
  if (!pid.ok()) return "";
  while (!absl::StrContains(BytesOfFile(output), text)) {
    if (waitpid(*pid, &status, WNOHANG) == *pid) return BytesOfFile(output);
    absl::SleepFor(absl::Milliseconds(10));
  }
  kill(*pid, SIGINT);
  waitpid(*pid, &status, 0);
  return BytesOfFile(output);
}

TEST(InterruptTest, AWatchedJobGoesOn) {
  const std::string folder = ::testing::TempDir() + "/watched";
  const absl::Cleanup down = [&] { Muster("down --data-dir " + folder); };
  ASSERT_EQ(Muster("up --servers 1 --workers 2 --data-dir " + folder).exit_code, 0);
  const std::string job = WriteJob("long.textproto", LongJob());
  int status = 0;
  const std::string output =
      Interrupted(absl::StrCat("submit ", job, " --watch --data-dir ", folder), "RUNNING", status);
  EXPECT_EQ(WEXITSTATUS(status), 130) << output;
  const std::string id = output.substr(0, output.find('\n'));
  EXPECT_THAT(output, HasSubstr(absl::StrCat("job ", id, " goes on: `muster watch ", id,
                                             " --data-dir ", folder, "` follows it")));
  EXPECT_THAT(Muster(absl::StrCat("status ", id, " --data-dir ", folder)).output,
              HasSubstr("state        RUNNING\n"));
  EXPECT_EQ(Muster(absl::StrCat("cancel ", id, " --data-dir ", folder)).exit_code, 0);
}

TEST(InterruptTest, AComparisonLeavesNothing) {
  const std::string temporary = ::testing::TempDir() + "/temporary";
  std::filesystem::create_directory(temporary);
  setenv("TMPDIR", temporary.c_str(), 1);
  int status = 0;
  const std::string output =
      Interrupted("compare " + WriteJob("long.textproto", LongJob()), "RUNNING", status);
  unsetenv("TMPDIR");
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) << output;
  EXPECT_THAT(output, HasSubstr("its job and its files are removed within seconds"));
  // Its cluster ends by itself, and the folder with it.
  while (!std::filesystem::is_empty(temporary)) absl::SleepFor(absl::Milliseconds(50));
}

}  // namespace
}  // namespace muster
