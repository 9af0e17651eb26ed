// A data channel's server before whoever may come: strangers, the impatient, the malicious, the
// outdated, and those that die.

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/philox.h"
#include "common/transport/answer.h"
#include "common/transport/data_channel/channel_connector.h"
#include "common/transport/data_channel/channel_pair_for_testing.h"
#include "common/transport/data_channel/deadline_for_testing.h"
#include "common/transport/data_channel/frame.h"
#include "common/transport/shared_memory/byte_ring.h"
#include "common/transport/shared_memory/registered_memory.h"
#include "common/transport/shared_memory/shared_segment.h"
#include "common/transport/shared_memory/write_gate.h"
#include "common/transport/sockets/blocking_frames.h"
#include "common/transport/sockets/sockets.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

constexpr size_t kArena = 1 << 20;

// Everything that comes until the other end closes.
std::string ReadToEnd(int socket) {
  std::string all;
  char buffer[4096];
  while (AwaitSocket(socket, POLLIN, TestDeadline()).ok()) {
    const ssize_t got = recv(socket, buffer, sizeof(buffer), 0);
    if (got <= 0) break;
    all.append(buffer, got);
  }
  return all;
}

class ChannelAttackTest : public ::testing::Test {
 protected:
  explicit ChannelAttackTest(ChannelListenerOptions options = {}) : listener_(options) {}

  Descriptor Connected() {
    return *ConnectTcp("127.0.0.1", listener_.address().port, TestDeadline());
  }

  std::string HelloBytes(ChannelHello::Kind kind = ChannelHello::Kind::kStream,
                         uint64_t registered_bytes = 0) {
    ChannelHello hello;
    hello.version = kChannelVersion;
    hello.nonce = listener_.address().nonce;
    hello.kind = kind;
    hello.arena_bytes = kArena;
    hello.registered_bytes = registered_bytes;
    return hello.Serialize();
  }

  // Says hello and answers the challenge; what the server says.
  absl::Status ShakeHands(int socket, const std::string& hello, const std::string& secret) {
    SendFrame(socket, hello, TestDeadline()).IgnoreError();
    auto answer = ReceiveFrame(socket, TestDeadline());
    if (!answer.ok()) return answer.status();
    auto challenge = DecodeAnswer(*answer);
    if (!challenge.ok()) return challenge.status();
    SendFrame(socket, ChannelProof(secret, hello, *challenge), TestDeadline()).IgnoreError();
    auto verdict = ReceiveFrame(socket, TestDeadline());
    return verdict.ok() ? DecodeAnswer(*verdict).status() : verdict.status();
  }

  // Serves the next client.
  std::shared_ptr<RecordingHandler> Serve() {
    auto handler = std::make_shared<RecordingHandler>();
    listener_.AwaitChannel()->Start(handler);
    return handler;
  }

  // That an honest client is served.
  void ExpectServed() {
    auto io = *ChannelIo::Create();
    auto client =
        ConnectSocketChannel(listener_.address(), io->NextLoop(), io->pool(), TestDeadline());
    ASSERT_TRUE(client.ok()) << client.status();
    auto answers = std::make_shared<RecordingHandler>();
    (*client)->Start(answers);
    auto handler = Serve();
    (*client)->Send("hello", {});
    EXPECT_EQ(handler->AwaitMessages(1)[0].header, "hello");
    (*client)->Close(absl::CancelledError("done"));
    EXPECT_FALSE(answers->AwaitClosed().ok());
    EXPECT_FALSE(handler->AwaitClosed().ok());
  }

  ListenerForTesting listener_;
};

TEST_F(ChannelAttackTest, WhoDoesNotKnowTheSecretIsRefused) {
  for (const std::string& secret : {std::string(), std::string(32, 'x')}) {
    Descriptor socket = Connected();
    EXPECT_EQ(ShakeHands(socket.get(), HelloBytes(), secret).code(),
              absl::StatusCode::kUnauthenticated);
    EXPECT_EQ(ReadToEnd(socket.get()), "");
  }
  ExpectServed();
}

TEST_F(ChannelAttackTest, ANewerVersionIsRefusedByName) {
  ChannelHello hello;
  hello.version = kChannelVersion + 1;
  hello.nonce = listener_.address().nonce;
  Descriptor socket = Connected();
  const absl::Status status =
      ShakeHands(socket.get(), hello.Serialize() + "and more", listener_.address().secret);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat("version ", kChannelVersion + 1)));
  ExpectServed();
}

