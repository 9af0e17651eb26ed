// Random histories of clocks that do not wait for the slowest slots: crashes of servers, respawned
// tasks and repeated calls, against the mean over the slots that each clock took.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/memory_storage.h"
#include "proto/parameter_service.pb.h"
#include "server/shard/calls/test_exchange.h"
#include "server/shard/test_engine.h"
#include "server/shard/test_server.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAreArray;
using ::testing::SizeIs;

constexpr uint32_t kPartitions = 2;
constexpr uint64_t kClocks = 30;

// A job of two partitions, each on a server of its own. Slots do not pull, so that the partitions
// are as far apart as can be.
class BackupHistory {
 public:
  BackupHistory(uint64_t seed, uint32_t slots, uint32_t backups)
      : random_(seed), backups_(backups), slots_(slots) {
    request_ = TestDurableRequest();
    request_.set_slots(slots);
    request_.mutable_update()->set_backup_workers(backups);
    request_.mutable_schema()->clear_sparse();
    request_.mutable_schema()->set_partitions(kPartitions);
    // Some forget their logs often.
    const uint64_t log_bytes = Below(2) == 0 ? 2000 : uint64_t{1} << 30;
    for (uint32_t partition = 0; partition < kPartitions; ++partition) {
      servers_.push_back(std::make_unique<TestServer>(storage_, log_bytes));
      EXPECT_EQ(servers_[partition]->Open(OpenRequest(partition), false), absl::StatusCode::kOk);
    }
  }

  void Run() {
    // A slow slot moves as rarely as this says.
    const uint64_t slow = 1 + Below(20);
    for (int event = 0; !AllDone(); ++event) {
      ASSERT_LT(event, 1000000) << "nobody gets on";
      if (Below(60) == 0) {
        Crash();
      } else if (Below(60) == 0) {
        Respawn(Below(slots_.size()));
      } else {
        const uint64_t slot = Below(slots_.size());
        if (slot > 0 || Below(slow) == 0) Advance(slot);
      }
      if (testing::Test::HasFailure()) return;
    }
    CheckValues();
  }

  uint64_t left_out() const { return left_out_; }
  uint64_t repeats() const { return repeats_; }

 private:
  enum class Phase { kEnter, kWait, kSend, kDone };

  struct Slot {
    uint64_t incarnation = 1;
    uint64_t clock = 0;
    Phase phase = Phase::kEnter;
    TestAnswer entry;
    // The clock at which the slot goes on once all is sent, and the requests to each partition.
    uint64_t next = 0;
    std::vector<std::deque<v1::ExchangeRequest>> queues =
        std::vector<std::deque<v1::ExchangeRequest>>(kPartitions);
  };

  uint64_t Below(uint64_t bound) { return random_() % bound; }

  static float Gradient(uint32_t slot, uint64_t clock) {
    return static_cast<float>((slot + 1) * (clock % 7 + 1));
  }

  v1::OpenTablesRequest OpenRequest(uint32_t partition) const {
    v1::OpenTablesRequest request = request_;
    request.clear_partitions();
    request.add_partitions()->set_partition(partition);
    return request;
  }

  bool AllDone() const {
    return std::all_of(slots_.begin(), slots_.end(),
                       [](const Slot& slot) { return slot.phase == Phase::kDone; });
  }

  v1::ExchangeRequest From(uint32_t slot, uint32_t partition, v1::ExchangeRequest request) const {
    request.set_incarnation(slots_[slot].incarnation);
    request.set_partition(partition);
    return request;
  }

  void GoOnAt(Slot& slot, uint64_t clock) {
    slot.clock = clock;
    slot.phase = clock == kClocks ? Phase::kDone : Phase::kEnter;
  }

  void Advance(uint32_t index) {
    Slot& slot = slots_[index];
    switch (slot.phase) {
      case Phase::kEnter:
        slot.entry = servers_[0]->Call(From(index, 0, TestEnter(index, slot.clock)));
        slot.phase = Phase::kWait;
        break;
      case Phase::kWait:
        if (slot.entry.arrived()) TakeEntry(index);
        break;
      case Phase::kSend:
        SendOne(index);
        break;
      case Phase::kDone:
        break;
    }
  }

