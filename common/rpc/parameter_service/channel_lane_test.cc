#include "common/rpc/parameter_service/channel_lane.h"

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/transport/data_channel/frame_channel.h"
#include "common/transport/data_channel/io_loop.h"
#include "gtest/gtest.h"
#include "proto/parameter_service.pb.h"

namespace muster {
namespace {

// A channel that the test drives in the loop's place.
class FakeChannel final : public FrameChannel {
 public:
  void Start(std::shared_ptr<Handler> handler) override { handler_ = std::move(handler); }
  void Send(std::string header, Payload) override { sent_.push_back(std::move(header)); }
  void SetReading(bool) override {}
  void Close(absl::Status reason) override { closed_ = std::move(reason); }
  const char* kind() const override { return "fake"; }
  std::optional<uint64_t> RegisteredOffset(absl::Span<const std::byte> bytes) const override {
    if (bytes.data() < registered_.data()) return std::nullopt;
    const size_t offset = bytes.data() - registered_.data();
    if (offset + bytes.size() > registered_.size()) return std::nullopt;
    return offset;
  }

  void Register(absl::Span<const std::byte> memory) { registered_ = memory; }

  // What a real channel does once it was closed, or its connection broke.
  void End(const absl::Status& reason) { std::exchange(handler_, nullptr)->OnClosed(reason); }

  Handler& handler() { return *handler_; }
  const std::vector<std::string>& sent() const { return sent_; }
  const absl::Status& closed() const { return closed_; }

 private:
  std::shared_ptr<Handler> handler_;
  std::vector<std::string> sent_;
  absl::Status closed_;
  absl::Span<const std::byte> registered_;
};

class ChannelLaneTest : public ::testing::Test {
 protected:
  ~ChannelLaneTest() override {
    if (!ended_) End(absl::CancelledError("the test ends"));
  }

  void End(const absl::Status& reason) {
    ended_ = true;
    channel_->End(reason);
  }

  void Pull() {
    v1::ExchangeRequest request;
    request.mutable_dense_pull();
    lane_.Call(std::move(request), {}, Landing(),
               [this](absl::StatusOr<ExchangeResult> result) { result_ = std::move(result); });
  }

  absl::Span<std::byte> Landing() {
    return absl::MakeSpan(reinterpret_cast<std::byte*>(arena_.data()), arena_.size());
  }

  // The header of an answer to the first request.
  static std::string Answer(int code = 0, uint64_t id = 1) {
    v1::ExchangeReply reply;
    reply.set_request_id(id);
    reply.set_code(code);
    return reply.SerializeAsString();
  }

