#include "worker/data/parsing/class_labels.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The labels of lines 1, 2, … of a file named f.
absl::StatusOr<ClassLabels::Result> Collect(const std::vector<std::string>& texts) {
  ClassLabels labels("f");
  int64_t line = 0;
  for (const std::string& text : texts) {
    if (absl::Status status = labels.Add(text, ++line); !status.ok()) return status;
  }
  return labels.Finish();
}

TEST(ClassLabelsTest, MapsMinusOneAndPlusOneToZeroAndOne) {
  const auto result = Collect({"+1", "-1", "1"});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->labels, ElementsAre(1, 0, 1));
  EXPECT_EQ(result->classes, 2);
  EXPECT_THAT(result->names, ElementsAre("-1", "1"));
}

TEST(ClassLabelsTest, TakesClassesFromZero) {
  const auto binary = Collect({"0", "1.0"});
  ASSERT_TRUE(binary.ok()) << binary.status();
  EXPECT_THAT(binary->labels, ElementsAre(0, 1));
  EXPECT_EQ(binary->classes, 2);
  const auto several = Collect({"0", "7", "2"});
  ASSERT_TRUE(several.ok()) << several.status();
  EXPECT_THAT(several->labels, ElementsAre(0, 7, 2));
  EXPECT_EQ(several->classes, 8);
  EXPECT_THAT(several->names, IsEmpty());
  EXPECT_EQ(Collect({"0", "0"})->classes, 2);
}

TEST(ClassLabelsTest, RefusesMinusOneAmongClassesNamingBothLines) {
  const auto result = Collect({"1", "2", "-1"});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("f:2: "));
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("line 3 has -1"));
}

TEST(ClassLabelsTest, RefusesWhatIsNoClass) {
  for (const char* text : {"0.5", "-2", "1000001", "xyzzy", "nan", ""}) {
    const auto result = Collect({"0", text});
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(result.status().message()), HasSubstr("f:2: ")) << text;
    // The file may be one that who submitted the job must not read.
    EXPECT_THAT(std::string(result.status().message()), testing::Not(HasSubstr("xyzzy")));
  }
}

}  // namespace
}  // namespace muster
