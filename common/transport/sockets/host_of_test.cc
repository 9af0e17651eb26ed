#include "common/transport/sockets/host_of.h"

#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(HostOfTest, LeavesOutPortAndBrackets) {
  EXPECT_EQ(HostOf("machine:4711"), "machine");
  EXPECT_EQ(HostOf("127.0.0.1:0"), "127.0.0.1");
  EXPECT_EQ(HostOf("[::1]:4711"), "::1");
  EXPECT_EQ(HostOf("machine"), "machine");
  EXPECT_EQ(HostOf("[]:1"), "[]");
}

}  // namespace
}  // namespace muster
