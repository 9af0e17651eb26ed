// Random histories of moves and crashes, against a server that nothing disturbs.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/memory_storage.h"
#include "proto/parameter_service.pb.h"
#include "server/shard/partition_mover.h"
#include "server/shard/test_engine.h"
#include "server/shard/test_exchange.h"
#include "server/shard/test_server.h"

namespace muster {
namespace {

// The coordinator's note of the move that is under way.
struct Note {
  PartitionMove move;
  size_t from = 0;
  size_t to = 0;
  enum { kCopying, kMoved, kGivenUp } state = kCopying;
};

// Three servers; a job whose one partition moves between them again and again while both of its
// slots train, and every server may crash at any point. A plain, never disturbed server does the
// same work once; in the end both hold the same bits.
class MovingHistory {
 public:
  explicit MovingHistory(uint64_t seed) : random_(seed) {
    // Some forget their logs often.
    const uint64_t log_bytes = Below(2) == 0 ? 2000 : uint64_t{1} << 30;
    for (int i = 0; i < 3; ++i)
      servers_.push_back(std::make_unique<TestServer>(storage_, log_bytes));
    request_ = TestDurableRequest();
    request_.set_slots(2);
    request_.mutable_update()->set_deterministic(true);
    EXPECT_EQ(servers_[0]->Open(request_, false), absl::StatusCode::kOk);
    EXPECT_EQ(reference_.Open(request_, false), absl::StatusCode::kOk);
  }

  void Run(uint64_t clocks) {
    for (uint64_t clock = 0; clock < clocks; ++clock) {
      for (uint32_t slot = 0; slot < 2; ++slot) {
        Work(TestDensePush(slot, clock, 0, 2), RandomFloats(8));
        const uint64_t key = Below(6);
        std::vector<float> row = {Number(), Number()};
        Work(TestSparsePush(slot, clock, 0, 1), KeysAndRows({key}, row));
        Work(TestClose(slot, clock, 1), {});
        if (HasFailure()) return;
      }
      if (Below(5) == 0) {
        for (uint32_t slot = 0; slot < 2; ++slot) Work(TestCut(slot, clock + 1), {});
      }
    }
    // Ends what is under way.
    while (move_.has_value() && !HasFailure()) Advance();
    Owner();
    const v1::ExchangeRequest dense = TestDensePull(0, clocks, 0, 2);
    EXPECT_EQ(Execute(dense, {}).floats(), reference_.Call(dense).floats());
    const v1::ExchangeRequest rows = TestSparsePull(0, clocks, 6);
    EXPECT_EQ(Execute(rows, KeysAndRows({0, 1, 2, 3, 4, 5}, {})).floats(),
              reference_.Call(rows, KeysAndRows({0, 1, 2, 3, 4, 5}, {})).floats());
  }

  int moved() const { return moved_; }
  int given_up() const { return given_up_; }
  int crashes() const { return crashes_; }

 private:
  static bool HasFailure() { return testing::Test::HasFailure(); }
  uint64_t Below(uint64_t bound) { return random_() % bound; }
  float Number() { return static_cast<float>(Below(2000)) / 64 - 15; }
  Payload RandomFloats(size_t count) {
    std::vector<float> values(count);
    for (float& value : values) value = Number();
    return Floats(values);
  }

  // Does an operation until it is done, as a task would, while the rest goes on.
  void Work(const v1::ExchangeRequest& request, const Payload& payload) {
    const TestAnswer expected = reference_.Call(request, payload);
    for (int attempt = 0; attempt < 1000 && !HasFailure(); ++attempt) {
      if (Below(3) == 0) Advance();
      const TestAnswer answer = Execute(request, payload);
      if (answer.arrived() && answer.code() == absl::StatusCode::kOk) {
        // A stray call to those who do not own it must change nothing.
        const size_t other = Below(3);
        if (other != owner_) {
          const TestAnswer stray = servers_[other]->Call(request, payload);
          ASSERT_TRUE(!stray.arrived() || stray.code() != absl::StatusCode::kOk ||
                      (move_.has_value() && other == move_->to));
        }
        return;
      }
      Owner();
    }
    FAIL() << "no success with " << request.ShortDebugString();
  }

