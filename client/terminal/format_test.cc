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

TEST(FormatTest, Times) {
  EXPECT_EQ(FormatTime(0), "0 us");
  EXPECT_EQ(FormatTime(0.00085), "850 us");
  EXPECT_EQ(FormatTime(0.0009999), "1 ms");
  EXPECT_EQ(FormatTime(0.0123), "12.3 ms");
  EXPECT_EQ(FormatTime(4.2), "4.2 s");
  EXPECT_EQ(FormatTime(7500), "2h05m");
  EXPECT_EQ(FormatTime(-1), "-");
}

TEST(FormatTest, Numbers) {
  EXPECT_EQ(FormatNumber(0), "0");
  EXPECT_EQ(FormatNumber(0.0512), "0.0512");
  EXPECT_EQ(FormatNumber(1.23456e-5), "1.235e-05");
  EXPECT_EQ(FormatNumber(3.14159), "3.142");
  EXPECT_EQ(FormatNumber(-2.5), "-2.5");
  EXPECT_EQ(FormatNumber(22.9), "22.9");
  EXPECT_EQ(FormatNumber(999.96), "1,000");
  EXPECT_EQ(FormatNumber(195870.9), "195,871");
  EXPECT_EQ(FormatNumber(-1.2e6), "-1.2 M");
  EXPECT_EQ(FormatNumber(999'999.7), "1 M");
  EXPECT_EQ(FormatNumber(3.4567e9), "3.457 G");
  EXPECT_EQ(FormatNumber(std::nan("")), "nan");
}

TEST(FormatTest, Parts) {
  EXPECT_EQ(FormatPercent(0), "0.0 %");
  EXPECT_EQ(FormatPercent(0.1254), "12.5 %");
  EXPECT_EQ(FormatPercent(1.01), "101.0 %");
}

TEST(FormatTest, CountsAndLosses) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(1234567), "1,234,567");
  EXPECT_EQ(FormatLoss(1.25), "1.2500");
  EXPECT_EQ(FormatLoss(-1.8e31), "-1.8e+31");
}

TEST(FormatTest, TextsAreCutBetweenCharacters) {
  EXPECT_EQ(CutText("four", 4), "four");
  EXPECT_EQ(CutText("longer", 5), "long…");
  EXPECT_EQ(CutText("äöüß", 3), "äö…");
  EXPECT_EQ(CutText("", 1), "");
}

TEST(FormatTest, TableAlignsNumbersToTheRight) {
  EXPECT_EQ(FormatTable({{"mode", "steps"}, {"BSP", "5"}, {"ASP", "1,200"}}),
            "mode  steps\n"
            "BSP       5\n"
            "ASP   1,200\n");
}

}  // namespace
}  // namespace muster
