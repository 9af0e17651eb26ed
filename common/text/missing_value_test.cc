#include "common/text/missing_value.h"

#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(MissingValueTest, KnowsTheUsualWaysToWriteNothing) {
  for (const char* text : {"", "?", "NA", "na", "N/A", "n/a", "#N/A", "#NA", "<NA>", "NaN", "nan",
                           "-NaN", "null", "NULL"}) {
    EXPECT_TRUE(IsMissingValue(text)) << text;
    EXPECT_TRUE(IsMissingLabel(text)) << text;
  }
  for (const char* text : {"-", "--", ".", "None", "none", "NONE"}) {
    EXPECT_TRUE(IsMissingValue(text)) << text;
    EXPECT_FALSE(IsMissingLabel(text)) << text;
  }
}

TEST(MissingValueTest, OtherTextsAreValues) {
  for (const char* text : {"0", "-1", "Nan Goldin", "N", "A", "nano", "??", "---", "+", "null0",
                           "nil", "missing", "inf", " "}) {
    EXPECT_FALSE(IsMissingValue(text)) << text;
    EXPECT_FALSE(IsMissingLabel(text)) << text;
  }
}

}  // namespace
}  // namespace muster
