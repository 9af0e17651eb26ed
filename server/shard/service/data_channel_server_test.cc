#include "server/shard/service/data_channel_server.h"

#include <memory>
#include <utility>

#include "absl/time/clock.h"
#include "common/transport/data_channel/channel_io.h"
#include "common/transport/data_channel/channel_pair_for_testing.h"
#include "common/transport/data_channel/frame.h"
#include "common/transport/data_channel/knock_for_testing.h"
#include "common/transport/data_channel/socket_channel.h"
#include "common/transport/data_channel/tls_channel_stream.h"
#include "common/transport/tls/tls_stream.h"
#include "gtest/gtest.h"
#include "proto/parameter_service.pb.h"
#include "server/shard/service/fake_partition_host.h"

namespace muster {
namespace {

// A server under TLS with room for one channel.
class DataChannelLimitTest : public ::testing::Test {
 protected:
  DataChannelLimitTest() {
    DataChannelServerOptions options;
    options.listener.host = "127.0.0.1";
    options.listener.security = ChannelSecurity::kTls;
    options.max_connections = 1;
    server_ = *DataChannelServer::Create(host_, options);
    v1::OpenChannelRequest request;
    request.set_version(kChannelVersion);
    const v1::OpenChannelReply reply = *server_->OpenChannel(request);
    address_.port = static_cast<uint16_t>(reply.port());
    address_.nonce = reply.nonce();
    address_.secret = reply.secret();
  }

  absl::StatusOr<Admitted> Knock() { return KnockAt(address_, ChannelHello::Kind::kTls); }

  // Has the client shake hands, which makes it a channel; started.
  std::shared_ptr<FrameChannel> Enter(Admitted client, std::shared_ptr<RecordingHandler> handler) {
    auto stream = *TlsStream::Create(std::move(client.socket), TlsRole::kClient, client.tls_key,
                                     absl::Now() + absl::Seconds(30));
    auto channel = SocketChannel::Create(MakeTlsChannelStream(std::move(stream)), io_->NextLoop(),
                                         io_->pool());
    channel->Start(std::move(handler));
    return channel;
  }

  FakePartitionHost host_{100};
  std::unique_ptr<DataChannelServer> server_;
  ChannelAddress address_;
  const std::shared_ptr<ChannelIo> io_ = *ChannelIo::Create();
};

TEST_F(DataChannelLimitTest, HoldsForThoseWhoWereAdmittedWhenThereWasRoom) {
  auto first = Knock(), second = Knock();
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(second.ok()) << second.status();
  const auto firsts_handler = std::make_shared<RecordingHandler>();
  const auto firsts_channel = Enter(*std::move(first), firsts_handler);
  // Until the server has it.
  absl::Status refused;
  while (refused.ok()) refused = Knock().status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;

  const auto seconds_handler = std::make_shared<RecordingHandler>();
  const auto seconds_channel = Enter(*std::move(second), seconds_handler);
  const absl::Status ended = seconds_handler->AwaitClosed();
  EXPECT_EQ(ended.code(), absl::StatusCode::kResourceExhausted) << ended;

  server_->Shutdown(absl::AbortedError("the end"));
  EXPECT_EQ(firsts_handler->AwaitClosed().code(), absl::StatusCode::kAborted);
}

}  // namespace
}  // namespace muster
