#include "worker/collectives/transport/meeting/handshake.h"

#include <sys/socket.h>

#include <thread>

#include "absl/time/clock.h"
#include "common/transport/keyed_hash.h"
#include "common/transport/sockets/blocking_frames.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

class HandshakeTest : public testing::Test {
 protected:
  HandshakeTest() {
    int sockets[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets), 0);
    caller_ = Descriptor(sockets[0]);
    called_ = Descriptor(sockets[1]);
    hello_.group_key = std::string(16, 'k');
    hello_.endpoint_nonce = std::string(16, 'n');
    hello_.nonce = RandomBytes(16);
    hello_.from = 1;
    hello_.to = 2;
    hello_.size = 3;
  }

  struct Outcome {
    absl::StatusOr<std::string> caller, called;
  };
  Outcome Meet(const std::string& callers_secret, const std::string& called_secret,
               const Hello& expected) {
    Outcome outcome;
    const absl::Time deadline = absl::Now() + absl::Seconds(20);
    std::thread calling(
        [&] { outcome.caller = Call(caller_.get(), hello_, callers_secret, deadline); });
    const Hello hello = Hello::Parse(ReceiveFrame(called_.get(), deadline).value()).value();
    outcome.called = Answer(called_.get(), hello, expected, called_secret, deadline);
    calling.join();
    return outcome;
  }

  Descriptor caller_, called_;
  Hello hello_;
};

TEST_F(HandshakeTest, BothGetOneKey) {
  const Outcome outcome = Meet("secret", "secret", hello_);
  ASSERT_TRUE(outcome.caller.ok()) << outcome.caller.status();
  ASSERT_TRUE(outcome.called.ok()) << outcome.called.status();
  EXPECT_EQ(*outcome.caller, *outcome.called);
  EXPECT_EQ(outcome.caller->size(), 32u);
}

TEST_F(HandshakeTest, AnEmptySecretIsOneTooAndNotAnyOther) {
  EXPECT_TRUE(Meet("", "", hello_).caller.ok());
  const Outcome outcome = Meet("", "secret", hello_);
  EXPECT_EQ(outcome.caller.status().code(), absl::StatusCode::kUnauthenticated);
}

TEST_F(HandshakeTest, AWrongSecretIsFoundOnBothSides) {
  const Outcome outcome = Meet("secret", "another", hello_);
  EXPECT_EQ(outcome.caller.status().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(outcome.called.status().code(), absl::StatusCode::kUnauthenticated);
}

TEST_F(HandshakeTest, AHelloWithoutTheSecretIsTurnedAwayAtOnce) {
  // Nobody answers at the other end: it is not even asked.
  for (const std::string& proof : {std::string(), std::string(32, 'x'), hello_.nonce}) {
    Hello forged = hello_;
    forged.proof = proof;
    EXPECT_EQ(
        Answer(called_.get(), forged, hello_, "secret", Deadline::After(absl::InfiniteDuration()))
            .status()
            .code(),
        absl::StatusCode::kUnauthenticated);
  }
}

TEST_F(HandshakeTest, ACalledRankThatBluffsIsFound) {
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  // A listener without the secret sends any proof, and accepts whatever comes back.
  std::thread bluffing([&] {
    (void)ReceiveFrame(called_.get(), deadline);
    const std::string message = std::string(4, '\0') + std::string("\x30\0\0\0", 4);
    (void)SendFrame(called_.get(), message + std::string(48, 'x'), deadline);
  });
  EXPECT_EQ(Call(caller_.get(), hello_, "secret", deadline).status().code(),
            absl::StatusCode::kUnauthenticated);
  bluffing.join();
}

TEST_F(HandshakeTest, ADisagreementIsNamed) {
  Hello expected = hello_;
  expected.size = 4;
  Outcome outcome = Meet("secret", "secret", expected);
  EXPECT_EQ(outcome.called.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(outcome.caller.status().message(), outcome.called.status().message());
  expected = hello_;
  expected.tls = true;
  outcome = Meet("secret", "secret", expected);
  EXPECT_EQ(outcome.caller.status().code(), absl::StatusCode::kFailedPrecondition);
  expected = hello_;
  expected.connections = 2;
  outcome = Meet("secret", "secret", expected);
  EXPECT_EQ(outcome.caller.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(outcome.caller.status().message(), "it joins with 1 data connection, expected 2");
  hello_.connections = 3;
  outcome = Meet("secret", "secret", expected);
  EXPECT_EQ(outcome.called.status().message(), "it joins with 3 data connections, expected 2");
}

TEST_F(HandshakeTest, TheProofIsOfTheDataConnectionTooAndOfTheirNumber) {
  hello_.kind = ConnectionKind::kData;
  hello_.connections = 3;
  hello_.proof = KeyedHash("secret", "hello" + hello_.Claims());
  ASSERT_TRUE(ProvesSecret(hello_, "secret"));
  Hello other = hello_;
  other.lane = 1;
  EXPECT_FALSE(ProvesSecret(other, "secret"));
  other = hello_;
  other.connections = 2;
  EXPECT_FALSE(ProvesSecret(other, "secret"));
}

TEST_F(HandshakeTest, SilenceEndsAtTheDeadline) {
  EXPECT_EQ(
      Call(caller_.get(), hello_, "secret", absl::Now() + absl::Milliseconds(20)).status().code(),
      absl::StatusCode::kUnavailable);
}

TEST_F(HandshakeTest, AClosedConnectionEndsItAtOnce) {
  called_.Close();
  EXPECT_EQ(Call(caller_.get(), hello_, "secret", absl::Now() + absl::Seconds(20)).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(HandshakeTest, OtherBytesAreNoHello) {
  const std::string bytes = hello_.Serialize();
  ASSERT_TRUE(Hello::Parse(bytes).ok());
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(Hello::Parse(bytes.substr(0, length)).ok());
  }
  EXPECT_FALSE(Hello::Parse("GET / HTTP/1.1\r\n\r\n").ok());
}

TEST_F(HandshakeTest, ALaneIsOneOfTheDataConnections) {
  hello_.connections = 3;
  hello_.lane = 2;
  // A control connection is the only one.
  EXPECT_FALSE(Hello::Parse(hello_.Serialize()).ok());
  hello_.kind = ConnectionKind::kData;
  const absl::StatusOr<Hello> parsed = Hello::Parse(hello_.Serialize());
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->connections, 3u);
  EXPECT_EQ(parsed->lane, 2u);
  hello_.lane = 3;
  EXPECT_FALSE(Hello::Parse(hello_.Serialize()).ok());
  hello_.lane = hello_.connections = 0;
  EXPECT_FALSE(Hello::Parse(hello_.Serialize()).ok());
}

}  // namespace
}  // namespace muster