TEST_F(ChannelAttackTest, AnOldAddressIsTurnedAway) {
  ChannelAddress old = listener_.address();
  old.nonce = std::string(16, 'n');
  auto io = *ChannelIo::Create();
  const auto client = ConnectSocketChannel(old, io->NextLoop(), io->pool(), TestDeadline());
  EXPECT_EQ(client.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(client.status().message()), HasSubstr("server that is gone"));
}

TEST_F(ChannelAttackTest, GarbageInTheHandshakeIsTurnedAwayAtOnce) {
  const Philox random(20261120);
  for (int i = 0; i < 200; ++i) {
    Descriptor socket = Connected();
    std::string bytes(1 + random.Uint64(i) % 300, '\0');
    for (size_t k = 0; k < bytes.size(); ++k) bytes[k] = static_cast<char>(random.Uint64(i, k + 1));
    // A length that fits, so that the hello itself is looked at, or anything.
    if (i % 2 == 0 && bytes.size() > 4) {
      const auto length = static_cast<uint32_t>(bytes.size() - 4);
      std::memcpy(bytes.data(), &length, sizeof(length));
    }
    if (i % 3 == 0) {
      std::string hello = HelloBytes();
      hello[random.Uint64(i, 999) % hello.size()] ^= 0x55;
      SendFrame(socket.get(), hello, TestDeadline()).IgnoreError();
    } else {
      send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    }
    shutdown(socket.get(), SHUT_WR);
    ReadToEnd(socket.get());
  }
  ExpectServed();
}

TEST_F(ChannelAttackTest, SilentCallersHoldUpNobody) {
  std::vector<Descriptor> silent;
  for (int i = 0; i < 300; ++i) {
    silent.push_back(Connected());
    if (i % 2 == 0) send(silent.back().get(), "\x20", 1, MSG_NOSIGNAL);
  }
  ExpectServed();
}

class ImpatientTest : public ChannelAttackTest {
 protected:
  ImpatientTest() : ChannelAttackTest({.patience = absl::Milliseconds(50)}) {}
};

TEST_F(ImpatientTest, SilentCallersAreDropped) {
  Descriptor socket = Connected();
  EXPECT_EQ(ReadToEnd(socket.get()), "");
}

TEST_F(ChannelAttackTest, MalformedFramesEndTheirChannelWithAnErrorThatSaysWhat) {
  const Philox random(42);
  for (int i = 0; i < 150; ++i) {
    Descriptor socket = Connected();
    ASSERT_TRUE(ShakeHands(socket.get(), HelloBytes(), listener_.address().secret).ok());
    auto handler = Serve();
    // Some good messages, then one that is not.
    std::string bytes;
    const size_t good = random.Uint64(i) % 3;
    for (size_t k = 0; k <= good; ++k) {
      std::string frame(kFrameBytes, '\0');
      EncodeFrame({.header_bytes = 5, .payload_bytes = 100},
                  reinterpret_cast<std::byte*>(frame.data()));
      if (k == good) {
        // Of the magic, kind, place, zeros, or the highest byte of a length.
        const size_t at[] = {0, 1, 2, 3, 4, 5, 6, 7, 11, 15};
        frame[at[random.Uint64(i, 7) % std::size(at)]] ^= static_cast<char>(0x80);
      }
      bytes += frame + "hello" + std::string(100, 'p');
    }
    send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    const absl::Status reason = handler->AwaitClosed();
    EXPECT_EQ(reason.code(), absl::StatusCode::kInvalidArgument) << reason;
    EXPECT_THAT(std::string(reason.message()), HasSubstr("malformed frame"));
    EXPECT_EQ(handler->received(), good);
    // The caller is told as well.
    EXPECT_THAT(ReadToEnd(socket.get()), HasSubstr("malformed frame"));
  }
  ExpectServed();
}

