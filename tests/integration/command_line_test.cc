// What a user types: words that `muster` understands or refuses, and clusters that it starts, with
// their exit codes, JSON, and what they leave behind.

#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/version.h"
#include "common/files/bytes_of_file.h"
#include "common/rpc/certificates_for_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/harness/jobs.h"
#include "tests/harness/muster_command.h"
#include "tests/integration/processes_with.h"
#include "tests/integration/written_job.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using Result = CommandResult;

TEST(CommandLineTest, UsageErrorsAreToldApart) {
  EXPECT_EQ(Muster("").exit_code, 2);
  Result result = Muster("sumbit job");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, HasSubstr("sumbit"));
  EXPECT_EQ(Muster("up --servers many").exit_code, 2);
  EXPECT_EQ(Muster("up --collectives-transport pigeon").exit_code, 2);
  for (const std::string connections : {"0", "17", "some"}) {
    result = Muster("up --collectives-connections " + connections);
    EXPECT_EQ(result.exit_code, 2) << result.output;
    EXPECT_THAT(result.output, HasSubstr("--collectives-connections"));
  }
  EXPECT_EQ(Muster("list --output yaml").exit_code, 2);
  result = Muster("submit /no/such/job.textproto");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, HasSubstr("/no/such/job.textproto"));
  result = Muster("up --workers 0 --data-dir " + ::testing::TempDir() + "/none");
  EXPECT_EQ(result.exit_code, 2);
}

TEST(CommandLineTest, CommandsWithPlainClustersOfTheirOwnTakeNoCertificates) {
  for (const std::string command : {"compare job.textproto", "demo", "chaos", "bench store"}) {
    const Result result = Muster(command + " --tls-authority authority.pem");
    EXPECT_EQ(result.exit_code, 2) << command << ": " << result.output;
    EXPECT_THAT(result.output, HasSubstr("leave --tls-authority")) << command;
  }
}

TEST(CommandLineTest, WhatIsNotUtf8IsRefusedByNameOrWritten) {
  const std::string folder = ::testing::TempDir() + "/gr\xf6sse";
  // What a cluster's daemons tell one another.
  Result result = Muster("up --output json --data-dir " + folder);
  EXPECT_EQ(result.exit_code, 2);
  const nlohmann::json refused = nlohmann::json::parse(result.output, nullptr, false);
  ASSERT_TRUE(refused.contains("error")) << result.output;
  const std::string message = refused["error"]["message"];
  EXPECT_THAT(message, HasSubstr("--data-dir"));
  EXPECT_THAT(message, HasSubstr("gr\\xf6sse is not UTF-8"));
  EXPECT_FALSE(std::filesystem::exists(folder));
  // What is only a file's name, once in text and once in JSON.
  const std::string text = ::testing::TempDir() + "/text.txt";
  std::ofstream(text) << "some text";
  for (const std::string output : {"text", "json"}) {
    result = Muster(absl::StrCat("--output ", output, " data tokenize --data ", text,
                                 " --tokenizer bytes --force --out ", folder));
    EXPECT_EQ(result.exit_code, 0) << result.output;
  }
  EXPECT_EQ(nlohmann::json::parse(result.output)["tokens"], "9");
}

TEST(CommandLineTest, AClusterRunsThoughItsUsersHomeCannotBeWritten) {
  const std::string folder = ::testing::TempDir() + "/homeless";
  const absl::Cleanup down = [&] { Muster("down --data-dir " + folder); };
  const Result result =
      Muster("up --servers 0 --workers 1 --data-dir " + folder, "HOME=/proc/1/nowhere");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("cannot write /proc/1/nowhere/.muster/current"));
  EXPECT_THAT(result.output, HasSubstr("give them --data-dir " + folder));
  EXPECT_EQ(Muster("cluster --data-dir " + folder).exit_code, 0);
}

