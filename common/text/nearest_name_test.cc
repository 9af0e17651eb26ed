#include "common/text/nearest_name.h"

#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace muster {
namespace {

const std::vector<std::string> kCommands = {"submit", "list",  "status", "logs",
                                            "events", "watch", "export", "evaluate"};

TEST(NearestNameTest, OneSlipOfTheFingerIsUnderstood) {
  EXPECT_EQ(NearestName("lsit", kCommands), "list");       // neighbours exchanged
  EXPECT_EQ(NearestName("submitt", kCommands), "submit");  // one too many
  EXPECT_EQ(NearestName("evnts", kCommands), "events");    // one left out
  EXPECT_EQ(NearestName("expart", kCommands), "export");   // another one
  EXPECT_EQ(NearestName("log", kCommands), "logs");
}

TEST(NearestNameTest, LongNamesMayHaveMoreSlips) {
  const std::vector<std::string> fields = {"learning_rate", "batch_size", "threads_per_worker"};
  EXPECT_EQ(NearestName("leraning_reat", fields), "learning_rate");
  EXPECT_EQ(NearestName("thread_per_workers", fields), "threads_per_worker");
}

TEST(NearestNameTest, CaseAndTheKindOfDashDoNotCount) {
  const std::vector<std::string> fields = {"batch_size", "seed"};
  EXPECT_EQ(NearestName("Batch-Size", fields), "batch_size");
  EXPECT_EQ(NearestName("SEED", fields), "seed");
  EXPECT_EQ(NearestName("batchSize", fields), "batch_size");
}

TEST(NearestNameTest, FewestEditsWinThenTheFirst) {
  EXPECT_EQ(NearestName("lost", std::vector<std::string>{"last", "lots", "losts"}), "last");
  EXPECT_EQ(NearestName("statuz", std::vector<std::string>{"stakuz2", "status"}), "status");
}

TEST(NearestNameTest, BeginningOfANameStandsForIt) {
  EXPECT_EQ(NearestName("eval", kCommands), "evaluate");
  EXPECT_EQ(NearestName("thr", std::vector<std::string>{"threads_per_worker", "threads"}),
            "threads");
  EXPECT_EQ(NearestName("ex", std::vector<std::string>{"export"}), std::nullopt);
}

TEST(NearestNameTest, NothingNearIsNoName) {
  EXPECT_EQ(NearestName("frobnicate", kCommands), std::nullopt);
  EXPECT_EQ(NearestName("", kCommands), std::nullopt);
  EXPECT_EQ(NearestName("list", {}), std::nullopt);
  EXPECT_EQ(NearestName("x", std::vector<std::string>{"y", "", "yz"}), std::nullopt);
}

TEST(NearestNameTest, ALongWrongNameIsPassedOver) {
  EXPECT_EQ(NearestName(std::string(50 << 20, 'a'), kCommands), std::nullopt);
}

}  // namespace
}  // namespace muster
