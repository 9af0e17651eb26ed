#include "server/coordinator/calls/shared_reply.h"

#include <optional>

#include "gtest/gtest.h"
#include "proto/task_service.pb.h"
#include "server/coordinator/calls/call.h"

namespace muster {
namespace {

using Shared = SharedReply<v1::RendezvousReply>;

TEST(SharedReplyTest, IsSerialisedOnceForAllCallers) {
  v1::RendezvousReply reply;
  reply.set_round(7);
  reply.add_peers()->set_slot(3);
  const Shared shared(reply);
  const std::shared_ptr<const std::string> first = shared.bytes();
  EXPECT_EQ(first.get(), shared.bytes().get());
  v1::RendezvousReply read;
  ASSERT_TRUE(read.ParseFromString(*first));
  EXPECT_EQ(read.round(), 7);
  EXPECT_EQ(read.peers_size(), 1);
}

TEST(SharedReplyTest, ACallThatCannotShareGetsACopy) {
  v1::RendezvousReply reply;
  reply.set_round(7);
  const Shared shared(reply);
  std::optional<uint64_t> copied;
  const std::string* bytes = nullptr;
  Call<v1::RendezvousReply> call = {
      .done = [&](absl::StatusOr<v1::RendezvousReply> got) { copied = got->round(); }};
  call.Answer(shared);
  EXPECT_EQ(copied, 7);
  copied.reset();
  call.done_alike = [&](const Shared& got) { bytes = got.bytes().get(); };
  call.Answer(shared);
  EXPECT_EQ(bytes, shared.bytes().get());
  EXPECT_FALSE(copied.has_value());
}

}  // namespace
}  // namespace muster
