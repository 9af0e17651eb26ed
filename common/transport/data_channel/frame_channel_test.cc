// What every FrameChannel promises, over TCP, plain and under TLS, and through shared memory, with
// both ends in this process.

#include "common/transport/data_channel/frame_channel.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/transport/data_channel/channel_connector.h"
#include "common/transport/data_channel/channel_pair_for_testing.h"
#include "common/transport/data_channel/deadline_for_testing.h"
#include "common/transport/data_channel/frame.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

enum class Way { kTcp, kTls, kSharedMemory };

ChannelListenerOptions ListenerOptions(Way way) {
  ChannelListenerOptions options;
  if (way == Way::kTls) options.security = ChannelSecurity::kTls;
  return options;
}

class FrameChannelTest : public ::testing::TestWithParam<Way> {
 protected:
  void SetUp() override { Connect(2 << 20); }
  void TearDown() override {
    for (auto* end : {&client_, &server_}) {
      if (*end != nullptr) (*end)->Close(absl::CancelledError("the test ends"));
    }
    if (client_ != nullptr) {
      EXPECT_FALSE(from_server_->AwaitClosed().ok());
    }
    if (server_ != nullptr) {
      EXPECT_FALSE(from_client_->AwaitClosed().ok());
    }
  }

  void Connect(size_t arena_bytes) {
    IoLoop& loop = io_->NextLoop();
    const absl::Time deadline = absl::Now() + kTimeout;
    auto client =
        GetParam() != Way::kSharedMemory
            ? ConnectSocketChannel(listener_.address(), loop, io_->pool(), deadline)
            : ConnectSharedChannel(listener_.address(), arena_bytes, loop, io_->pool(), deadline);
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
    server_ = listener_.AwaitChannel();
    const char* const kinds[] = {"tcp", "tls", "shared_memory"};
    EXPECT_STREQ(client_->kind(), kinds[static_cast<int>(GetParam())]);
    EXPECT_STREQ(server_->kind(), client_->kind());
    client_->Start(from_server_);
    server_->Start(from_client_);
  }

  // With fresh ends, after those before have ended.
  void ConnectAnew(size_t arena_bytes) {
    client_.reset();
    server_.reset();
    from_client_ = std::make_shared<RecordingHandler>();
    from_server_ = std::make_shared<RecordingHandler>();
    Connect(arena_bytes);
  }
  void Reconnect(size_t arena_bytes) {
    client_->Close(absl::CancelledError("another arena"));
    EXPECT_FALSE(from_server_->AwaitClosed().ok());
    EXPECT_FALSE(from_client_->AwaitClosed().ok());
    ConnectAnew(arena_bytes);
  }

  static Payload Bytes(size_t size, int seed) {
    std::vector<uint8_t> bytes(size);
    for (size_t i = 0; i < size; ++i) bytes[i] = i * 13 + i / 251 + seed;
    return Payload::Of(std::move(bytes));
  }
  static std::string Flatten(const Payload& payload) {
    std::string bytes(payload.size(), '\0');
    payload.CopyTo(bytes.data());
    return bytes;
  }

  const std::shared_ptr<ChannelIo> io_ = *ChannelIo::Create();
  ListenerForTesting listener_{ListenerOptions(GetParam())};
  std::shared_ptr<FrameChannel> client_;
  std::shared_ptr<FrameChannel> server_;
  // What came from the other end.
  std::shared_ptr<RecordingHandler> from_server_ = std::make_shared<RecordingHandler>();
  std::shared_ptr<RecordingHandler> from_client_ = std::make_shared<RecordingHandler>();
};

