#include "common/transport/data_channel/channel_listener.h"

#include <memory>
#include <utility>

#include "absl/time/clock.h"
#include "common/transport/data_channel/channel_connector.h"
#include "common/transport/data_channel/channel_io.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(ChannelListenerTest, WhoIsNotAdmittedIsToldInPlaceOfTheVerdict) {
  const absl::Status full = absl::ResourceExhaustedError("4 data channels are open");
  ChannelListener::Sinks sinks;
  sinks.admit = [&full] { return full; };
  sinks.stream = [](std::unique_ptr<ChannelStream>) { ADD_FAILURE() << "admitted"; };
  sinks.shared_memory = [](SharedLink) { ADD_FAILURE() << "admitted"; };
  auto listener = *ChannelListener::Create({.host = "127.0.0.1"}, std::move(sinks));
  ChannelAddress address = listener->Invite();
  address.host = "127.0.0.1";
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  auto io = *ChannelIo::Create();
  EXPECT_EQ(ConnectSocketChannel(address, io->NextLoop(), io->pool(), deadline).status(), full);
  EXPECT_EQ(ConnectSharedChannel(address, 1 << 20, io->NextLoop(), io->pool(), deadline).status(),
            full);
}

}  // namespace
}  // namespace muster
