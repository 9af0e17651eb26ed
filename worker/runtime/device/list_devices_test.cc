#include "worker/runtime/device/list_devices.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

std::string EmulatedTask() {
  return std::filesystem::absolute("worker/runtime/muster-emulated-task").string();
}

TEST(ListDevicesTest, AsksTheProgram) {
  const auto devices = ListDevices(EmulatedTask(), absl::Minutes(1));
  ASSERT_TRUE(devices.ok()) << devices.status();
  ASSERT_EQ(devices->devices.size(), 2);
  EXPECT_EQ(devices->devices[0].name, "emulated");
  EXPECT_GT(devices->devices[0].memory_bytes, 0);
  EXPECT_EQ(devices->devices[1].number, 1);
  EXPECT_TRUE(devices->left_out.empty());
}

TEST(ListDevicesTest, WhatLibrariesWriteIsNoDevice) {
  const std::string program = ::testing::TempDir() + "/talks";
  std::ofstream(program) << "#!/bin/sh\necho 'a warning' >&2\necho 17 notes\nexec "
                         << EmulatedTask() << " \"$@\"\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  const auto devices = ListDevices(program, absl::Minutes(1));
  ASSERT_TRUE(devices.ok()) << devices.status();
  ASSERT_EQ(devices->devices.size(), 2);
  EXPECT_EQ(devices->devices[0].name, "emulated");
}

TEST(ListDevicesTest, OtherProgramsAreNamed) {
  EXPECT_THAT(std::string(ListDevices("/no/such", absl::Minutes(1)).status().message()),
              HasSubstr("/no/such"));
  const auto devices = ListDevices("/bin/false", absl::Minutes(1));
  EXPECT_EQ(devices.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(devices.status().message()),
              HasSubstr("/bin/false --list-devices: process"));
}

}  // namespace
}  // namespace muster
