#include "server/coordinator/alerts/alert_command.h"

#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class AlertCommandTest : public ::testing::Test {
 protected:
  std::unique_ptr<AlertCommand> Start(const std::string& command,
                                      absl::Duration timeout = absl::Hours(1)) {
    return std::make_unique<AlertCommand>(AlertCommand::Options{
        .command = command,
        .timeout = timeout,
        .last = absl::Hours(1),
        .log = [this](absl::string_view line) { lines_.emplace_back(line); }});
  }

  static JobAlert Alert(const std::string& job) {
    return {.kind = JobAlert::Kind::kFailed,
            .job_id = job,
            .name = "gr\xc3\xb6sse \"1\"",
            .owner = "ann",
            .step = 12,
            .text = "slot 0: $(exit 1) \xff"};
  }

  std::string Content() const {
    std::stringstream text;
    text << std::ifstream(file_).rdbuf();
    return text.str();
  }

  // A file of this case alone.
  const std::string file_ = absl::StrCat(
      ::testing::TempDir(), "/", ::testing::UnitTest::GetInstance()->current_test_info()->name());
  // Written by the command's thread, read after its end.
  std::vector<std::string> lines_;
};

TEST_F(AlertCommandTest, TheCommandGetsTheAlertAsVariables) {
  Start(
      "echo \"$MUSTER_ALERT|$MUSTER_JOB|$MUSTER_JOB_NAME|$MUSTER_JOB_OWNER|$MUSTER_STEP|"
      "$MUSTER_ALERT_TEXT\" >> " +
      file_)
      ->Send(Alert("j1"));
  // It has ended with what waited. Text of a job is never a part of the command.
  EXPECT_EQ(Content(), "failed|j1|gr\xc3\xb6sse \"1\"|ann|12|slot 0: $(exit 1) \\xff\n");
  EXPECT_THAT(lines_, IsEmpty());
}

TEST_F(AlertCommandTest, StandardInputHasTheAlertAsJson) {
  Start("cat > " + file_)->Send(Alert("j1"));
  EXPECT_THAT(Content(), HasSubstr("\"alert\":\"failed\""));
  EXPECT_THAT(Content(), HasSubstr("\"name\":\"gr\xc3\xb6sse \\\"1\\\"\""));
  EXPECT_THAT(Content(), HasSubstr("\"step\":12"));
}

TEST_F(AlertCommandTest, AlertsAreToldInOrder) {
  auto command = Start("echo $MUSTER_JOB >> " + file_);
  for (const char* job : {"j1", "j2", "j3"}) command->Send(Alert(job));
  command.reset();
  EXPECT_EQ(Content(), "j1\nj2\nj3\n");
}

TEST_F(AlertCommandTest, ACommandThatFailsIsLogged) {
  Start("exit 3")->Send(Alert("j1"));
  EXPECT_THAT(lines_, ElementsAre("--alert-command did not tell that job j1 has failed: it ended "
                                  "with status 3"));
}

TEST_F(AlertCommandTest, ACommandThatDoesNotEndIsKilledWithItsChildren) {
  auto command = Start("sleep 1000 & sleep 1000; wait", absl::Milliseconds(50));
  command->Send(Alert("j1"));
  command.reset();
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_THAT(lines_[0], HasSubstr("had not ended after "));
}

}  // namespace
}  // namespace muster