  const std::unique_ptr<IoLoop> loop_ = *IoLoop::Create();
  const std::shared_ptr<FakeChannel> channel_ = std::make_shared<FakeChannel>();
  std::string arena_ = "before";
  ChannelLane lane_{channel_, *loop_, "server", {1 << 20, 1 << 20}};
  std::optional<absl::StatusOr<ExchangeResult>> result_;
  bool ended_ = false;
};

TEST_F(ChannelLaneTest, AnAnswerIsReceivedAtItsPlace) {
  Pull();
  ASSERT_EQ(channel_->handler().PlaceFor(Answer(), arena_.size()), Landing().data());
  std::memcpy(arena_.data(), "pulled", 6);
  channel_->handler().OnMessage(Answer(), Payload({Landing()}, nullptr));
  ASSERT_TRUE(result_.has_value());
  ASSERT_TRUE(result_->ok()) << result_->status();
  ASSERT_EQ((*result_)->payload.spans().size(), 1u);
  EXPECT_EQ((*result_)->payload.spans()[0].data(), Landing().data());
  EXPECT_EQ(arena_, "pulled");
}

TEST_F(ChannelLaneTest, NothingElseIsReceivedThere) {
  EXPECT_EQ(channel_->handler().PlaceFor(Answer(), arena_.size()), nullptr) << "before the call";
  Pull();
  EXPECT_EQ(channel_->handler().PlaceFor(Answer(), arena_.size() + 1), nullptr) << "too long";
  EXPECT_EQ(channel_->handler().PlaceFor(Answer(), arena_.size() - 1), nullptr) << "too short";
  EXPECT_EQ(channel_->handler().PlaceFor(Answer(5), arena_.size()), nullptr) << "an error";
  EXPECT_EQ(channel_->handler().PlaceFor(Answer(0, 2), arena_.size()), nullptr) << "another call's";
  EXPECT_EQ(channel_->handler().PlaceFor("\xff", arena_.size()), nullptr) << "no answer";
  channel_->handler().OnMessage(Answer(), Payload());
  EXPECT_TRUE(result_.has_value());
  EXPECT_EQ(channel_->handler().PlaceFor(Answer(), arena_.size()), nullptr) << "after the answer";
}

TEST_F(ChannelLaneTest, AnAbortedCallEndsOnlyWhenItsPlaceIsFree) {
  Pull();
  ASSERT_NE(channel_->handler().PlaceFor(Answer(), arena_.size()), nullptr);
  lane_.Abort(absl::CancelledError("enough"));
  EXPECT_FALSE(result_.has_value());
  EXPECT_EQ(channel_->closed(), absl::CancelledError("enough"));
  End(channel_->closed());
  ASSERT_TRUE(result_.has_value());
  EXPECT_EQ(result_->status(), absl::CancelledError("enough"));
}

TEST_F(ChannelLaneTest, AnAnswerThatIsWholeOnlyAfterAnAbortIsTheAbort) {
  Pull();
  ASSERT_NE(channel_->handler().PlaceFor(Answer(), arena_.size()), nullptr);
  lane_.Abort(absl::CancelledError("enough"));
  channel_->handler().OnMessage(Answer(), Payload({Landing()}, nullptr));
  ASSERT_TRUE(result_.has_value());
  EXPECT_EQ(result_->status(), absl::CancelledError("enough"));
}

TEST_F(ChannelLaneTest, AnAbortBeforeTheAnswerFreesItsPlaceAtOnce) {
  Pull();
  lane_.Abort(absl::CancelledError("enough"));
  ASSERT_TRUE(result_.has_value());
  EXPECT_EQ(result_->status(), absl::CancelledError("enough"));
  EXPECT_EQ(channel_->handler().PlaceFor(Answer(), arena_.size()), nullptr);
}

TEST_F(ChannelLaneTest, AConnectionThatBreaksMidwayEndsTheCall) {
  Pull();
  ASSERT_NE(channel_->handler().PlaceFor(Answer(), arena_.size()), nullptr);
  End(absl::UnavailableError("reset"));
  ASSERT_TRUE(result_.has_value());
  EXPECT_TRUE(absl::IsUnavailable(result_->status())) << result_->status();
}

// Where the server itself may write the answer to its place.
class RegisteredLandingTest : public ChannelLaneTest {
 protected:
  RegisteredLandingTest() { channel_->Register(Landing()); }

