#include "common/transport/sockets/own_address.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

// Of the machine's interfaces that are not loopback.
std::vector<std::string> Ipv4Addresses() {
  std::vector<std::string> found;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return found;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET) continue;
    if ((entry->ifa_flags & IFF_LOOPBACK) != 0 || (entry->ifa_flags & IFF_UP) == 0) continue;
    char text[NI_MAXHOST];
    if (getnameinfo(entry->ifa_addr, sizeof(sockaddr_in), text, sizeof(text), nullptr, 0,
                    NI_NUMERICHOST) == 0) {
      found.push_back(text);
    }
  }
  freeifaddrs(list);
  return found;
}

TEST(OwnAddressTest, IsTheAddressThatTheTargetSees) {
  const std::vector<std::string> own = Ipv4Addresses();
  if (own.empty()) GTEST_SKIP() << "this machine has no address but loopback's";
  // Whoever calls one of its own addresses does so from that address.
  for (const std::string& address : own) {
    EXPECT_EQ(OwnAddressTowards(absl::StrCat(address, ":7000")), address);
  }
}

TEST(OwnAddressTest, LoopbackIsNobodysWayHere) {
  EXPECT_EQ(OwnAddressTowards("127.0.0.1:7000"), absl::nullopt);
  EXPECT_EQ(OwnAddressTowards("[::1]:7000"), absl::nullopt);
}

TEST(OwnAddressTest, NoneTowardsWhatIsNoAddress) {
  for (const char* target : {"", "host", "no such host:7000", "127.0.0.1:port", ":"}) {
    EXPECT_EQ(OwnAddressTowards(target), absl::nullopt) << target;
  }
}

}  // namespace
}  // namespace muster