TEST_P(FrameChannelTest, MessagesArriveWholeAndInOrder) {
  const size_t sizes[] = {0,      1,      4095,    4096,    4097,          16'384,   65'535,
                          65'536, 65'537, 300'000, 1 << 20, (1 << 20) + 1, 5'000'000};
  size_t count = 0, bytes = 0;
  for (int round = 0; round < 3; ++round) {
    for (const size_t size : sizes) {
      const std::string header = absl::StrCat("message ", count++, std::string(size % 700, '.'));
      bytes += header.size() + size;
      client_->Send(header, Bytes(size, round));
      server_->Send(header, Bytes(size, round + 1));
    }
  }
  for (const bool server : {true, false}) {
    RecordingHandler& handler = server ? *from_client_ : *from_server_;
    const auto messages = handler.AwaitMessages(count);
    ASSERT_EQ(messages.size(), count);
    for (size_t i = 0; i < count; ++i) {
      const size_t size = sizes[i % std::size(sizes)];
      const int seed = static_cast<int>(i / std::size(sizes)) + (server ? 0 : 1);
      EXPECT_EQ(messages[i].header, absl::StrCat("message ", i, std::string(size % 700, '.')));
      EXPECT_TRUE(Flatten(messages[i].payload) == Flatten(Bytes(size, seed))) << i;
    }
    (server ? *from_server_ : *from_client_).AwaitSent(bytes);
  }
}

TEST_P(FrameChannelTest, PayloadsAreReceivedWhereTheHandlerHasAPlace) {
  // Through the ring, in one fragment, and in several.
  for (const size_t size : {size_t{3}, size_t{70'001}, size_t{5'000'003}}) {
    std::vector<std::byte> room(size);
    from_client_->ReceiveAt(absl::MakeSpan(room));
    const size_t before = from_client_->received();
    client_->Send("elsewhere", Bytes(size + 1, 1));
    client_->Send("here", Bytes(size, 2));
    const auto messages = from_client_->AwaitMessages(before + 2);
    EXPECT_TRUE(Flatten(messages[before].payload) == Flatten(Bytes(size + 1, 1))) << size;
    const Payload& here = messages[before + 1].payload;
    ASSERT_EQ(here.spans().size(), 1u);
    EXPECT_EQ(here.spans()[0].data(), room.data());
    EXPECT_TRUE(Flatten(here) == Flatten(Bytes(size, 2))) << size;
    from_client_->ReceiveAt({});
    from_client_->Forget();
  }
}

TEST_P(FrameChannelTest, PayloadsMayBeMadeInTheChannelsMemory) {
  // More than there is memory of that kind, among others that have to be copied.
  constexpr size_t kSize = 300'001;
  constexpr int kCount = 40;
  int given = 0;
  for (int i = 0; i < kCount; ++i) {
    Payload payload = Bytes(kSize, i);
    if (const std::shared_ptr<std::byte> memory = server_->TakeSendMemory(kSize);
        memory != nullptr) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.get()) % 64, 0);
      payload.CopyTo(memory.get());
      payload = Payload({{memory.get(), kSize}}, memory);
      ++given;
    }
    server_->Send(absl::StrCat(i), std::move(payload));
    server_->Send(absl::StrCat(i, " copied"), Bytes(100'000, i));
    // Some is given back unused.
    server_->TakeSendMemory(kSize);
  }
  EXPECT_EQ(given > 0, std::string(server_->kind()) == "shared_memory");
  // The receiver keeps them all.
  const auto messages = from_server_->AwaitMessages(2 * kCount);
  ASSERT_EQ(messages.size(), 2 * kCount);
  for (int i = 0; i < kCount; ++i) {
    EXPECT_EQ(messages[2 * i].header, absl::StrCat(i));
    EXPECT_TRUE(Flatten(messages[2 * i].payload) == Flatten(Bytes(kSize, i))) << i;
    EXPECT_TRUE(Flatten(messages[2 * i + 1].payload) == Flatten(Bytes(100'000, i))) << i;
  }
}

TEST_P(FrameChannelTest, SendMemoryAndPayloadsThatAreKeptLeaveRoom) {
  Reconnect(1 << 20);
  server_->Send("kept", Bytes(512 << 10, 0));
  from_server_->AwaitMessages(1);
  // All that TakeSendMemory gives, each sent after bytes that have to be copied.
  constexpr size_t kSize = 64 << 10;
  std::vector<std::shared_ptr<std::byte>> taken;
  while (auto memory = server_->TakeSendMemory(kSize)) taken.push_back(std::move(memory));
  server_->Send("copied", Bytes(100'000, 1));
  for (std::shared_ptr<std::byte>& memory : taken) {
    Bytes(kSize, 2).CopyTo(memory.get());
    const Payload::Span span(memory.get(), kSize);
    server_->Send("made there", Payload({span}, std::move(memory)));
  }
  const auto messages = from_server_->AwaitMessages(2 + taken.size());
  EXPECT_TRUE(Flatten(messages[0].payload) == Flatten(Bytes(512 << 10, 0)));
  EXPECT_TRUE(Flatten(messages[1].payload) == Flatten(Bytes(100'000, 1)));
  for (size_t i = 2; i < messages.size(); ++i) {
    EXPECT_TRUE(Flatten(messages[i].payload) == Flatten(Bytes(kSize, 2))) << i;
  }
}

TEST_P(FrameChannelTest, SendMemoryMayOutliveTheChannel) {
  const std::shared_ptr<std::byte> memory = server_->TakeSendMemory(100'000);
  server_->Close(absl::CancelledError("done"));
  EXPECT_FALSE(from_client_->AwaitClosed().ok());
  EXPECT_FALSE(from_server_->AwaitClosed().ok());
  server_.reset();
  client_.reset();
  if (memory != nullptr) memory.get()[99'999] = std::byte{1};
}

TEST_P(FrameChannelTest, TheLargestHeaderAndPayloadPass) {
  const std::string header(kMaxFrameHeaderBytes, 'h');
  client_->Send(header, Bytes(kMaxFramePayloadBytes, 3));
  const auto messages = from_client_->AwaitMessages(1);
  EXPECT_TRUE(messages[0].header == header);
  EXPECT_TRUE(Flatten(messages[0].payload) == Flatten(Bytes(kMaxFramePayloadBytes, 3)));
}

TEST_P(FrameChannelTest, ManyThreadsSendAtATime) {
  constexpr int kThreads = 4, kMessages = 300;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kMessages; ++i) {
        client_->Send(absl::StrCat(thread, " ", i), Bytes(i % 10 == 0 ? 100'000 : 10 * i, thread));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto messages = from_client_->AwaitMessages(kThreads * kMessages);
  std::vector<int> next(kThreads);
  for (const auto& message : messages) {
    const int thread = message.header[0] - '0';
    const int i = next[thread]++;
    ASSERT_EQ(message.header, absl::StrCat(thread, " ", i));
    const size_t size = i % 10 == 0 ? 100'000 : 10 * i;
    ASSERT_TRUE(Flatten(message.payload) == Flatten(Bytes(size, thread)));
  }
}

TEST_P(FrameChannelTest, PayloadsThatAreKeptDoNotStopTheSender) {
  // Ten times the arena, and all of it is kept.
  for (int i = 0; i < 40; ++i) client_->Send("kept", Bytes(500'000, i));
  auto messages = from_client_->AwaitMessages(40);
  from_client_->Forget();
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(Flatten(messages[i].payload) == Flatten(Bytes(500'000, i))) << i;
  }
  // Given back in another order, the room is used again.
  for (int i = 0; i < 40; i += 2) messages[i].payload = {};
  messages.clear();
  for (int i = 0; i < 40; ++i) client_->Send("again", Bytes(500'000, i));
  EXPECT_EQ(from_client_->AwaitMessages(40).size(), 40u);
}

TEST_P(FrameChannelTest, PayloadsOutliveTheChannel) {
  client_->Send("kept", Bytes(500'000, 1));
  auto messages = from_client_->AwaitMessages(1);
  client_->Close(absl::CancelledError("done"));
  EXPECT_FALSE(from_server_->AwaitClosed().ok());
  EXPECT_FALSE(from_client_->AwaitClosed().ok());
  client_.reset();
  server_.reset();
  EXPECT_TRUE(Flatten(messages[0].payload) == Flatten(Bytes(500'000, 1)));
}

TEST_P(FrameChannelTest, NothingComesWhileReadingIsOff) {
  client_->Send("first", {});
  from_client_->AwaitMessages(1);
  server_->SetReading(false);
  // More than all buffers on the way hold.
  constexpr int kMessages = 100;
  for (int i = 0; i < kMessages; ++i) client_->Send("later", Bytes(1 << 20, i));
  server_->Send("still sends", Bytes(100'000, 0));
  from_server_->AwaitMessages(1);
  EXPECT_EQ(from_client_->received(), 1u);
  from_client_->DropPayloads();
  server_->SetReading(true);
  from_client_->AwaitMessages(1 + kMessages);
}

TEST_P(FrameChannelTest, CloseTellsBothEndsWhy) {
  const absl::Status reason = absl::UnavailableError("the server is shutting down");
  server_->Close(reason);
  server_->Close(absl::InternalError("too late"));
  EXPECT_EQ(from_client_->AwaitClosed(), reason);
  EXPECT_EQ(from_server_->AwaitClosed(), reason);
  // No more than dropped.
  client_->Send("into the void", Bytes(1000, 0));
  server_->Send("into the void", Bytes(1'000'000, 0));
  client_->SetReading(true);
}

TEST_P(FrameChannelTest, WhatWasSentBeforeCloseArrives) {
  client_->Send("last words", Bytes(100, 0));
  from_server_->AwaitSent(110);
  client_->Close(absl::CancelledError("done"));
  EXPECT_EQ(from_client_->AwaitClosed(), absl::CancelledError("done"));
  EXPECT_EQ(from_client_->received(), 1u);
}

TEST_P(FrameChannelTest, EndsWhileBothSidesSendLeaveNothingBehind) {
  for (int round = 0; round < 30; ++round) {
    std::thread sends([&] {
      for (int i = 0; i < 50; ++i) client_->Send("to", Bytes(i * 2000, i));
    });
    for (int i = 0; i < 50; ++i) server_->Send("fro", Bytes(i * 2000, i));
    (round % 2 == 0 ? client_ : server_)->Close(absl::CancelledError("enough"));
    EXPECT_FALSE(from_client_->AwaitClosed().ok());
    EXPECT_FALSE(from_server_->AwaitClosed().ok());
    sends.join();
    ConnectAnew(2 << 20);
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, FrameChannelTest,
                         ::testing::Values(Way::kTcp, Way::kTls, Way::kSharedMemory),
                         [](const ::testing::TestParamInfo<Way>& info) {
                           return info.param == Way::kTcp   ? "Tcp"
                                  : info.param == Way::kTls ? "Tls"
                                                            : "SharedMemory";
                         });

}  // namespace
}  // namespace muster