  void TakeEntry(uint32_t index) {
    Slot& slot = slots_[index];
    if (slot.entry.code() != absl::StatusCode::kOk) {
      slot.phase = Phase::kEnter;
      return;
    }
    const v1::ExchangeReply& reply = slot.entry.reply();
    const std::vector<uint32_t> left_out(reply.left_out().begin(), reply.left_out().end());
    const bool in = std::count(left_out.begin(), left_out.end(), index) == 0;
    // The answer for an old clock names at most the caller.
    if (left_out.size() == backups_) Note(slot.clock, left_out);
    slot.next = in ? slot.clock + 1 : std::max(reply.fastest_clock(), slot.clock + 1);
    for (uint32_t partition = 0; partition < kPartitions; ++partition) {
      slot.queues[partition].clear();
      if (in) {
        slot.queues[partition].push_back(
            From(index, partition, TestDensePush(index, slot.clock, 0, 1)));
      } else if (decided_.contains(slot.clock)) {
        EXPECT_THAT(decided_[slot.clock], Contains(index));
      }
      for (uint64_t clock = slot.clock; clock < slot.next; ++clock) {
        v1::ExchangeRequest close = From(index, partition, TestClose(index, clock, 0));
        close.mutable_close()->set_examples(in ? 1 : 0);
        close.mutable_close()->clear_sparse_chunks();
        close.mutable_close()->set_no_dense(!in);
        if (in) {
          *close.mutable_close()->mutable_left_out() = reply.left_out();
        } else {
          close.mutable_close()->add_left_out(index);
        }
        slot.queues[partition].push_back(close);
      }
    }
    left_out_ += in ? 0 : 1;
    slot.phase = Phase::kSend;
  }

  // Every answer tells the same decision.
  void Note(uint64_t clock, const std::vector<uint32_t>& left_out) {
    const auto [place, is_new] = decided_.emplace(clock, left_out);
    EXPECT_THAT(left_out, ElementsAreArray(place->second)) << "clock " << clock;
  }

  void SendOne(uint32_t index) {
    Slot& slot = slots_[index];
    const uint32_t partition = Below(kPartitions);
    auto& queue = slot.queues[partition];
    if (!queue.empty()) {
      const v1::ExchangeRequest request = queue.front();
      Payload payload;
      if (request.has_dense_push()) {
        payload = Floats(std::vector<float>(4, Gradient(index, request.clock())));
      }
      TestAnswer answer = servers_[partition]->Call(request, payload);
      ASSERT_TRUE(answer.arrived());
      // A real slot has pulled, and so waited until it may push.
      if (answer.code() == absl::StatusCode::kFailedPrecondition) return;
      ASSERT_EQ(answer.code(), absl::StatusCode::kOk) << answer.reply().message();
      if (Below(4) == 0) {
        answer = servers_[partition]->Call(request, payload);
        EXPECT_TRUE(answer.reply().already_applied());
        ++repeats_;
      }
      queue.pop_front();
    }
    if (std::all_of(slot.queues.begin(), slot.queues.end(),
                    [](const auto& rest) { return rest.empty(); })) {
      GoOnAt(slot, slot.next);
    }
  }

  // A server dies, perhaps in the middle of a call; what it had not answered is asked again.
  void Crash() {
    const uint32_t partition = Below(kPartitions);
    TestServer& server = *servers_[partition];
    if (Below(2) == 0) {
      constexpr const char* kPoints[] = {"appended", "synced", "applied"};
      server.CrashAt(kPoints[Below(3)]);
      CallInVain(partition);
    }
    server.Kill(random_());
    ASSERT_EQ(server.Open(OpenRequest(partition)), absl::StatusCode::kOk);
    if (partition > 0) return;
    for (Slot& slot : slots_) {
      if (slot.phase == Phase::kWait && !slot.entry.arrived()) slot.phase = Phase::kEnter;
    }
  }

  // Makes the next call of some slot to the partition, whose answer is lost.
  void CallInVain(uint32_t partition) {
    const uint32_t index = Below(slots_.size());
    Slot& slot = slots_[index];
    if (slot.phase == Phase::kEnter && partition == 0) {
      servers_[0]->Call(From(index, 0, TestEnter(index, slot.clock)));
    } else if (slot.phase == Phase::kSend && !slot.queues[partition].empty()) {
      const v1::ExchangeRequest& request = slot.queues[partition].front();
      Payload payload;
      if (request.has_dense_push()) {
        payload = Floats(std::vector<float>(4, Gradient(index, request.clock())));
      }
      servers_[partition]->Call(request, payload);
    }
  }