TEST_F(ChannelAttackTest, RandomBytesNeverDoMoreThanEndTheChannel) {
  const Philox random(43);
  for (int i = 0; i < 150; ++i) {
    Descriptor socket = Connected();
    ASSERT_TRUE(ShakeHands(socket.get(), HelloBytes(), listener_.address().secret).ok());
    auto handler = Serve();
    std::string bytes(1 + random.Uint64(i) % 5000, '\0');
    for (size_t k = 0; k < bytes.size(); ++k) bytes[k] = static_cast<char>(random.Uint64(i, k + 1));
    // Half of them begin as a frame does, with lengths that promise more than comes.
    if (i % 2 == 0 && bytes.size() >= kFrameBytes) {
      EncodeFrame({.header_bytes = static_cast<uint32_t>(random.Uint64(i, 9999) % 4000),
                   .payload_bytes = static_cast<uint32_t>(random.Uint64(i, 9998) % (64 << 20))},
                  reinterpret_cast<std::byte*>(bytes.data()));
    }
    send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    shutdown(socket.get(), SHUT_WR);
    EXPECT_FALSE(handler->AwaitClosed().ok());
  }
  ExpectServed();
}

// A client that opens a channel through shared memory as it should, and then writes what it likes.
class SharedMemoryAttackTest : public ChannelAttackTest {
 protected:
  struct Client {
    Descriptor socket;
    std::shared_ptr<SharedSegment> segment;
    Descriptor own_bell;
    Descriptor server_bell;

    std::byte* ring() const { return segment->ring(SharedSegment::Direction::kToServer); }
    void Wake() const { eventfd_write(server_bell.get(), 1); }
  };

  // Shakes hands, and hands these over with the proof; the verdict is next.
  Descriptor HandOver(const std::vector<int>& descriptors, uint64_t registered_bytes = 0) {
    Descriptor socket = *ConnectUnix(listener_.address().unix_name, TestDeadline());
    const std::string hello = HelloBytes(ChannelHello::Kind::kSharedMemory, registered_bytes);
    EXPECT_TRUE(SendFrame(socket.get(), hello, TestDeadline()).ok());
    const std::string challenge = *DecodeAnswer(*ReceiveFrame(socket.get(), TestDeadline()));
    EXPECT_TRUE(SendDescriptors(socket.get(),
                                ChannelProof(listener_.address().secret, hello, challenge),
                                descriptors, TestDeadline())
                    .ok());
    return socket;
  }

  Client OpenShared(const RegisteredMemory* memory = nullptr) {
    Client client;
    client.segment = *SharedSegment::Create(kArena);
    client.own_bell = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    std::vector<int> descriptors = {client.segment->descriptor(), client.own_bell.get()};
    if (memory != nullptr) descriptors.push_back(memory->descriptor());
    client.socket = HandOver(descriptors, memory == nullptr ? 0 : memory->bytes());
    auto verdict = ReceiveDescriptors(client.socket.get(), TestDeadline());
    EXPECT_TRUE(verdict.ok() && verdict->descriptors.size() == 1);
    client.server_bell = std::move(verdict->descriptors[0]);
    return client;
  }

  void Write(const Client& client, const std::string& bytes) {
    RingWriter writer(client.ring(), kSegmentRingBytes);
    EXPECT_TRUE(
        writer.Write({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()}).ok());
    writer.ReaderToWake();
    client.Wake();
  }
};

TEST_F(SharedMemoryAttackTest, AClientThatGivesNothingBackKeepsNobodyFromRoomThatIsGivenUp) {
  const Client client = OpenShared();
  const std::shared_ptr<FrameChannel> channel = listener_.AwaitChannel();
  const auto handler = std::make_shared<RecordingHandler>();
  channel->Start(handler);
  std::shared_ptr<std::byte> memory = channel->TakeSendMemory(MaxTakenBytes(kArena));
  ASSERT_NE(memory, nullptr);
  const size_t rest = kArena - MaxTakenBytes(kArena);
  channel->Send("1", Payload::Of(std::vector<std::byte>(rest)));
  channel->Send("2", Payload::Of(std::vector<std::byte>(kGranuleBytes)));
  // The server's loop is about to sleep, or asleep.
  const ArenaLedger& ledger = client.segment->ledger(SharedSegment::Direction::kToClient);
  while (ledger.sender_waits.load() == 0) std::this_thread::yield();
  memory.reset();
  handler->AwaitSent(2 + rest + kGranuleBytes);
  channel->Close(absl::CancelledError("done"));
  EXPECT_FALSE(handler->AwaitClosed().ok());
}

