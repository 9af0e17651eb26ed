#include "client/terminal/format.h"

#include <cmath>

#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(FormatTest, Seconds) {
  EXPECT_EQ(FormatSeconds(7.6), "8s");
  EXPECT_EQ(FormatSeconds(59.7), "1m00s");
  EXPECT_EQ(FormatSeconds(192), "3m12s");
  EXPECT_EQ(FormatSeconds(7500), "2h05m");
  EXPECT_EQ(FormatSeconds(-1), "-");
  EXPECT_EQ(FormatSeconds(std::nan("")), "-");
}

TEST(FormatTest, Numbers) {
  EXPECT_EQ(FormatNumber(0), "0");
  EXPECT_EQ(FormatNumber(3.14159), "3.142");
  EXPECT_EQ(FormatNumber(-2.5), "-2.5");
  EXPECT_EQ(FormatNumber(1234567.2), "1,234,567");
}

TEST(FormatTest, TableAlignsNumbersToTheRight) {
  EXPECT_EQ(FormatTable({{"mode", "steps"}, {"BSP", "5"}, {"ASP", "1,200"}}),
            "mode  steps\n"
            "BSP       5\n"
            "ASP   1,200\n");
}

}  // namespace
}  // namespace muster
