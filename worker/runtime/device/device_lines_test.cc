#include "worker/runtime/device/device_lines.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(DeviceLinesTest, GoThereAndBack) {
  FoundDevices found;
  found.devices = {{.name = "NVIDIA H200", .memory_bytes = uint64_t{140} << 30, .number = 0},
                   {.name = "T", .memory_bytes = 1, .number = 12}};
  found.left_out = {"device 3 is too old"};
  const std::string text = FormatDevices(found);
  EXPECT_EQ(text, "0 150323855360 NVIDIA H200\n12 1 T\n- device 3 is too old\n");
  const auto parsed = ParseDevices(text);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(FormatDevices(*parsed), text);
  EXPECT_EQ(parsed->devices[1].number, 12);
  EXPECT_THAT(parsed->left_out, ElementsAre("device 3 is too old"));
}

TEST(DeviceLinesTest, OtherLinesAreRefused) {
  for (const std::string line : {"0 5", "0 5 ", "x 5 name", "0 y name", "-1 5 name", "a warning"}) {
    const auto parsed = ParseDevices("0 1 T\n" + line);
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << line;
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr(line));
  }
  EXPECT_TRUE(ParseDevices("").ok());
}

}  // namespace
}  // namespace muster