TEST_F(SharedMemoryAttackTest, FragmentsOutsideTheArenaEndTheChannel) {
  const uint64_t huge = ~uint64_t{0};
  const struct {
    uint64_t offset, length;
    const char* message;
  } cases[] = {
      {kArena, 100, "at offset 1048576 of an arena"},
      {kGranuleBytes + 4, 100, "at offset 65540"},
      {0, huge, "a fragment of 18446744073709551615 bytes"},
      {huge - 65535, 100, "a fragment of 100 bytes"},
      {0, 0, "a fragment of 0 bytes"},
      {0, 20'001, "where 20000 are missing"},
      // Only the last may be short.
      {0, 19'999, "a fragment of 19999 bytes where 20000 are missing"},
  };
  for (const auto& c : cases) {
    Client client = OpenShared();
    auto handler = Serve();
    std::string bytes(kFrameBytes, '\0');
    EncodeFrame({.place = PayloadPlace::kArena, .header_bytes = 5, .payload_bytes = 20'000},
                reinterpret_cast<std::byte*>(bytes.data()));
    bytes += "hello";
    const uint64_t fragment[] = {c.offset, c.length};
    bytes.append(reinterpret_cast<const char*>(fragment), sizeof(fragment));
    Write(client, bytes);
    const absl::Status reason = handler->AwaitClosed();
    EXPECT_EQ(reason.code(), absl::StatusCode::kDataLoss) << reason;
    EXPECT_THAT(std::string(reason.message()), HasSubstr(c.message));
    EXPECT_EQ(handler->received(), 0u);
  }
  ExpectServed();
}

TEST_F(SharedMemoryAttackTest, ImpossibleIndicesEndTheChannel) {
  Client client = OpenShared();
  auto handler = Serve();
  reinterpret_cast<RingHeader*>(client.ring())->tail.store(kSegmentRingBytes + 1);
  client.Wake();
  EXPECT_EQ(handler->AwaitClosed().code(), absl::StatusCode::kDataLoss);
  ExpectServed();
}

TEST_F(SharedMemoryAttackTest, RandomBytesNeverDoMoreThanEndTheChannel) {
  const Philox random(44);
  for (int i = 0; i < 100; ++i) {
    Client client = OpenShared();
    auto handler = Serve();
    const size_t size = 1 + random.Uint64(i) % 20'000;
    std::string bytes(size, '\0');
    for (size_t k = 0; k < size; ++k) bytes[k] = static_cast<char>(random.Uint64(i, k + 1));
    if (i % 2 == 0 && size >= kFrameBytes) {
      EncodeFrame({.place = i % 4 == 0 ? PayloadPlace::kArena : PayloadPlace::kFollows,
                   .header_bytes = static_cast<uint32_t>(random.Uint64(i, 9999) % 4000),
                   .payload_bytes = static_cast<uint32_t>(random.Uint64(i, 9998) % (64 << 20))},
                  reinterpret_cast<std::byte*>(bytes.data()));
    }
    Write(client, bytes);
    client.socket.Close();
    EXPECT_FALSE(handler->AwaitClosed().ok());
  }
  ExpectServed();
}

TEST_F(SharedMemoryAttackTest, AnotherKindOfDescriptorIsRefused) {
  for (const size_t descriptors : {0, 1, 2}) {
    Descriptor event(eventfd(0, EFD_CLOEXEC));
    const Descriptor socket = HandOver(std::vector<int>(descriptors, event.get()));
    const auto verdict = ReceiveFrame(socket.get(), TestDeadline());
    ASSERT_TRUE(verdict.ok()) << verdict.status();
    EXPECT_FALSE(DecodeAnswer(*verdict).ok());
  }
  ExpectServed();
}

TEST_F(SharedMemoryAttackTest, ABellThatIsNoEventfdIsRefused) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const Descriptor pipe_out(ends[0]), pipe_in(ends[1]);
  const Descriptor file(open("/dev/null", O_WRONLY | O_CLOEXEC));
  const Descriptor event(eventfd(0, EFD_CLOEXEC));
  const auto segment = *SharedSegment::Create(kArena);
  for (const int bell : {pipe_in.get(), file.get(), segment->descriptor(), event.get()}) {
    const Descriptor socket = HandOver({segment->descriptor(), bell});
    const auto verdict = ReceiveFrame(socket.get(), TestDeadline());
    ASSERT_TRUE(verdict.ok()) << verdict.status();
    const absl::Status status = DecodeAnswer(*verdict).status();
    if (bell == event.get()) {
      EXPECT_TRUE(status.ok()) << status;
    } else {
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("expected an eventfd"));
    }
  }
  // So that ringing it never blocks, however often it was rung.
  EXPECT_NE(fcntl(event.get(), F_GETFL) & O_NONBLOCK, 0);
  auto handler = Serve();
  EXPECT_FALSE(handler->AwaitClosed().ok());
  ExpectServed();
}

TEST_F(SharedMemoryAttackTest, RegisteredMemoryThatIsNoneOrOfAnotherSizeIsRefused) {
  const Descriptor bell(eventfd(0, EFD_CLOEXEC));
  const auto segment = *SharedSegment::Create(kArena);
  const auto memory = *RegisteredMemory::Create(8192);
  const int arena = segment->descriptor();
  // Descriptors, and bytes that are said to be registered.
  const std::vector<std::pair<std::vector<int>, uint64_t>> all = {
      {{arena, bell.get()}, 8192},
      {{arena, bell.get(), memory->descriptor()}, 0},
      {{arena, bell.get(), memory->descriptor()}, 4096},
      {{arena, bell.get(), memory->descriptor()}, uint64_t{1} << 62},
      {{arena, bell.get(), bell.get()}, 8192},
  };
  for (const auto& [descriptors, bytes] : all) {
    const Descriptor socket = HandOver(descriptors, bytes);
    const auto verdict = ReceiveFrame(socket.get(), TestDeadline());
    ASSERT_TRUE(verdict.ok()) << verdict.status();
    EXPECT_FALSE(DecodeAnswer(*verdict).ok()) << bytes;
  }
  ExpectServed();
}

// What the client writes there tells the server nothing of its own writers.
TEST_F(SharedMemoryAttackTest, AGateThatIsNeverEmptyDoesNotKeepTheServer) {
  const auto memory = *RegisteredMemory::Create(8192);
  Client client = OpenShared(memory.get());
  auto handler = std::make_shared<RecordingHandler>();
  const auto channel = listener_.AwaitChannel();
  channel->Start(handler);
  WriteGate& gate = client.segment->write_gate();
  gate.writers.store(0xffffffff);
  EXPECT_NE(*channel->WriteRegistered(0, 8192), nullptr);
  gate.closed.store(7);
  EXPECT_EQ(*channel->WriteRegistered(0, 8192), nullptr);
  gate.writers.store(12345);
  channel->Close(absl::CancelledError("enough"));
  EXPECT_EQ(handler->AwaitClosed(), absl::CancelledError("enough"));
  ExpectServed();
}

TEST_F(SharedMemoryAttackTest, TooLargeAnArenaIsRefused) {
  auto io = *ChannelIo::Create();
  const auto client = ConnectSharedChannel(listener_.address(), kDefaultArenaBytes + kGranuleBytes,
                                           io->NextLoop(), io->pool(), TestDeadline());
  EXPECT_EQ(client.status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(SharedMemoryAttackTest, AKilledProcessIsNoticedAndItsLastMessagesCount) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  // The child holds copies of all that the channel is made of.
  Client client = OpenShared();
  auto handler = Serve();
  const pid_t child = fork();
  if (child == 0) {
    std::string bytes(kFrameBytes, '\0');
    EncodeFrame({.header_bytes = 5}, reinterpret_cast<std::byte*>(bytes.data()));
    bytes += "hello";
    RingWriter writer(client.ring(), kSegmentRingBytes);
    writer.Write({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()}).IgnoreError();
    writer.ReaderToWake();
    char byte = 1;
    if (write(ready[1], &byte, 1) != 1) _exit(1);
    while (true) pause();
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  client.socket.Close();
  kill(child, SIGKILL);
  EXPECT_EQ(handler->AwaitClosed().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(handler->received(), 1u);
  int status;
  waitpid(child, &status, 0);
  close(ready[0]);
  close(ready[1]);
  ExpectServed();
}

}  // namespace
}  // namespace muster
