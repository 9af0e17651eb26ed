#include "client/terminal/help_formatter.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "gmock/gmock.h"
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

TEST(HelpFormatterTest, RangesAndChoicesAreSaidInPlainWords) {
  CLI::App app;
  app.formatter(std::make_shared<HelpFormatter>());
  int port = 0, limit = 20, connections = 1;
  std::string transport;
  app.add_option("--port", port)->check(CLI::Range(0, 65535))->capture_default_str();
  app.add_option("--connections", connections)->check(CLI::Range(1, 16));
  app.add_option("--limit", limit)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--transport", transport)->check(CLI::IsMember({"shared_memory", "tcp"}));
  app.add_option("--to", transport)->option_text("HOST:PORT");
  const std::string help = app.help();
  for (const char* text : {"--port INT=0, 0 to 65535", "--connections INT, 1 to 16",
                           "--limit INT=20", "--transport shared_memory|tcp", "--to HOST:PORT"}) {
    EXPECT_THAT(help, testing::HasSubstr(text));
  }
}

}  // namespace
}  // namespace muster
