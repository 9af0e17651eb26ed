#include "common/text/data_error.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(DataErrorTest, QuoteEscapesWhatCannotBePrintedAndCutsLongValues) {
  EXPECT_EQ(Quote("4,7"), "'4,7'");
  EXPECT_EQ(Quote("größe"), "'größe'");
  EXPECT_EQ(Quote("\xf6"), "'\\xf6'");
  EXPECT_EQ(Quote(std::string(39, 'x') + "ö"), "'" + std::string(39, 'x') + "…'");
  EXPECT_EQ(Quote(absl::string_view("a\0\n", 3)), "'a\\x00\\n'");
  EXPECT_EQ(Quote(std::string(40, 'x')), "'" + std::string(40, 'x') + "'");
  EXPECT_EQ(Quote(std::string(41, 'x')), "'" + std::string(40, 'x') + "…'");
}

TEST(DataErrorTest, LineErrorReadsAsEditorsLinkIt) {
  const absl::Status status = LineError("dir/train.csv", 12, "has 3 fields");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "dir/train.csv:12: has 3 fields");
}

}  // namespace
}  // namespace muster
