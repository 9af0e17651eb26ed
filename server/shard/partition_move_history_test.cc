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
#include "server/shard/calls/test_exchange.h"
#include "server/shard/moves/partition_mover.h"
#include "server/shard/test_engine.h"
#include "server/shard/test_server.h"

namespace muster {
namespace {

// The coordinator's note of the move that is under way.
struct Note {
  PartitionMove move;
  size_t from = 0;
  size_t to = 0;
  enum { kCopying, kMoved, kGivenUp } state = kCopying;
  // The new owner has said that the copy is.
  bool whole = false;
};

// The one partition of a shard map: where it is, and under which term.
struct Place {
  size_t server = 0;
  uint64_t term = 1;

  bool operator==(const Place& other) const { return server == other.server && term == other.term; }
};

// Three servers; a job whose one partition moves between them again and again while both of its
// slots train, and every server may crash at any point. A slot knows the shard map of its last
// refusal, however often the partition has moved since, there and back included; the coordinator
// notes a move long after the copy is whole, or gives it up. A plain, never disturbed server does
// the same work once; in the end both hold the same bits.
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
        v1::ExchangeRequest close = TestClose(slot, clock, 1);
        v1::ClosingLossScale& word = *close.mutable_close()->mutable_loss_scale();
        word.set_overflowed(Below(6) == 0);
        word.mutable_if_finite()->set_scale(static_cast<float>(clock + 2));
        word.mutable_if_overflowed()->set_scale(0.5f);
        Work(close, {});
        if (HasFailure()) return;
      }
      if (Below(5) == 0) {
        for (uint32_t slot = 0; slot < 2; ++slot) Work(TestCut(slot, clock + 1), {});
      }
    }
    // Ends what is under way.
    while (move_.has_value() && !HasFailure()) Advance();
    Open(map_);
    const v1::ExchangeRequest dense = TestDensePull(0, clocks, 0, 2);
    const TestAnswer expected = reference_.Call(dense);
    const TestAnswer answer = Execute(map_, dense, {});
    EXPECT_EQ(answer.floats(), expected.floats());
    EXPECT_TRUE(answer.reply().has_loss_scale());
    EXPECT_EQ(answer.reply().loss_scale().ShortDebugString(),
              expected.reply().loss_scale().ShortDebugString());
    const v1::ExchangeRequest rows = TestSparsePull(0, clocks, 6);
    EXPECT_EQ(Execute(map_, rows, KeysAndRows({0, 1, 2, 3, 4, 5}, {})).floats(),
              reference_.Call(rows, KeysAndRows({0, 1, 2, 3, 4, 5}, {})).floats());
  }

  int moved() const { return moved_; }
  int given_up() const { return given_up_; }
  int given_up_whole() const { return given_up_whole_; }
  int crashes() const { return crashes_; }
  int old_maps_refused() const { return old_maps_refused_; }

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
    // The task is stopped for a while.
    if (Below(8) == 0) {
      for (uint64_t i = Below(40); i > 0 && !HasFailure(); --i) Advance();
    }
    Place& known = known_[request.slot()];
    for (int attempt = 0; attempt < 1000 && !HasFailure(); ++attempt) {
      if (Below(3) == 0) Advance();
      const TestAnswer answer = Execute(known, request, payload);
      if (answer.arrived() && answer.code() == absl::StatusCode::kOk) {
        CheckStray(request, payload);
        return;
      }
      if (Below(2) == 0) known = map_;
      Open(known);
    }
    FAIL() << "no success with " << request.ShortDebugString();
  }

  // A call by a map of before changes nothing, wherever it goes.
  void CheckStray(const v1::ExchangeRequest& request, const Payload& payload) {
    const Place old = past_[Below(past_.size())];
    if (old == map_) return;
    if (Below(2) == 0) Open(old);
    const TestAnswer stray = Execute(old, request, payload);
    ASSERT_TRUE(!stray.arrived() || stray.code() != absl::StatusCode::kOk)
        << "server " << old.server << " served term " << old.term << "; the map says server "
        << map_.server << " under term " << map_.term;
    old_maps_refused_ += stray.arrived();
  }

  TestAnswer Execute(const Place& place, v1::ExchangeRequest request, const Payload& payload) {
    request.set_term(place.term);
    return servers_[place.server]->Call(std::move(request), payload);
  }

  // What tasks do when they are refused: open the tables where their shard map says.
  void Open(const Place& place) {
    v1::OpenTablesRequest request = request_;
    request.mutable_partitions(0)->set_term(place.term);
    servers_[place.server]->Open(std::move(request), true);
  }

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
      move_->from = map_.server;
      move_->to = (map_.server + 1 + Below(2)) % 3;
      move_->move = TestMove(++term_);
      Order(move_->from);
      return;
    }
    static const char* const kPoints[] = {"move_standing", "move_marked",  "move_deleted",
                                          "move_copied",   "move_adopted", "appended",
                                          "synced",        "image",        ""};
    TestServer& from = *servers_[move_->from];
    TestServer& to = *servers_[move_->to];
    if (Below(3) == 0) from.CrashAt(kPoints[Below(9)]);
    if (Below(3) == 0) to.CrashAt(kPoints[Below(9)]);
    switch (move_->state) {
      case Note::kCopying:
        if (Below(6) == 0) {
          move_->state = Note::kGivenUp;
          ++given_up_;
          given_up_whole_ += move_->whole;
        } else if (Move(from, to, move_->move).ok()) {
          move_->whole = true;
          // What the new owner reports may be lost, or its note may, with the coordinator.
          if (Below(2) == 0) break;
          move_->state = Note::kMoved;
          map_ = {move_->to, ++term_};
          past_.push_back(map_);
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
  // The coordinator's, all that it ever had, and what each slot knows.
  Place map_;
  std::vector<Place> past_ = {map_};
  Place known_[2];
  // The last one drawn, for a map or for a move.
  uint64_t term_ = 1;
  std::optional<Note> move_;
  int moved_ = 0;
  int given_up_ = 0;
  int given_up_whole_ = 0;
  int crashes_ = 0;
  int old_maps_refused_ = 0;
};

TEST(PartitionMoveHistoryTest, RandomMovesAndCrashesLeaveTheSameBits) {
  int moved = 0, given_up = 0, given_up_whole = 0, crashes = 0, old_maps_refused = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    MovingHistory history(seed);
    history.Run(25);
    if (testing::Test::HasFailure()) return;
    moved += history.moved();
    given_up += history.given_up();
    given_up_whole += history.given_up_whole();
    crashes += history.crashes();
    old_maps_refused += history.old_maps_refused();
  }
  EXPECT_GT(moved, 100);
  EXPECT_GT(given_up, 50);
  EXPECT_GT(given_up_whole, 20);
  EXPECT_GT(crashes, 200);
  EXPECT_GT(old_maps_refused, 500);
}

}  // namespace
}  // namespace muster
