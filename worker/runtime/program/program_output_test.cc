#include "worker/runtime/program/program_output.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(ProgramOutputTest, PassesOnWhatHasRoomAndSaysWhatWasDropped) {
  std::string passed;
  ProgramOutput output({.burst_bytes = 100, .bytes_per_second = 1024, .tail_bytes = 20},
                       [&](absl::string_view text) { absl::StrAppend(&passed, text); });
  const std::string line = std::string(59, 'x') + "\n";
  output.Add(line, absl::Seconds(1));
  EXPECT_EQ(passed, line);
  // There is room for 40 bytes left.
  output.Add(line, absl::Seconds(1));
  output.Add(line, absl::Seconds(1));
  EXPECT_EQ(passed, line);
  output.Add("more\n", absl::Seconds(2));
  EXPECT_EQ(passed, line +
                        "[120 bytes of output were dropped here: the program prints faster than "
                        "1 KiB a second]\nmore\n");
  passed.clear();
  output.Add(std::string(101, 'y'), absl::Seconds(9));
  EXPECT_EQ(passed, "") << "never more than a burst at once";
  output.Finish();
  EXPECT_EQ(passed,
            "[101 bytes of output were dropped here: the program prints faster than 1 KiB a "
            "second]\n");
}

TEST(ProgramOutputTest, KeepsTheLastLines) {
  ProgramOutput output({.tail_bytes = 20}, [](absl::string_view) {});
  EXPECT_EQ(output.Tail(), "");
  output.Add("short\n", absl::Seconds(1));
  EXPECT_EQ(output.Tail(), "short\n");
  output.Add("a line too many\nthe last\n", absl::Seconds(1));
  EXPECT_EQ(output.Tail(), "the last\n");
  output.Add(std::string(30, 'z'), absl::Seconds(1));
  output.Finish();
  EXPECT_EQ(output.Tail(), std::string(20, 'z'));
}

TEST(ProgramOutputTest, ALineIsPassedOnInItsLastState) {
  std::string passed;
  ProgramOutput output({}, [&](absl::string_view text) { absl::StrAppend(&passed, text); });
  const absl::Duration now = absl::Seconds(1);
  // As a progress bar writes: before the state, or after it.
  for (const char* piece : {"\r 0%", "\r 50", "%\r100%", "\nnext\r\n"}) output.Add(piece, now);
  EXPECT_EQ(passed, "100%\nnext\n");
  for (const char* piece : {"1", "\r", "2\r", "3\r", "\n", "4\r\r"}) output.Add(piece, now);
  EXPECT_EQ(passed, "100%\nnext\n3\n");
  // However long that takes.
  output.Add("", now + absl::Hours(1));
  output.Finish();
  EXPECT_EQ(passed, "100%\nnext\n3\n4\n");
  EXPECT_EQ(output.Tail(), "100%\nnext\n3\n4");
}

TEST(ProgramOutputTest, ALineThatDoesNotEndIsPassedOnAfterAWhile) {
  std::string passed;
  ProgramOutput output({.line_wait = absl::Seconds(1), .line_bytes = 10},
                       [&](absl::string_view text) { absl::StrAppend(&passed, text); });
  output.Add("loading", absl::Seconds(1));
  output.Add("", absl::Seconds(1.5));
  EXPECT_EQ(passed, "");
  output.Add("", absl::Seconds(2));
  EXPECT_EQ(passed, "loading");
  output.Add(".", absl::Seconds(2));
  output.Add(".", absl::Seconds(3));
  EXPECT_EQ(passed, "loading..");
  // What is passed on cannot be written over.
  output.Add("\rdone\n", absl::Seconds(3));
  EXPECT_EQ(passed, "loading..\ndone\n");
  output.Add("more than ten bytes", absl::Seconds(3));
  EXPECT_EQ(passed, "loading..\ndone\nmore than ten bytes");
  output.Finish();
  EXPECT_EQ(passed, "loading..\ndone\nmore than ten bytes\n");
}

}  // namespace
}  // namespace muster
