#include "worker/runtime/device/find_devices.h"

#include <string>

#include "common/device/emulated_device_settings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FindDevicesTest : public ::testing::Test {
 protected:
  void TearDown() override { SetEmulatedDevices({}); }
};

TEST_F(FindDevicesTest, OneThatFailsLeavesTheOthersTheirNumbers) {
  SetEmulatedDevices({.devices = 4, .failing = {0, 2}});
  const auto found = FindDevices();
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->devices.size(), 2);
  EXPECT_EQ(found->devices[0].number, 1);
  EXPECT_EQ(found->devices[1].number, 3);
  EXPECT_EQ(found->devices[1].name, "emulated");
  EXPECT_GT(found->devices[1].memory_bytes, 0);
  EXPECT_THAT(found->left_out, ElementsAre(HasSubstr("device 0"), HasSubstr("device 2")));
}

TEST_F(FindDevicesTest, SaysWhyThereIsNone) {
  SetEmulatedDevices({.devices = 2, .failing = {0, 1}});
  EXPECT_THAT(std::string(FindDevices().status().message()), HasSubstr("device 0"));
}

}  // namespace
}  // namespace muster
