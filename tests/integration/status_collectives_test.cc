// `muster status JOB --collectives`: what a user sees of the last collective calls of each slot, as
// text and as JSON.

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/harness/jobs.h"
#include "tests/harness/muster_command.h"

namespace muster {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

// The small job's parameters, which fit into one bucket.
constexpr int kBucketElements = 20 * 32 + 32 + 32 * 4 + 4;

// Submits a job; returns its id.
std::string Submit(const std::string& name, const v1::JobSpec& spec) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/", name);
  std::ofstream(path) << spec.DebugString();
  const CommandResult result = Muster("submit " + path);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  return std::string(absl::StripSuffix(result.output, "\n"));
}

nlohmann::json JsonOf(const std::string& command) {
  const CommandResult result = Muster(command + " --output json");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  return nlohmann::json::parse(result.output, nullptr, /*allow_exceptions=*/false);
}

// On one cluster.
class StatusCollectivesTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const CommandResult result = Muster("up --servers 1 --workers 2 --data-dir " + Folder());
    ASSERT_EQ(result.exit_code, 0) << result.output;
  }
  static void TearDownTestSuite() { EXPECT_EQ(Muster("down --data-dir " + Folder()).exit_code, 0); }
  static std::string Folder() { return ::testing::TempDir() + "/status_cluster"; }
};

TEST_F(StatusCollectivesTest, ShowsTheCallsOfEverySlot) {
  v1::JobSpec endless = SmallJob();
  endless.mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE);
  endless.mutable_update()->set_sparse(v1::UpdateSpec::ALL_REDUCE);
  endless.mutable_stop()->set_steps(100'000'000);
  const std::string id = Submit("endless.textproto", endless);
  const absl::Cleanup cancel = [&id] { Muster("cancel " + id); };
  const nlohmann::json::json_pointer step("/progress/step");
  // The test's own time limit ends the wait if the job never trains.
  while (true) {
    const nlohmann::json status = JsonOf("status " + id);
    ASSERT_TRUE(status.is_object());
    ASSERT_NE(status.value("state", ""), "FAILED") << status;
    if (status.value(step, "0") != "0") break;
    absl::SleepFor(absl::Milliseconds(20));
  }

  const CommandResult text = Muster(absl::StrCat("status ", id, " --collectives"));
  EXPECT_EQ(text.exit_code, 0) << text.output;
  for (const int slot : {0, 1}) {
    EXPECT_THAT(text.output,
                ContainsRegex(absl::StrCat(
                    "slot ", slot, ", reported at [0-9:.]+ UTC\nCALL +WHAT +LABEL +STARTED")));
  }
  EXPECT_THAT(text.output,
              ContainsRegex(absl::StrCat("world +[0-9]+ +all_reduce f32 x ", kBucketElements,
                                         ", sum +bucket 0 +[0-9:.]+ +[0-9.]+ [mu]?s")));

  nlohmann::json told = JsonOf(absl::StrCat("status ", id, " --collectives"));
  ASSERT_TRUE(told.is_object());
  ASSERT_EQ(told["slots"].size(), 2u) << told;
  for (const int slot : {0, 1}) {
    nlohmann::json& of_slot = told["slots"][slot];
    EXPECT_EQ(of_slot["slot"], slot);
    EXPECT_LE(of_slot["calls"].size(), 1000u);
    int ended = 0;
    for (nlohmann::json& call : of_slot["calls"]) {
      if (call["label"] != "bucket 0" || call["duration_us"] == "-1") continue;
      ++ended;
      EXPECT_EQ(call["operation"], "all_reduce");
      EXPECT_EQ(call["group"], "world");
      EXPECT_EQ(call["dtype"], "f32");
      EXPECT_EQ(call["reduction"], "sum");
      EXPECT_EQ(call["count"], absl::StrCat(kBucketElements));
      EXPECT_EQ(call["error"], "");
    }
    EXPECT_GT(ended, 0) << of_slot;
  }
}

TEST_F(StatusCollectivesTest, SaysSoWhereThereAreNone) {
  const std::string id = Submit("servers.textproto", SmallJob());
  EXPECT_EQ(Muster("watch " + id).exit_code, 0);
  const CommandResult text = Muster(absl::StrCat("status ", id, " --collectives"));
  EXPECT_EQ(text.exit_code, 0) << text.output;
  EXPECT_THAT(text.output, HasSubstr("no slot has reported collective calls"));
  nlohmann::json told = JsonOf(absl::StrCat("status ", id, " --collectives"));
  ASSERT_TRUE(told.is_object());
  EXPECT_EQ(told["slots"].size(), 0u) << told;
  EXPECT_EQ(Muster("status no-such-job --collectives").exit_code, 2);
}

}  // namespace
}  // namespace muster
