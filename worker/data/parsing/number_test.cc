#include "worker/data/parsing/number.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

TEST(ParseNumberTest, ReadsDecimalNumbers) {
  EXPECT_EQ(ParseNumber("0").value(), 0);
  EXPECT_EQ(ParseNumber("-1.5").value(), -1.5);
  EXPECT_EQ(ParseNumber("+2").value(), 2);
  EXPECT_EQ(ParseNumber("1e3").value(), 1000);
  EXPECT_EQ(ParseNumber(".25").value(), 0.25);
  EXPECT_EQ(ParseNumber("1e-400").value(), 0);
}

TEST(ParseNumberTest, RefusesWhatIsNoNumber) {
  for (const char* text :
       {"", " ", "x", "1x", " 1", "1 ", "1,5", "0x10", "+", "+-1", "++1", "--1"}) {
    const auto number = ParseNumber(text);
    EXPECT_EQ(number.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(number.status().message()), HasSubstr("is not a number")) << text;
  }
}

TEST(ParseNumberTest, RefusesNanAndWhatNoFloatHolds) {
  for (const char* text : {"nan", "NaN", "-nan"}) {
    EXPECT_THAT(std::string(ParseNumber(text).status().message()),
                HasSubstr("not a number that training can use"))
        << text;
  }
  for (const char* text : {"inf", "-Infinity", "1e39", "-1e39", "1e999"}) {
    EXPECT_THAT(std::string(ParseNumber(text).status().message()), HasSubstr("infinite or beyond"))
        << text;
  }
}

TEST(ParseIndexTest, ReadsDigitsOnly) {
  EXPECT_EQ(ParseIndex("0").value(), 0u);
  EXPECT_EQ(ParseIndex("18446744073709551615").value(), ~uint64_t{0});
  for (const char* text : {"", "-1", "+1", " 1", "1.0", "x", "3a"}) {
    EXPECT_THAT(std::string(ParseIndex(text).status().message()), HasSubstr("whole number"))
        << text;
  }
  EXPECT_THAT(std::string(ParseIndex("18446744073709551616").status().message()),
              HasSubstr("64 bits"));
}

}  // namespace
}  // namespace muster
