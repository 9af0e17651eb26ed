// `muster chaos`, in short, and the checks it rests on: a contribution too many, and a server that
// has forgotten what it acknowledged, must show.

#include <stdio.h>
#include <sys/wait.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/chaos/integer_pusher.h"
#include "client/chaos/integer_pushers.h"
#include "client/chaos/standalone_server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

std::string Program(const std::string& path) { return std::filesystem::absolute(path).string(); }

std::string EmptyFolder(const std::string& name) {
  const std::string folder = absl::StrCat(::testing::TempDir(), "/", name);
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder + "/checkpoints");
  return folder;
}

TEST(ChaosTest, NothingIsLostInARoundOfEachKind) {
  const std::string command =
      absl::StrCat("HOME=", ::testing::TempDir(), " ", Program("client/muster"),
                   " chaos --rounds 5 --seed 5 --output json 2>&1");
  FILE* pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string output;
  char buffer[4096];
  while (const size_t n = fread(buffer, 1, sizeof(buffer), pipe)) output.append(buffer, n);
  EXPECT_EQ(WEXITSTATUS(pclose(pipe)), 0) << output;
  const std::vector<std::string> lines = absl::StrSplit(output, '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 6u) << output;
  const auto summary = nlohmann::json::parse(lines.back(), nullptr, false);
  ASSERT_TRUE(summary.is_object()) << output;
  EXPECT_EQ(summary["rounds"], 5);
  EXPECT_EQ(summary["failed"], 0) << output;
  EXPECT_GT(summary["kills"], 6) << output;
  EXPECT_EQ(summary["damages"], 2) << output;
  EXPECT_EQ(summary["lost_volumes"], 1) << output;
}

class PushersTest : public ::testing::Test {
 protected:
  PushersTest()
      : folder_(EmptyFolder("pushers")), server_(Program("server/muster-server"), folder_) {
    tables_.checkpoint_root = folder_ + "/checkpoints";
    tables_.cut_every = 5;
    tables_.patience = absl::Seconds(10);
  }
  void SetUp() override {
    ASSERT_TRUE(server_.Start().ok());
    auto pushers = IntegerPushers::Create(server_, tables_);
    ASSERT_TRUE(pushers.ok()) << pushers.status();
    pushers_ = *std::move(pushers);
    pushers_->Begin(12);
    ASSERT_TRUE(pushers_->Await().ok());
    ASSERT_TRUE(pushers_->CheckSums().ok());
  }

  const std::string folder_;
  StandaloneServer server_;
  IntegerTables tables_;
  std::unique_ptr<IntegerPushers> pushers_;
};

TEST_F(PushersTest, RepeatsCountOnceAndOneTooManyShows) {
  const auto layout = tables_.Layout();
  ASSERT_TRUE(layout.ok());
  IntegerPusher again(server_, tables_, *layout, 2);
  // All of it a repeat of what slot 2 has pushed.
  const absl::Status repeated = again.Push(12);
  ASSERT_TRUE(repeated.ok()) << repeated;
  const absl::Status sums = pushers_->CheckSums();
  EXPECT_TRUE(sums.ok()) << sums;

  ASSERT_TRUE(again.Push(13).ok());
  const absl::Status wrong = pushers_->CheckSums();
  EXPECT_TRUE(absl::IsDataLoss(wrong)) << wrong;
  EXPECT_THAT(std::string(wrong.message()), HasSubstr("are wrong in all"));
}

TEST_F(PushersTest, AServerWithoutItsLogShows) {
  server_.Kill();
  std::filesystem::remove_all(server_.data());
  ASSERT_TRUE(server_.Start().ok());
  pushers_->Rewind();
  pushers_->Begin(13);
  const absl::Status status = pushers_->Await();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("chaos"));
}

}  // namespace
}  // namespace muster
