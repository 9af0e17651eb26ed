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
                        "\n[120 bytes of output were dropped here: the program prints faster than "
                        "1 KiB a second]\nmore\n");
  passed.clear();
  output.Add(std::string(101, 'y'), absl::Seconds(9));
  EXPECT_EQ(passed, "") << "never more than a burst at once";
  output.Finish();
  EXPECT_EQ(passed,
            "\n[101 bytes of output were dropped here: the program prints faster than 1 KiB a "
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
  EXPECT_EQ(output.Tail(), std::string(20, 'z'));
}

}  // namespace
}  // namespace muster
