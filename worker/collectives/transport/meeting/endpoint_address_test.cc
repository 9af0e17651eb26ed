#include "worker/collectives/transport/meeting/endpoint_address.h"

#include "gtest/gtest.h"

namespace muster {
namespace {

EndpointAddress Example() {
  EndpointAddress address;
  address.host = "10.0.0.7";
  address.port = 41000;
  address.unix_name = "muster-0123";
  address.nonce = std::string(1, '\0') + "123456789abcdef";
  address.pid = 4321;
  return address;
}

TEST(EndpointAddressTest, ComesBackAsItWas) {
  const EndpointAddress address = EndpointAddress::Parse(Example().Serialize()).value();
  EXPECT_EQ(address.host, "10.0.0.7");
  EXPECT_EQ(address.port, 41000);
  EXPECT_EQ(address.unix_name, "muster-0123");
  EXPECT_EQ(address.nonce, Example().nonce);
  EXPECT_EQ(address.pid, 4321u);
}

TEST(EndpointAddressTest, RefusesEverythingElse) {
  const std::string bytes = Example().Serialize();
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_EQ(EndpointAddress::Parse(bytes.substr(0, length)).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_FALSE(EndpointAddress::Parse(bytes + "x").ok());
  std::string newer = bytes;
  newer[0] = 9;
  EXPECT_FALSE(EndpointAddress::Parse(newer).ok());
  EndpointAddress long_name = Example();
  long_name.unix_name = std::string(200, 'x');
  EXPECT_FALSE(EndpointAddress::Parse(long_name.Serialize()).ok());
}

}  // namespace
}  // namespace muster
