#include "common/rpc/announce_address.h"

#include "common/files/bytes_of_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(AnnounceAddressTest, PrintsAndWrites) {
  const std::string path = ::testing::TempDir() + "/address";
  ::testing::internal::CaptureStdout();
  ASSERT_TRUE(AnnounceAddress("muster-server", "127.0.0.1:4711", path).ok());
  EXPECT_EQ(::testing::internal::GetCapturedStdout(),
            "muster-server: listening on 127.0.0.1:4711\n");
  EXPECT_EQ(BytesOfFile(path), "127.0.0.1:4711\n");
}

TEST(AnnounceAddressTest, AFileThatCannotBeWrittenIsNamed) {
  const std::string path = ::testing::TempDir() + "/no/such/folder/address";
  const absl::Status status = AnnounceAddress("muster-server", "127.0.0.1:4711", path);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(path));
}

}  // namespace
}  // namespace muster
