#include "common/examination/link_probe.h"

#include <poll.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/transport/sockets/sockets.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/examination.pb.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

// An interrupt that is set from the beginning, or never.
class Set final : public Interrupt {
 public:
  explicit Set(bool set) : set_(set) {}
  absl::Status status() const override {
    return set_ ? absl::CancelledError("stopped") : absl::OkStatus();
  }

 private:
  const bool set_;
};

const Set kNever(false);

std::unique_ptr<LinkListener> Listen() {
  auto listener = LinkListener::Create({.host = "127.0.0.1", .secret = "the secret"});
  EXPECT_TRUE(listener.ok()) << listener.status();
  return listener.ok() ? *std::move(listener) : nullptr;
}

TEST(LinkProbeTest, MeasuresRoundTripsAndBandwidth) {
  const auto listener = Listen();
  ASSERT_NE(listener, nullptr);
  std::vector<v1::LinkFacts> facts(3);
  std::vector<std::thread> others;
  for (v1::LinkFacts& link : facts) {
    others.emplace_back(
        [&] { MeasureLink(listener->host(), listener->port(), "the secret", kNever, link); });
  }
  for (std::thread& other : others) other.join();
  for (const v1::LinkFacts& link : facts) {
    EXPECT_EQ(link.probe_error(), "");
    EXPECT_EQ(link.probe_address(), absl::StrCat("127.0.0.1:", listener->port()));
    EXPECT_GT(link.least_round_trip_us(), 0u);
    EXPECT_GE(link.mean_round_trip_us(), link.least_round_trip_us());
    EXPECT_GT(link.carried_bytes(), 0u);
    EXPECT_LE(link.carried_bytes(), 64u << 20);
    EXPECT_GT(link.carry_us(), 0u);
  }
}

TEST(LinkProbeTest, WhoDoesNotKnowTheSecretIsSentAway) {
  const auto listener = Listen();
  ASSERT_NE(listener, nullptr);
  v1::LinkFacts link;
  MeasureLink("127.0.0.1", listener->port(), "the guess!", kNever, link);
  EXPECT_NE(link.probe_error(), "");
  EXPECT_EQ(link.least_round_trip_us(), 0u);
}

TEST(LinkProbeTest, AClosedPortIsNamed) {
  const uint16_t port = Listen()->port();
  v1::LinkFacts link;
  MeasureLink("127.0.0.1", port, "the secret", kNever, link);
  EXPECT_THAT(link.probe_error(), HasSubstr(absl::StrCat("127.0.0.1:", port)));
}

TEST(LinkProbeTest, OneThatIsNotWantedAnyMoreEnds) {
  const auto listener = ListenTcp("127.0.0.1");
  ASSERT_TRUE(listener.ok());
  // It would wait for an answer that never comes.
  v1::LinkFacts link;
  MeasureLink("127.0.0.1", listener->port, "the secret", Set(true), link);
  EXPECT_THAT(link.probe_error(), HasSubstr("stopped"));
}

TEST(LinkProbeTest, EndsWhileSomebodyIsConnectedWhoSaysNothing) {
  auto listener = Listen();
  ASSERT_NE(listener, nullptr);
  const auto silent = ConnectTcp("127.0.0.1", listener->port(), Deadline::After(absl::Seconds(30)));
  ASSERT_TRUE(silent.ok()) << silent.status();
  listener.reset();
}

TEST(LinkProbeTest, SaysWhyItCannotListen) {
  const absl::Status status =
      LinkListener::Create({.host = "no.such.host.invalid", .secret = "s"}).status();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("no.such.host.invalid"));
}

}  // namespace
}  // namespace muster
