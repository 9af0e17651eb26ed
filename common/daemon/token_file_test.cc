#include "common/daemon/token_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using testing::HasSubstr;

TEST(ReadTokenFileTest, ReadsOneToken) {
  const std::string path = testing::TempDir() + "token";
  const auto read = [&](const std::string& text) {
    std::ofstream(path, std::ios::trunc) << text;
    return ReadTokenFile(path);
  };
  EXPECT_EQ(*read("0123456789abcdef"), "0123456789abcdef");
  EXPECT_EQ(*read("\n 0123456789abcdef\r\n"), "0123456789abcdef");
  EXPECT_EQ(read(std::string(1024, 'x'))->size(), 1024u);
  for (const std::string& text :
       {std::string(), std::string("0123456789abcde"), std::string("01234567 89abcdef"),
        std::string("0123456789abcdef\n0123456789abcdef"), std::string(1025, 'x'),
        std::string(1 << 20, 'x'), std::string("0123456789abcdef\xc3\xa4"),
        std::string("0123456789abcdef%20"), std::string("0123456789abcdef\0", 17)}) {
    const auto token = read(text);
    EXPECT_EQ(token.status().code(), absl::StatusCode::kInvalidArgument) << text.size();
    EXPECT_THAT(token.status().message(), HasSubstr(path));
  }
  EXPECT_EQ(ReadTokenFile(path + ".not").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReadTokenFile(testing::TempDir()).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(CheckIsPrivateTest, OnlyItsUserHasAccess) {
  const std::string path = testing::TempDir() + "private_token";
  std::ofstream(path) << "0123456789abcdef";
  for (const mode_t mode : {0600, 0400}) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    EXPECT_TRUE(CheckIsPrivate(path).ok()) << mode;
  }
  for (const mode_t mode : {0604, 0620, 0610, 0644}) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    const absl::Status status = CheckIsPrivate(path);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << mode;
    EXPECT_THAT(status.message(), HasSubstr("chmod 600 " + path));
  }
  EXPECT_EQ(CheckIsPrivate(path + ".not").code(), absl::StatusCode::kInvalidArgument);
}

TEST(CheckIsPrivateTest, AGroupMayReadWhatIsRoots) {
  const std::string path = testing::TempDir() + "secret_token";
  std::ofstream(path) << "0123456789abcdef";
  // As in a secret of Kubernetes: root's, for the pod's group.
  ASSERT_EQ(chmod(path.c_str(), 0440), 0);
  EXPECT_EQ(CheckIsPrivate(path).ok(), geteuid() == 0);
  if (geteuid() == 0) {
    ASSERT_EQ(chown(path.c_str(), 7000, 7000), 0);
    EXPECT_FALSE(CheckIsPrivate(path).ok());
  }
}

}  // namespace
}  // namespace muster
