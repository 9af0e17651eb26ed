#include "worker/data/parsing/target.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(TargetTest, IsAnyNumber) {
  EXPECT_EQ(*ParseTarget("-12.5", "the label", "f", 1), -12.5);
  EXPECT_EQ(*ParseTarget("+1e6", "the label", "f", 1), 1e6);
}

TEST(TargetTest, SaysWhatToDoAboutAnotherLabel) {
  for (const char* text : {"cheap", "inf", "1e60", "0x10"}) {
    const absl::Status status = ParseTarget(text, "the label in column 'y'", "f", 7).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("f:7: the label in column 'y' is "), HasSubstr("predict classes")))
        << text;
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("cheap")));
  }
  for (const char* missing : {"", "nan", "NA", "?"}) {
    EXPECT_EQ(ParseTarget(missing, "the label", "f", 7).status().message(),
              "f:7: the label is missing; every example needs one");
  }
}

}  // namespace
}  // namespace muster
