#include "common/files/bytes_of_file.h"

#include <filesystem>
#include <fstream>

#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(BytesOfFileTest, ReturnsAllBytes) {
  const std::string path = testing::TempDir() + "/bytes";
  const std::string bytes = std::string(100'000, 'x') + std::string("\0\n\xff", 3);
  std::ofstream(path, std::ios::binary) << bytes;
  EXPECT_EQ(BytesOfFile(path), bytes);
}

TEST(BytesOfFileTest, WhatCannotBeReadIsEmpty) {
  EXPECT_EQ(BytesOfFile(testing::TempDir() + "/nowhere"), "");
  EXPECT_EQ(BytesOfFile(testing::TempDir()), "") << "a folder";
  // Opened, but there is no memory at address 0: reading fails as of a process that has ended.
  EXPECT_EQ(BytesOfFile("/proc/self/mem"), "");
}

}  // namespace
}  // namespace muster
