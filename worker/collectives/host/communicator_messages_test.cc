// Tests on every backend that messages between two ranks arrive as they were sent: in order by tag,
// from any rank, of every type and size, and while others pass.
#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/collectives/communicator.h"
#include "worker/collectives/host/collective_cases_for_testing.h"
#include "worker/collectives/host/run_cases_for_testing.h"
#include "worker/collectives/host/sound_group_for_testing.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

class CommunicatorMessagesTest : public SoundGroupTest {};

TEST_P(CommunicatorMessagesTest, MessagesKeepTheirOrderByPair) {
  const std::unique_ptr<TestGroup> group = Group();
  Faults faults;
  group->Run([&](Communicator& rank) {
    // Three messages to every other rank and from it, of which two are larger than a pipe.
    constexpr size_t kCounts[] = {100, 100'000, 70'001};
    const int size = rank.size();
    std::vector<std::vector<int64_t>> out, in;
    std::vector<std::shared_ptr<Work>> works;
    for (int i = 0; i < 3 * size; ++i) {
      const int peer = i % size;
      out.emplace_back(kCounts[i / size], rank.rank() * 1000 + i / size);
      in.emplace_back(kCounts[i / size]);
      if (peer == rank.rank()) continue;
      works.push_back(rank.Start({.kind = Collective::kSend,
                                  .dtype = DType::kInt64,
                                  .in = out[i].data(),
                                  .count = out[i].size(),
                                  .root = peer}));
    }
    for (int i = 0; i < 3 * size; ++i) {
      const int peer = i % size;
      if (peer == rank.rank()) continue;
      works.push_back(rank.Start({.kind = Collective::kReceive,
                                  .dtype = DType::kInt64,
                                  .out = in[i].data(),
                                  .count = in[i].size(),
                                  .root = peer}));
    }
    for (auto& work : works) faults.Add(work->Wait(absl::Minutes(2)));
    for (int i = 0; i < 3 * size; ++i) {
      const int64_t expected = i % size * 1000 + i / size;
      if (i % size == rank.rank()) continue;
      if (std::count(in[i].begin(), in[i].end(), expected) != in[i].size()) {
        faults.Add("a message has other contents");
      }
    }
    faults.Add(rank.Run({.kind = Collective::kBarrier}));
  });
  EXPECT_THAT(faults.Take(), ElementsAre());
}

