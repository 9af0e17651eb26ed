#include "common/text/format_bytes.h"

#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(FormatBytesTest, SaysBytesForPeople) {
  EXPECT_EQ(FormatBytes(0), "0 bytes");
  EXPECT_EQ(FormatBytes(812), "812 bytes");
  EXPECT_EQ(FormatBytes(1536), "1.5 KiB");
  EXPECT_EQ(FormatBytes(3482), "3.4 KiB");
  EXPECT_EQ(FormatBytes((1 << 20) - 1), "1.0 MiB");
  EXPECT_EQ(FormatBytes(5.0 * (1 << 30)), "5.0 GiB");
}

}  // namespace
}  // namespace muster