  v1::ExchangeRequest Sent(size_t index) const {
    v1::ExchangeRequest request;
    EXPECT_TRUE(request.ParseFromString(channel_->sent()[index]));
    return request;
  }
  static std::string Landed(uint64_t id = 1) {
    v1::ExchangeReply reply;
    reply.set_request_id(id);
    reply.set_landed(true);
    return reply.SerializeAsString();
  }
};

TEST_F(RegisteredLandingTest, TheServerIsToldWhereAndTheAnswerLiesThere) {
  Pull();
  EXPECT_FALSE(Sent(0).has_payload_in());
  EXPECT_EQ(Sent(0).answer_to().offset(), 0u);
  EXPECT_EQ(Sent(0).answer_to().bytes(), arena_.size());
  std::memcpy(arena_.data(), "pulled", 6);
  channel_->handler().OnMessage(Landed(), Payload());
  ASSERT_TRUE(result_.has_value());
  ASSERT_TRUE(result_->ok()) << result_->status();
  ASSERT_EQ((*result_)->payload.spans().size(), 1u);
  EXPECT_EQ((*result_)->payload.spans()[0].data(), Landing().data());
}

TEST_F(RegisteredLandingTest, AnAnswerBehindTheReplyIsTakenAsWell) {
  Pull();
  ASSERT_EQ(channel_->handler().PlaceFor(Answer(), arena_.size()), Landing().data());
  channel_->handler().OnMessage(Answer(), Payload({Landing()}, nullptr));
  ASSERT_TRUE(result_.has_value());
  EXPECT_TRUE(result_->ok()) << result_->status();
}

TEST_F(RegisteredLandingTest, APayloadThereIsNamedAndKeptUntilTheAnswer) {
  auto owner = std::make_shared<int>(1);
  const std::weak_ptr<int> kept = owner;
  v1::ExchangeRequest request;
  request.mutable_dense_push();
  lane_.Call(std::move(request), Payload({Landing().subspan(2, 3)}, std::move(owner)), {},
             [this, &kept](absl::StatusOr<ExchangeResult> result) {
               EXPECT_TRUE(kept.expired());
               result_ = std::move(result);
             });
  EXPECT_EQ(Sent(0).payload_in().offset(), 2u);
  EXPECT_EQ(Sent(0).payload_in().bytes(), 3u);
  EXPECT_FALSE(Sent(0).has_answer_to());
  EXPECT_FALSE(kept.expired());
  channel_->handler().OnMessage(Answer(), Payload());
  EXPECT_TRUE(result_.has_value() && result_->ok());
}

TEST_F(RegisteredLandingTest, OtherMemoryIsNotNamed) {
  std::string elsewhere = "elsewhere";
  v1::ExchangeRequest request;
  request.mutable_dense_pull();
  const absl::Span<std::byte> place(reinterpret_cast<std::byte*>(elsewhere.data()), 9);
  lane_.Call(std::move(request), Payload::Copy(place), place,
             [this](absl::StatusOr<ExchangeResult> result) { result_ = std::move(result); });
  EXPECT_FALSE(Sent(0).has_payload_in());
  EXPECT_FALSE(Sent(0).has_answer_to());
  lane_.Abort(absl::CancelledError("enough"));
  EXPECT_TRUE(result_.has_value());
}

TEST_F(RegisteredLandingTest, CallsThatAreAbortedEndWithTheChannel) {
  std::vector<absl::Status> ended;
  for (int i = 0; i < 3; ++i) {
    v1::ExchangeRequest request;
    request.mutable_dense_pull();
    lane_.Call(
        std::move(request), {}, Landing().subspan(2 * i, 2),
        [&ended](absl::StatusOr<ExchangeResult> result) { ended.push_back(result.status()); });
  }
  lane_.Abort(absl::CancelledError("enough"));
  EXPECT_TRUE(ended.empty());
  // One is answered meanwhile.
  channel_->handler().OnMessage(Landed(2), Payload());
  EXPECT_EQ(ended, std::vector<absl::Status>(1, absl::CancelledError("enough")));
  End(absl::UnavailableError("reset"));
  EXPECT_EQ(ended, std::vector<absl::Status>(3, absl::CancelledError("enough")));
}

TEST_F(RegisteredLandingTest, AConnectionThatBreaksEndsThemAll) {
  Pull();
  std::optional<absl::Status> later;
  End(absl::UnavailableError("reset"));
  ASSERT_TRUE(result_.has_value());
  EXPECT_TRUE(absl::IsUnavailable(result_->status())) << result_->status();
  v1::ExchangeRequest request;
  lane_.Call(std::move(request), {}, Landing(),
             [&later](absl::StatusOr<ExchangeResult> result) { later = result.status(); });
  ASSERT_TRUE(later.has_value());
  EXPECT_TRUE(absl::IsUnavailable(*later)) << *later;
}

TEST_F(ChannelLaneTest, AnAnswerThatLandedWhereNoPlaceWasNamedBreaksTheConnection) {
  Pull();
  v1::ExchangeReply reply;
  reply.set_request_id(1);
  reply.set_landed(true);
  channel_->handler().OnMessage(reply.SerializeAsString(), Payload());
  ASSERT_TRUE(result_.has_value());
  EXPECT_TRUE(absl::IsInternal(result_->status())) << result_->status();
  EXPECT_TRUE(absl::IsInternal(channel_->closed())) << channel_->closed();
}

}  // namespace
}  // namespace muster