// Receives name tags in another order than sends, and some messages are larger than a pipe.
TEST_P(CommunicatorMessagesTest, AReceiveTakesTheNextMessageOfItsTag) {
  const std::unique_ptr<TestGroup> group = Group();
  Faults faults;
  group->Run([&](Communicator& rank) {
    constexpr int kTags[] = {5, 0, 5, 7, 0, 7};
    constexpr size_t kCounts[] = {100'000, 3, 70'001, 0, 50'000, 9};
    // Messages of one tag stay in order.
    constexpr int kAsked[] = {3, 1, 0, 5, 2, 4};
    const int size = rank.size();
    const int next = (rank.rank() + 1) % size, previous = (rank.rank() + size - 1) % size;
    if (size < 2) return;
    std::vector<std::vector<int64_t>> out;
    std::vector<std::shared_ptr<Work>> sends;
    for (int i = 0; i < 6; ++i) {
      out.emplace_back(kCounts[i], rank.rank() * 1000 + i);
      sends.push_back(rank.Start({.kind = Collective::kSend,
                                  .dtype = DType::kInt64,
                                  .in = out[i].data(),
                                  .count = out[i].size(),
                                  .root = next,
                                  .tag = kTags[i]}));
    }
    for (const int i : kAsked) {
      std::vector<int64_t> in(kCounts[i]);
      int source = -1;
      faults.Add(rank.Run({.kind = Collective::kReceive,
                           .dtype = DType::kInt64,
                           .out = in.data(),
                           .count = in.size(),
                           .root = i % 2 == 0 ? previous : kAnyRank,
                           .tag = kTags[i],
                           .source = &source,
                           .timeout = absl::Minutes(2)}));
      if (source != previous) faults.Add("another rank is said to have sent");
      if (std::count(in.begin(), in.end(), previous * 1000 + i) != in.size()) {
        faults.Add("a message has other contents");
      }
    }
    for (auto& work : sends) faults.Add(work->Wait(absl::Minutes(2)));
    faults.Add(rank.Run({.kind = Collective::kBarrier}));
  });
  EXPECT_THAT(faults.Take(), ElementsAre());
}

// Ranks that have sent go on to a barrier while rank 0 still receives, from others and large ones.
TEST_P(CommunicatorMessagesTest, AReceiveFromAnyRankNamesIt) {
  const std::unique_ptr<TestGroup> group = Group();
  Faults faults;
  group->Run([&](Communicator& rank) {
    constexpr size_t kCount = 60'000;
    constexpr int kRounds = 3;
    std::vector<int64_t> values(kCount, rank.rank());
    for (int i = 0; i < kRounds * (rank.size() - 1) && rank.rank() == 0; ++i) {
      int source = -1;
      faults.Add(rank.Run({.kind = Collective::kReceive,
                           .dtype = DType::kInt64,
                           .out = values.data(),
                           .count = kCount,
                           .root = kAnyRank,
                           .tag = 1 + i % kRounds,
                           .source = &source,
                           .timeout = absl::Minutes(2)}));
      if (std::count(values.begin(), values.end(), source) != kCount) {
        faults.Add("a message is not that of the rank that is named");
      }
    }
    for (int i = 0; i < kRounds && rank.rank() > 0; ++i) {
      faults.Add(rank.Run({.kind = Collective::kSend,
                           .dtype = DType::kInt64,
                           .in = values.data(),
                           .count = kCount,
                           .root = 0,
                           .tag = 1 + i,
                           .timeout = absl::Minutes(2)}));
    }
    faults.Add(rank.Run({.kind = Collective::kBarrier, .timeout = absl::Minutes(2)}));
  });
  EXPECT_THAT(faults.Take(), ElementsAre());
}

// Every rank exchanges with both neighbours at once, more than their pipes hold; the order in which
// a rank names its messages is its own.
TEST_P(CommunicatorMessagesTest, MessagesThatAreStartedTogetherPassOneAnother) {
  if (size() < 2) GTEST_SKIP() << "a message needs two ranks";
  const std::unique_ptr<TestGroup> group = Group();
  Faults faults;
  group->Run([&](Communicator& rank) {
    constexpr size_t kCount = 50'000;
    const int ranks = rank.size();
    const int peers[] = {(rank.rank() + 1) % ranks, (rank.rank() + ranks - 1) % ranks};
    for (int round = 0; round < 4; ++round) {
      std::vector<int64_t> out(kCount, rank.rank() * 100 + round);
      std::vector<std::vector<int64_t>> in(2, std::vector<int64_t>(kCount));
      std::vector<CollectiveCall> messages;
      for (int i = 0; i < (ranks == 2 ? 1 : 2); ++i) {
        messages.push_back({.kind = Collective::kSend,
                            .dtype = DType::kInt64,
                            .in = out.data(),
                            .count = kCount,
                            .root = peers[i]});
        messages.push_back({.kind = Collective::kReceive,
                            .dtype = DType::kInt64,
                            .out = in[i].data(),
                            .count = kCount,
                            .root = peers[i]});
      }
      if ((rank.rank() + round) % 2 == 0) std::reverse(messages.begin(), messages.end());
      const std::vector<std::shared_ptr<Work>> works = rank.StartMessages(messages);
      if (works.size() != messages.size()) return faults.Add("not one handle for each message");
      for (const std::shared_ptr<Work>& work : works) faults.Add(work->Wait(absl::Minutes(2)));
      for (int i = 0; i < (ranks == 2 ? 1 : 2); ++i) {
        if (std::count(in[i].begin(), in[i].end(), peers[i] * 100 + round) != kCount) {
          faults.Add("a message has other contents");
        }
      }
    }
    faults.Add(rank.Run({.kind = Collective::kBarrier}));
  });
  EXPECT_THAT(faults.Take(), ElementsAre());
}

TEST_P(CommunicatorMessagesTest, AWrongMessageIsRefusedAlone) {
  if (size() < 2) GTEST_SKIP() << "a message needs two ranks";
  const std::unique_ptr<TestGroup> group = Group();
  Faults faults;
  group->Run([&](Communicator& rank) {
    if (rank.rank() > 1) return;
    float value = static_cast<float>(rank.rank());
    float other = -1;
    const int peer = 1 - rank.rank();
    const std::vector<std::shared_ptr<Work>> works = rank.StartMessages(
        {{.kind = Collective::kSend, .in = &value, .count = 1, .root = rank.rank()},
         {.kind = Collective::kSend, .in = &value, .count = 1, .root = peer},
         {.kind = Collective::kReceive, .out = &other, .count = 1, .root = peer}});
    if (!absl::IsInvalidArgument(works[0]->Wait(absl::Minutes(2)))) faults.Add("not refused");
    faults.Add(works[1]->Wait(absl::Minutes(2)));
    faults.Add(works[2]->Wait(absl::Minutes(2)));
    if (other != static_cast<float>(peer)) faults.Add("wrong value");
  });
  EXPECT_THAT(faults.Take(), ElementsAre());
}

// Sends from every rank to the next one.
TEST_P(CommunicatorMessagesTest, MessagesOfEveryTypeAndSize) {
  if (size() < 2) GTEST_SKIP() << "a message needs two ranks";
  const std::unique_ptr<TestGroup> group = Group();
  Faults faults;
  group->Run([&](Communicator& rank) {
    const int next = (rank.rank() + 1) % rank.size();
    const int previous = (rank.rank() + rank.size() - 1) % rank.size();
    // Around what is sent and received.
    constexpr size_t kGuard = 16;
    size_t message = 0;
    const auto byte_at = [&](size_t sender, size_t i) {
      return static_cast<std::byte>(i * 7 + (i >> 8) + sender * 31 + message);
    };
    for (const DType dtype : kDTypes) {
      for (const size_t count : kContractSizes) {
        for (const bool misaligned : {false, true}) {
          ++message;
          const size_t bytes = count * SizeOf(dtype);
          std::vector<std::byte> in(bytes + 2 * kGuard), out(bytes + 2 * kGuard, std::byte{0xa5});
          std::vector<std::byte> expected = out;
          std::byte* const from = in.data() + kGuard + (misaligned ? 1 : 0);
          const size_t to = kGuard + (misaligned ? 3 : 0);
          for (size_t i = 0; i < bytes; ++i) {
            from[i] = byte_at(rank.rank(), i);
            expected[to + i] = byte_at(previous, i);
          }
          const std::shared_ptr<Work> sent = rank.Start({.kind = Collective::kSend,
                                                         .dtype = dtype,
                                                         .in = from,
                                                         .count = count,
                                                         .root = next});
          faults.Add(rank.Run({.kind = Collective::kReceive,
                               .dtype = dtype,
                               .out = out.data() + to,
                               .count = count,
                               .root = previous}));
          faults.Add(sent->Wait(absl::Minutes(2)));
          if (out != expected) {
            faults.Add(absl::StrCat(Name(dtype), " x ", count, misaligned ? " misaligned" : "",
                                    ": other bytes than were sent, or bytes beside them"));
          }
        }
      }
    }
  });
  EXPECT_THAT(faults.Take(), ElementsAre());
}

TEST_P(CommunicatorMessagesTest, RunSendsAndReceives) {
  if (size() < 2) GTEST_SKIP() << "a message needs two ranks";
  const std::unique_ptr<TestGroup> group = Group();
  Faults faults;
  group->Run([&](Communicator& rank) {
    // A value goes around, one more at each rank.
    const int next = (rank.rank() + 1) % rank.size();
    const int previous = (rank.rank() + rank.size() - 1) % rank.size();
    std::vector<int32_t> values(30'000, 1);
    const CollectiveCall send = {.kind = Collective::kSend,
                                 .dtype = DType::kInt32,
                                 .in = values.data(),
                                 .count = values.size(),
                                 .root = next};
    const CollectiveCall receive = {.kind = Collective::kReceive,
                                    .dtype = DType::kInt32,
                                    .out = values.data(),
                                    .count = values.size(),
                                    .root = previous};
    if (rank.rank() == 0) faults.Add(rank.Run(send));
    faults.Add(rank.Run(receive));
    if (values[0] != (rank.rank() == 0 ? rank.size() : rank.rank())) faults.Add("wrong value");
    for (int32_t& value : values) ++value;
    if (rank.rank() != 0) faults.Add(rank.Run(send));
  });
  EXPECT_THAT(faults.Take(), ElementsAre());
}

INSTANTIATE_TEST_SUITE_P(All, CommunicatorMessagesTest,
                         testing::ValuesIn(SoundGroupTest::Chosen(AllBackends())),
                         SoundGroupTest::NameOf);
INSTANTIATE_TEST_SUITE_P(Mixed, CommunicatorMessagesTest,
                         testing::ValuesIn(SoundGroupTest::Chosen({MixedBackend()})),
                         SoundGroupTest::NameOf);
INSTANTIATE_TEST_SUITE_P(ExhaustiveAll, CommunicatorMessagesTest,
                         testing::ValuesIn(SoundGroupTest::Others(AllBackends())),
                         SoundGroupTest::NameOf);
INSTANTIATE_TEST_SUITE_P(ExhaustiveMixed, CommunicatorMessagesTest,
                         testing::ValuesIn(SoundGroupTest::Others({MixedBackend()})),
                         SoundGroupTest::NameOf);

}  // namespace
}  // namespace muster