TEST(CommandLineTest, AClusterKeepsItsPortsAndIsTheOneThatCommandsUse) {
  const std::string first = ::testing::TempDir() + "/first",
                    second = ::testing::TempDir() + "/second";
  const absl::Cleanup down = [&] {
    for (const std::string& folder : {first, second}) Muster("down --data-dir " + folder);
  };
  const auto up = [](const std::string& folder) {
    const Result result = Muster("up --servers 0 --workers 1 --output json --data-dir " + folder);
    EXPECT_EQ(result.exit_code, 0) << result.output;
    return nlohmann::json::parse(result.output, nullptr, false);
  };
  const nlohmann::json before = up(first);
  EXPECT_EQ(Muster("down --data-dir " + first).exit_code, 0);
  EXPECT_EQ(up(first), before) << "coordinator and page are where they were";
  Result result = Muster("up --servers 0 --workers 1 --data-dir " + second);
  EXPECT_THAT(result.output, HasSubstr("\ncommands use this cluster from now on; the one in " +
                                       first + " runs on"));
  EXPECT_EQ(Muster("down").output, "the cluster in " + second + " is stopped\n");
  EXPECT_THAT(Muster("list").output, HasSubstr("; on this machine run: --data-dir " + first));

  // Somebody else has the ports.
  std::filesystem::copy_file(first + "/ports.json", second + "/ports.json",
                             std::filesystem::copy_options::overwrite_existing);
  result = Muster("up --servers 0 --workers 1 --data-dir " + second);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr(", which the coordinator had before, is in use: it is "));
  EXPECT_THAT(result.output, HasSubstr(", which the page had before, is in use: it is "));
}

TEST(CommandLineTest, AClustersAlertsRunACommandThatTheFolderKeeps) {
  const std::string folder = ::testing::TempDir() + "/alerted";
  const std::string told = ::testing::TempDir() + "/told";
  const std::string command = "echo $MUSTER_ALERT $MUSTER_JOB_NAME >> " + told;
  const std::string job = WriteJob("told.textproto", SmallJob());
  // Runs a job on a cluster of its own, whose end waits for the command.
  const auto train = [&](const std::string& flags, const std::string& name) {
    const absl::Cleanup down = [&] { Muster("down --data-dir " + folder); };
    const Result up =
        Muster(absl::StrCat("up --servers 2 --workers 2 --data-dir ", folder, " ", flags));
    EXPECT_EQ(up.exit_code, 0) << up.output;
    const Result submitted =
        Muster(absl::StrCat("submit ", job, " --set name=", name, " --watch --data-dir ", folder));
    EXPECT_EQ(submitted.exit_code, 0) << submitted.output;
    return up.output;
  };
  EXPECT_THAT(train("--alert-command '" + command + "'", "first"),
              HasSubstr("\nalerts run: " + command + "\n"));
  EXPECT_EQ(BytesOfFile(told), "succeeded first\n");
  EXPECT_THAT(train("", "second"), HasSubstr("\nalerts run: " + command + "\n"));
  EXPECT_EQ(BytesOfFile(told), "succeeded first\nsucceeded second\n");
  EXPECT_THAT(train("--alert-command ''", "third"), Not(HasSubstr("alerts run")));
  EXPECT_EQ(BytesOfFile(told), "succeeded first\nsucceeded second\n");
}

TEST(CommandLineTest, AnUnreachableClusterIsSaidSo) {
  Result result = Muster("list");
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.output, HasSubstr("muster up"));
  result = Muster("list --coordinator 127.0.0.1:1");
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.output, HasSubstr("127.0.0.1:1"));
}

TEST(CommandLineTest, TheEnvironmentNamesTheCoordinatorUnlessTheCommandDoes) {
  setenv("MUSTER_COORDINATOR", "127.0.0.1:1", 1);
  const absl::Cleanup unset = [] { unsetenv("MUSTER_COORDINATOR"); };
  const std::pair<std::string, std::string> tried[] = {
      {"list", "127.0.0.1:1"},
      {"list --coordinator 127.0.0.1:2", "127.0.0.1:2"},
      {"list --data-dir " + ::testing::TempDir() + "/none", "/none"}};
  // At the same time: each tries for a while.
  std::vector<Result> results(std::size(tried));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < results.size(); ++i) {
    threads.emplace_back([&, i] { results[i] = Muster(tried[i].first); });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i].exit_code, 4) << tried[i].first;
    EXPECT_THAT(results[i].output, HasSubstr(tried[i].second));
  }
}

TEST(CommandLineTest, TheVersionIsReleaseCommitAndBuild) {
  Result result = Muster("version");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.output, VersionLine("muster") + "\n");
  EXPECT_EQ(Muster("--version").output, result.output);
  const auto json = nlohmann::json::parse(Muster("version --output json").output);
  EXPECT_EQ(json.at("release"), kRelease);
  EXPECT_EQ(json.at("commit"), Commit());
  EXPECT_EQ(json.at("build"), BuildType());
}

