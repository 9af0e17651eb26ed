#include "client/terminal/help_formatter.h"

#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(WrapLinesTest, ShortLinesStayAsTheyAre) {
  EXPECT_EQ(WrapLines("", 10), "");
  EXPECT_EQ(WrapLines("a b\n\n  c d\n", 10), "a b\n\n  c d\n");
  EXPECT_EQ(WrapLines("0123456789", 10), "0123456789");
}

TEST(WrapLinesTest, ProseGoesOnWhereItsLineBegan) {
  EXPECT_EQ(WrapLines("one two three four", 10), "one two\nthree four");
  EXPECT_EQ(WrapLines("  one two three", 10), "  one two\n  three");
}

TEST(WrapLinesTest, ADescriptionStaysInItsColumn) {
  EXPECT_EQ(WrapLines("  --name  one two three", 15),
            "  --name  one\n"
            "          two\n"
            "          three");
}

TEST(WrapLinesTest, AnExampleStaysBesideItsWord) {
  EXPECT_EQ(WrapLines("Example: muster list x", 18), "Example: muster\n         list x");
}

TEST(WrapLinesTest, WordsAreNeverCut) {
  EXPECT_EQ(WrapLines("a 0123456789abc d", 10), "a\n0123456789abc\nd");
  EXPECT_EQ(WrapLines("  --n  0123456789abc d", 12), "  --n  0123456789abc\n       d");
  EXPECT_EQ(WrapLines("0123456789abc", 10), "0123456789abc");
}

}  // namespace
}  // namespace muster