  TestAnswer Execute(const v1::ExchangeRequest& request, const Payload& payload) {
    return servers_[owner_]->Call(request, payload);
  }

  // What tasks do when they are refused: open the tables where the shard map says.
  void Owner() { servers_[owner_]->Open(request_, true); }

  void Crash(size_t server) {
    ++crashes_;
    servers_[server]->Kill(random_());
    Order(server);
  }

  void Order(size_t server) {
    std::vector<PartitionMove> leaving, released;
    if (move_.has_value() && move_->state == Note::kCopying && move_->from == server) {
      leaving.push_back(move_->move);
    }
    if (move_.has_value() && move_->state == Note::kMoved && move_->from == server) {
      released.push_back(move_->move);
    }
    if (move_.has_value() && move_->state == Note::kGivenUp && move_->to == server) {
      released.push_back(move_->move);
    }
    ASSERT_TRUE(servers_[server]->mover().Permit(leaving, released).ok());
  }

  // One thing that the coordinator or a server does, with a crash now and then.
  void Advance() {
    if (!move_.has_value()) {
      move_.emplace();
      move_->from = owner_;
      move_->to = (owner_ + 1 + Below(2)) % 3;
      move_->move = TestMove(++term_);
      Order(owner_);
      return;
    }
    static const char* const kPoints[] = {"move_standing", "move_marked",  "move_deleted",
                                          "move_copied",   "move_adopted", "appended",
                                          "synced",        "base",         ""};
    TestServer& from = *servers_[move_->from];
    TestServer& to = *servers_[move_->to];
    if (Below(3) == 0) from.CrashAt(kPoints[Below(9)]);
    if (Below(3) == 0) to.CrashAt(kPoints[Below(9)]);
    switch (move_->state) {
      case Note::kCopying:
        if (Below(6) == 0) {
          move_->state = Note::kGivenUp;
          ++given_up_;
        } else if (Move(from, to, move_->move).ok() && Below(4) > 0) {
          move_->state = Note::kMoved;
          owner_ = move_->to;
          ++moved_;
        }
        break;
      case Note::kMoved:
        if (from.mover().Release(move_->move).ok()) move_.reset();
        break;
      case Note::kGivenUp:
        if (to.mover().Release(move_->move).ok()) move_.reset();
        break;
    }
    // A crash point may have passed: such a server is dead, whoever noticed.
    for (size_t server = 0; server < 3; ++server) {
      if (servers_[server].get() == &from || servers_[server].get() == &to || Below(20) == 0) {
        if (Below(2) == 0) {
          Crash(server);
        } else {
          Revive(server);
        }
      }
    }
  }

  // Kills the server if it has crashed at a point, as then it answers nobody.
  void Revive(size_t server) {
    servers_[server]->CrashAt("");
    Order(server);
    const TestAnswer answer = servers_[server]->Call(TestDensePull(0, 0, 0, 1));
    if (!answer.arrived()) Crash(server);
  }

  std::mt19937_64 random_;
  MemoryStorage storage_;
  MemoryStorage reference_storage_;
  TestServer reference_{reference_storage_};
  std::vector<std::unique_ptr<TestServer>> servers_;
  v1::OpenTablesRequest request_;
  size_t owner_ = 0;
  uint64_t term_ = 1;
  std::optional<Note> move_;
  int moved_ = 0;
  int given_up_ = 0;
  int crashes_ = 0;
};

TEST(PartitionMoveHistoryTest, RandomMovesAndCrashesLeaveTheSameBits) {
  int moved = 0, given_up = 0, crashes = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    MovingHistory history(seed);
    history.Run(25);
    if (testing::Test::HasFailure()) return;
    moved += history.moved();
    given_up += history.given_up();
    crashes += history.crashes();
  }
  EXPECT_GT(moved, 100);
  EXPECT_GT(given_up, 50);
  EXPECT_GT(crashes, 200);
}

}  // namespace
}  // namespace muster