TEST(CommandLineTest, EveryCommandHasHelpWithAnExample) {
  for (const char* command :
       {"up",     "down",       "demo",      "submit",  "list",        "status",   "watch",
        "logs",   "events",     "cancel",    "delete",  "evaluate",    "history",  "export",
        "import", "generate",   "tokenizer", "data",    "compare",     "cluster",  "metrics",
        "bench",  "checkpoint", "plan",      "version", "tensorboard", "describe", "predict"}) {
    const Result result = Muster(absl::StrCat("help ", command));
    EXPECT_EQ(result.exit_code, 0) << command;
    EXPECT_THAT(result.output, HasSubstr("Example: muster")) << command;
  }
  EXPECT_EQ(Muster("help nothing").exit_code, 2);
  Result nested = Muster("help tokenizer train");
  EXPECT_EQ(nested.exit_code, 0);
  EXPECT_THAT(nested.output, HasSubstr("muster tokenizer train"));
  EXPECT_THAT(nested.output, HasSubstr("--vocabulary"));
  nested = Muster("help tokenizer nothing");
  EXPECT_EQ(nested.exit_code, 2);
  EXPECT_THAT(nested.output,
              HasSubstr("muster tokenizer has no command nothing; `muster help tokenizer` lists"));
  EXPECT_THAT(Muster("help").output, HasSubstr("tokenizer"));
  EXPECT_EQ(Muster("up --port 99999").exit_code, 2);
}

TEST(CommandLineTest, AJobThatNeedsServersSaysThatThereAreNone) {
  const std::string folder = ::testing::TempDir() + "/no_servers";
  const absl::Cleanup down = [&] { Muster("down --data-dir " + folder); };
  ASSERT_EQ(Muster("up --servers 0 --workers 2 --data-dir " + folder).exit_code, 0);
  Result result = Muster("submit " + WriteJob("waits.textproto", SmallJob()));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("waits for a server, but the cluster has none"));
  // The coordinator looks for places a moment after it has taken the job.
  std::string listed;
  const absl::Time until = absl::Now() + absl::Minutes(2);
  do {
    listed = Muster("list --output json").output;
  } while (!absl::StrContains(listed, "none to place it on") && absl::Now() < until);
  EXPECT_THAT(listed, HasSubstr("the cluster has none to place it on"));
  EXPECT_THAT(Muster("list").output, HasSubstr("0 of 1 servers live"));
}

TEST(CommandLineTest, AClusterWithCertificatesIsKnownToTheCommandsOfItsFolder) {
  const std::string folder = ::testing::TempDir() + "/certified";
  const TlsFiles files = CertificatesForTesting(::testing::TempDir(), "cluster").Issue("everybody");
  Result result = Muster(absl::StrCat(
      "up --servers 1 --workers 1 --output json --data-dir ", folder, " --tls-authority ",
      files.authority, " --tls-certificate ", files.certificate, " --tls-key ", files.key));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const absl::Cleanup down = [&folder] { Muster("down --data-dir " + folder); };
  const std::string address = nlohmann::json::parse(result.output)["coordinator"];
  result = Muster("cluster --data-dir " + folder);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("worker-0"));
  result = Muster("cluster --coordinator " + address);
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.output, HasSubstr("--tls-authority"));
}

TEST(CommandLineTest, AKilledSupervisorLeavesNothingBehind) {
  const std::string folder = ::testing::TempDir() + "/killed";
  const absl::Cleanup down = [&] { Muster("down --data-dir " + folder); };
  ASSERT_EQ(Muster("up --data-dir " + folder).exit_code, 0);
  ASSERT_GE(ProcessesWith(folder), 4);
  std::ifstream file(folder + "/cluster.json");
  const auto cluster = nlohmann::json::parse(file, nullptr, false);
  ASSERT_TRUE(cluster.is_object());
  kill(cluster["supervisor_pid"].get<pid_t>(), SIGKILL);
  // The test's own time limit ends the wait if a daemon does not.
  while (ProcessesWith(folder) > 0) absl::SleepFor(absl::Milliseconds(20));
  EXPECT_EQ(Muster("list --data-dir " + folder).exit_code, 4);
}

}  // namespace
}  // namespace muster