  // Another task takes the slot over, and begins at the lowest clock that is not closed everywhere.
  void Respawn(uint32_t index) {
    Slot& slot = slots_[index];
    ++slot.incarnation;
    uint64_t closed = kClocks;
    for (uint32_t partition = 0; partition < kPartitions; ++partition) {
      v1::OpenTablesRequest request = OpenRequest(partition);
      request.set_slot(index);
      request.set_incarnation(slot.incarnation);
      request.set_expect_state(true);
      request.mutable_partitions(0)->set_term(1);
      const auto reply = servers_[partition]->engine().OpenTables(request);
      ASSERT_TRUE(reply.ok()) << reply.status();
      closed = std::min<uint64_t>(closed, reply->partitions(0).closed(index));
    }
    GoOnAt(slot, closed);
  }

  void CheckValues() {
    ASSERT_THAT(decided_, SizeIs(kClocks)) << "some slot has heard of each decision";
    float expected = 1;
    for (const auto& [clock, left_out] : decided_) {
      float sum = 0;
      for (uint32_t slot = 0; slot < slots_.size(); ++slot) {
        if (std::count(left_out.begin(), left_out.end(), slot) == 0) sum += Gradient(slot, clock);
      }
      expected -= sum / static_cast<float>(slots_.size() - backups_);
    }
    for (uint32_t partition = 0; partition < kPartitions; ++partition) {
      v1::ExchangeRequest pull = From(0, partition, TestDensePull(0, kClocks, 0, 1));
      EXPECT_THAT(servers_[partition]->Call(pull).floats(), AllOf(SizeIs(4), Each(expected)))
          << "partition " << partition;
    }
  }

  std::mt19937_64 random_;
  const uint32_t backups_;
  MemoryStorage storage_;
  std::vector<std::unique_ptr<TestServer>> servers_;
  v1::OpenTablesRequest request_;
  std::vector<Slot> slots_;
  // The slots that each clock leaves out, as answers told.
  std::map<uint64_t, std::vector<uint32_t>> decided_;
  uint64_t left_out_ = 0;
  uint64_t repeats_ = 0;
};

TEST(BackupWorkersHistoryTest, AllPartitionsTakeTheSameSlotsOnce) {
  uint64_t left_out = 0, repeats = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    // The mean is over 1, 2 or 4 slots, so that it is exact.
    const uint32_t takes = 1 << seed % 3;
    const uint32_t backups = 1 + seed % 2;
    BackupHistory history(seed, takes + backups, backups);
    history.Run();
    if (testing::Test::HasFailure()) return;
    left_out += history.left_out();
    repeats += history.repeats();
  }
  EXPECT_GT(left_out, 500u);
  EXPECT_GT(repeats, 1000u);
}

TEST(BackupWorkersMoveTest, AClockIsDecidedWhereThePartitionHasMovedTo) {
  MemoryStorage storage;
  TestServer from(storage), to(storage);
  v1::OpenTablesRequest request = TestDurableRequest();
  request.set_slots(3);
  request.mutable_update()->set_backup_workers(1);
  ASSERT_EQ(from.Open(request, false), absl::StatusCode::kOk);
  const TestAnswer parked = from.Call(TestEnter(2, 0));
  EXPECT_FALSE(parked.arrived());
  const PartitionMove move = TestMove(7);
  ASSERT_TRUE(from.mover().Permit({move}, {}).ok());
  ASSERT_TRUE(Move(from, to, move).ok());
  to.SetTerm(8);
  ASSERT_EQ(to.Open(request), absl::StatusCode::kOk);
  // The slot that had entered before needs not enter again for the clock to be decided.
  const TestAnswer second = to.Call(TestEnter(0, 0));
  ASSERT_TRUE(second.arrived());
  EXPECT_THAT(second.reply().left_out(), ElementsAreArray({1u}));
  const TestAnswer again = to.Call(TestEnter(2, 0));
  ASSERT_TRUE(again.arrived());
  EXPECT_THAT(again.reply().left_out(), ElementsAreArray({1u}));
}

}  // namespace
}  // namespace muster
