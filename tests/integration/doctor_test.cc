// `muster doctor` on clusters of real processes: a healthy one has no problem, and what is wrong
// with one is named, with what to do.

#include <signal.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/rpc/certificates_for_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/harness/muster_command.h"
#include "tests/harness/process_cluster.h"

namespace muster {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

std::unique_ptr<ProcessCluster> StartCluster(ProcessCluster::Options options) {
  options.lease = absl::Seconds(20);
  auto cluster = ProcessCluster::Start(std::move(options));
  EXPECT_TRUE(cluster.ok()) << cluster.status();
  return cluster.ok() ? *std::move(cluster) : nullptr;
}

// Its JSON, without the error that may follow.
nlohmann::json Examined(const ProcessCluster& cluster, int exit_code,
                        const std::string& flags = "") {
  const CommandResult result = Muster(absl::StrCat("doctor --wait 240 --output json --coordinator ",
                                                   cluster.coordinator_address(), " ", flags));
  EXPECT_EQ(result.exit_code, exit_code) << result.output;
  const std::string found = result.output.substr(0, result.output.find("{\"error\""));
  const auto json = nlohmann::json::parse(found, nullptr, /*allow_exceptions=*/false);
  EXPECT_FALSE(json.is_discarded()) << result.output;
  return json;
}

std::set<std::string> ChecksOf(const nlohmann::json& examined, const std::string& where) {
  std::set<std::string> checks;
  for (const auto& finding : examined["findings"]) {
    if (finding["where"] == where) checks.insert(finding["check"].get<std::string>());
  }
  return checks;
}

TEST(DoctorTest, AHealthyClusterHasNoProblem) {
  CertificatesForTesting certificates(::testing::TempDir(), "doctor");
  const TlsFiles files = certificates.Issue("everybody");
  const auto cluster = StartCluster({.servers = 2, .workers = 2, .tls = files});
  ASSERT_NE(cluster, nullptr);
  const nlohmann::json examined =
      Examined(*cluster, 0,
               absl::StrCat("--tls-authority ", files.authority, " --tls-certificate ",
                            files.certificate, " --tls-key ", files.key));
  EXPECT_EQ(examined["problems"], 0) << examined.dump(1);
  // Each worker to the three others, each server to the other one.
  EXPECT_EQ(examined["links"], 8);
  EXPECT_EQ(examined["measured_links"], 8);
  EXPECT_THAT(ChecksOf(examined, "this client"), Contains("certificate"));
  EXPECT_THAT(ChecksOf(examined, "the coordinator"), Contains("checkpoint disk: speed"));
  for (const char* daemon : {"server-0", "server-1", "worker-0", "worker-1"}) {
    const std::set<std::string> checks = ChecksOf(examined, daemon);
    for (const char* check : {"certificate", "authority", "clock", "version", "file descriptors",
                              "memory", "checkpoint root", "link speed"}) {
      EXPECT_THAT(checks, Contains(check)) << daemon;
    }
  }
  EXPECT_THAT(ChecksOf(examined, "server-0"), Contains("data folder: speed"));
  EXPECT_THAT(ChecksOf(examined, "worker-0"), Contains("offload folder: space"));
  // Nothing is left where it was measured, once the coordinator has seen the end.
  const auto names = [&] {
    std::set<std::string> found;
    for (const auto& entry :
         std::filesystem::directory_iterator(cluster->folder() + "/checkpoints")) {
      found.insert(entry.path().filename());
    }
    return found;
  };
  while (names() != std::set<std::string>{".muster-root"}) absl::SleepFor(absl::Milliseconds(10));
}

TEST(DoctorTest, WhatIsWrongIsNamedWithWhatToDo) {
  // The worker may not open the checkpoint root, as if it were not mounted there.
  const std::string other = ::testing::TempDir() + "/other";
  std::filesystem::create_directories(other);
  const auto cluster =
      StartCluster({.servers = 1, .workers = 1, .worker_arguments = {"--data-root=" + other}});
  ASSERT_NE(cluster, nullptr);
  const nlohmann::json examined = Examined(*cluster, 1);
  EXPECT_EQ(examined["problems"], 1) << examined.dump(1);
  // The worst comes first of each daemon.
  for (const auto& finding : examined["findings"]) {
    if (finding["where"] != "worker-0") continue;
    EXPECT_EQ(finding["severity"], "PROBLEM");
    EXPECT_EQ(finding["check"], "checkpoint root");
    EXPECT_THAT(finding["seen"].get<std::string>(), HasSubstr(cluster->folder() + "/checkpoints"));
    EXPECT_THAT(finding["to_do"].get<std::string>(), HasSubstr("--data-root"));
    break;
  }
  // A server that loses its folder meanwhile, and a coordinator that is gone.
  std::filesystem::remove_all(cluster->folder() + "/server-0");
  const CommandResult text =
      Muster("doctor --wait 240 --coordinator " + cluster->coordinator_address());
  EXPECT_EQ(text.exit_code, 1);
  EXPECT_THAT(text.output, HasSubstr("data folder: No file can be written in"));
  EXPECT_THAT(text.output, HasSubstr("the examination found 2 problems"));
  for (const auto line : absl::StrSplit(text.output, '\n')) {
    // Words that are longer, as paths here, stay whole.
    EXPECT_TRUE(line.size() <= 80 || absl::StrContains(line, testing::TempDir())) << line;
  }
  cluster->Kill("coordinator", SIGKILL);
  const CommandResult alone = Muster("doctor --coordinator " + cluster->coordinator_address());
  EXPECT_EQ(alone.exit_code, 4);
  EXPECT_THAT(alone.output, HasSubstr("Nothing takes connections"));
}

}  // namespace
}  // namespace muster
