// Random histories of a job whose slots change while its tables stay on the servers: tasks that
// stop anywhere, generations taken over, crashes and restarts of servers, against the mean over all
// examples of each clock.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/memory_storage.h"
#include "common/partition/sparse_placement.h"
#include "proto/parameter_service.pb.h"
#include "server/shard/calls/test_exchange.h"
#include "server/shard/tables/job_tables.h"
#include "server/shard/test_engine.h"
#include "server/shard/test_server.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::SizeIs;

constexpr uint32_t kPartitions = 3;
constexpr uint32_t kServers = 2;
constexpr uint64_t kClocks = 14;
constexpr uint32_t kMostSlots = 4;
// Of each clock. Slots share them out, so that what a clock comes to is the same for any slots. A
// power of two: all means are exact.
constexpr uint64_t kExamples = 16;
constexpr int kChunks = 2;
constexpr size_t kKeysOfChunk = 3;

// What has happened in histories, so that a test can tell whether it has tested anything.
struct Tally {
  int takeovers = 0;
  int forgotten = 0;
  int completed = 0;
  int crashes = 0;
  int crashes_of_takeovers = 0;
  int ghosts = 0;
  int rollbacks = 0;
};

class TakeoverHistory {
 public:
  TakeoverHistory(uint64_t seed, bool durable, Tally& tally)
      : random_(seed), durable_(durable), tally_(tally) {
    request_ = TestOpenRequest(1);
    request_.mutable_update()->set_durability(durable ? v1::UpdateSpec::EVERY_PUSH
                                                      : v1::UpdateSpec::CHECKPOINT);
    request_.mutable_update()->set_deterministic(Below(2) == 0);
    v1::TablesSchema& schema = *request_.mutable_schema();
    schema.set_partitions(kPartitions);
    schema.mutable_tensors(0)->set_shape(0, 4 * (kPartitions + 2));
    // In half of the histories there is room for two rows of 72 bytes in memory.
    if (Below(2) == 0) schema.mutable_sparse_options()->set_cache_bytes(kPartitions * 72 * 2);
    const auto tables = JobTables::Create(request_);
    EXPECT_TRUE(tables.ok()) << tables.status();
    for (uint32_t partition = 0; partition < kPartitions; ++partition) {
      blocks_.push_back((*tables)->layout().partition_blocks(partition).size());
      for (uint64_t key = 0; keys_[partition].size() < kChunks * kKeysOfChunk; ++key) {
        if (SparsePartition(key, kPartitions) == partition) keys_[partition].push_back(key);
      }
    }
    const uint64_t log_bytes = Below(2) == 0 ? 2000 : uint64_t{1} << 30;
    for (uint32_t server = 0; server < kServers; ++server) {
      servers_.push_back(std::make_unique<Server>(storage_, log_bytes));
    }
    StartAnew();
  }

  void Run() {
    for (int event = 0; !AllDone(); ++event) {
      ASSERT_LT(event, 100000) << "nobody gets on";
      const uint64_t kind = Below(200);
      if (kind < 2) {
        TakeOver();
      } else if (kind < 4) {
        ArmCrash(*servers_[Below(kServers)]);
      } else if (kind < 8 && !ghosts_.empty()) {
        SendGhost();
      } else {
        Advance(Below(slots_.size()));
      }
      if (testing::Test::HasFailure()) return;
    }
    for (uint32_t partition = 0; partition < kPartitions; ++partition) CheckValues(partition);
  }

 private:
  struct Server {
    Server(MemoryStorage& storage, uint64_t log_bytes) : server(storage, log_bytes) {}
    TestServer server;
    bool crashed = false;
  };

  struct Operation {
    uint32_t partition = 0;
    v1::ExchangeRequest request;
    Payload payload;
  };

  // A slot's task: pulls from all partitions, then pushes to all, then closes the clock on all, in
  // any order each.
  struct Slot {
    uint64_t clock = 0;
    std::vector<Operation> pulls, pushes, closes;
    // The answer to the last pull, which may wait for other slots.
    std::optional<TestAnswer> parked;
  };

  uint64_t Below(uint64_t bound) { return random_() % bound; }
  Server& Of(uint32_t partition) { return *servers_[partition % kServers]; }

  static float Gradient(uint64_t example, uint64_t clock, uint32_t partition) {
    return static_cast<float>((example * 3 + clock * 5 + partition) % 8);
  }
  static float Change(uint64_t clocks, uint32_t partition) {
    float change = 0;
    for (uint64_t clock = 0; clock < clocks; ++clock) {
      for (uint64_t example = 0; example < kExamples; ++example) {
        change += Gradient(example, clock, partition) / kExamples;
      }
    }
    return change;
  }

  bool AllDone() const {
    return std::all_of(slots_.begin(), slots_.end(),
                       [](const Slot& slot) { return slot.clock == kClocks; });
  }

  v1::OpenTablesRequest OpenRequest(uint32_t server, uint32_t slot) const {
    v1::OpenTablesRequest request = request_;
    request.set_generation(generation_);
    request.set_slots(slots_.size());
    request.set_takes_over_generation(oldest_ == generation_ ? 0 : oldest_);
    request.set_start_clock(start_);
    request.set_slot(slot);
    request.set_incarnation(1);
    request.clear_partitions();
    for (uint32_t partition = server; partition < kPartitions; partition += kServers) {
      v1::PartitionTerm& term = *request.add_partitions();
      term.set_partition(partition);
      term.set_term(1);
    }
    return request;
  }

  v1::ExchangeRequest From(uint32_t slot, uint32_t partition, v1::ExchangeRequest request) const {
    request.set_generation(generation_);
    request.set_partition(partition);
    return request;
  }

  // Makes the operations of a slot's clock.
  void Begin(uint32_t index) {
    Slot& slot = slots_[index];
    slot.pulls.clear();
    slot.pushes.clear();
    slot.closes.clear();
    slot.parked.reset();
    if (slot.clock == kClocks) return;
    const uint64_t first = kExamples * index / slots_.size();
    const uint64_t end = kExamples * (index + 1) / slots_.size();
    for (uint32_t partition = 0; partition < kPartitions; ++partition) {
      float sum = 0;
      for (uint64_t example = first; example < end; ++example) {
        sum += Gradient(example, slot.clock, partition);
      }
      const auto add = [&](std::vector<Operation>& to, const v1::ExchangeRequest& request,
                           Payload payload = {}) {
        to.push_back({partition, From(index, partition, request), std::move(payload)});
      };
      if (blocks_[partition] > 0) {
        add(slot.pulls, TestDensePull(index, slot.clock, 0, blocks_[partition]));
      }
      for (uint32_t block = 0; block < blocks_[partition]; ++block) {
        v1::ExchangeRequest push = TestDensePush(index, slot.clock, block, 1);
        push.mutable_dense_push()->set_examples(end - first);
        add(slot.pushes, push, Floats(std::vector<float>(4, sum)));
      }
      add(slot.pulls, TestSparsePull(index, slot.clock, keys_[partition].size()),
          KeysAndRows(keys_[partition], {}));
      for (int chunk = 0; chunk < kChunks; ++chunk) {
        v1::ExchangeRequest push = TestSparsePush(index, slot.clock, chunk, kKeysOfChunk);
        push.mutable_sparse_push()->set_examples(end - first);
        add(slot.pushes, push,
            KeysAndRows(
                absl::MakeConstSpan(keys_[partition]).subspan(chunk * kKeysOfChunk, kKeysOfChunk),
                std::vector<float>(2 * kKeysOfChunk, sum)));
      }
      v1::ExchangeRequest close = TestClose(index, slot.clock, kChunks);
      close.mutable_close()->set_examples(end - first);
      add(slot.closes, close);
    }
    for (std::vector<Operation>* operations : {&slot.pulls, &slot.pushes, &slot.closes}) {
      std::shuffle(operations->begin(), operations->end(), random_);
    }
  }

  void BeginAll(uint64_t clock) {
    for (uint32_t slot = 0; slot < slots_.size(); ++slot) {
      slots_[slot].clock = clock;
      Begin(slot);
    }
  }

  void Advance(uint32_t index) {
    Slot& slot = slots_[index];
    if (slot.clock == kClocks) return;
    if (!slot.pulls.empty()) return Pull(slot);
    // A slot closes a clock nowhere before all its pushes are in everywhere.
    std::vector<Operation>& next = slot.pushes.empty() ? slot.closes : slot.pushes;
    const Operation operation = next.back();
    const TestAnswer answer =
        Of(operation.partition).server.Call(operation.request, operation.payload);
    if (Below(20) == 0) ghosts_.push_back(operation);
    // Unless the server has died, which the task finds out and repeats.
    if (Recover(Of(operation.partition))) return;
    ASSERT_TRUE(answer.arrived());
    ASSERT_EQ(answer.code(), absl::StatusCode::kOk) << answer.reply().message();
    next.pop_back();
    if (!slot.pushes.empty() || !slot.closes.empty()) return;
    ++slot.clock;
    Begin(index);
  }

  void Pull(Slot& slot) {
    const Operation operation = slot.pulls.back();
    Server& server = Of(operation.partition);
    if (!slot.parked.has_value()) {
      slot.parked = server.server.Call(operation.request, operation.payload);
    }
    if (Recover(server) || !slot.parked->arrived()) return;
    ASSERT_EQ(slot.parked->code(), absl::StatusCode::kOk) << slot.parked->reply().message();
    const float begin = operation.request.has_dense_pull() ? 1 : 0.5f;
    ASSERT_THAT(slot.parked->floats(), Each(begin - Change(slot.clock, operation.partition)))
        << "partition " << operation.partition << " at clock " << slot.clock;
    slot.parked.reset();
    slot.pulls.pop_back();
  }

  void ArmCrash(Server& server) {
    static const std::vector<std::string> kPoints = {"appended", "synced", "applied", "image",
                                                     "evicted"};
    CrashAt(server, kPoints[Below(kPoints.size())], 1 + Below(20));
  }
  void CrashAt(Server& server, const std::string& point, uint64_t passes) {
    server.server.SetAtPoint([&server, point, passes](absl::string_view passing) mutable {
      if (passing != point || --passes > 0 || server.crashed) return;
      server.crashed = true;
      server.server.CrashAt(point);
    });
  }

  // Starts a server again that has crashed, and lets the tasks open its tables. Returns whether it
  // had crashed; its parked calls are gone then.
  bool Recover(Server& server) {
    if (!Restart(server)) return false;
    if (!durable_) {
      ++tally_.rollbacks;
      StartAnew();
      return true;
    }
    const uint32_t number = &server == servers_[0].get() ? 0 : 1;
    for (uint32_t slot = 0; slot < slots_.size(); ++slot) {
      slots_[slot].parked.reset();
      v1::OpenTablesRequest request = OpenRequest(number, slot);
      request.set_expect_state(true);
      const auto opened = server.server.engine().OpenTables(request);
      EXPECT_TRUE(opened.ok()) << opened.status();
    }
    return true;
  }
  bool Restart(Server& server) {
    if (!server.crashed) return false;
    ++tally_.crashes;
    server.crashed = false;
    server.server.Kill(random_());
    return true;
  }

  // Starts the job from initial values under a new generation.
  void StartAnew() {
    ++generation_;
    oldest_ = generation_;
    start_ = 0;
    slots_ = std::vector<Slot>(1 + Below(kMostSlots));
    for (uint32_t server = 0; server < kServers; ++server) {
      Restart(*servers_[server]);
      for (uint32_t slot = 0; slot < slots_.size(); ++slot) {
        const auto opened = servers_[server]->server.engine().OpenTables(OpenRequest(server, slot));
        EXPECT_TRUE(opened.ok()) << opened.status();
      }
    }
    BeginAll(0);
  }

  // Calls until it is answered without a crash in between. False: the job starts anew.
  template <typename Reply, typename Function>
  bool CallAgain(Server& server, Function call, Reply& reply) {
    for (;;) {
      reply = call();
      if (!server.crashed) return true;
      ++tally_.crashes_of_takeovers;
      Restart(server);
      if (durable_) continue;
      ++tally_.rollbacks;
      StartAnew();
      return false;
    }
  }

  // Ends the generation wherever its tasks are, and goes on with other slots.
  void TakeOver() {
    static const std::vector<std::string> kPoints = {"generation_ended", "clock_completed",
                                                     "taken_over", "image"};
    if (Below(2) == 0) {
      CrashAt(*servers_[Below(kServers)], kPoints[Below(kPoints.size())], 1 + Below(2));
    }
    // A generation may end before all servers have opened it.
    for (int attempt = 0;; ++attempt) {
      ASSERT_LT(attempt, 100);
      generation_ += 1 + Below(2);
      const std::optional<uint64_t> clock = EndAll();
      if (!clock.has_value()) return;
      start_ = *clock;
      slots_ = std::vector<Slot>(1 + Below(kMostSlots));
      bool whole = true;
      for (uint32_t server = 0; server < kServers && whole; ++server) {
        if (server > 0 && Below(8) == 0) {
          whole = false;
        } else if (!OpenOn(server)) {
          return;
        }
      }
      if (whole) break;
    }
    ++tally_.takeovers;
    BeginAll(start_);
  }

  // Returns the clock at which the next generation begins; nothing if the job started anew.
  std::optional<uint64_t> EndAll() {
    std::vector<uint64_t> completed;
    uint64_t furthest = 0;
    for (uint32_t number = 0; number < kServers; ++number) {
      v1::EndGenerationRequest request;
      request.set_job_id("job");
      request.set_next_generation(generation_);
      request.set_oldest_generation(oldest_);
      *request.mutable_partitions() = OpenRequest(number, 0).partitions();
      Server& server = *servers_[number];
      absl::StatusOr<v1::EndGenerationReply> ended = absl::UnknownError("not asked");
      const auto call = [&] { return server.server.engine().EndGeneration(request); };
      if (!CallAgain(server, call, ended)) return std::nullopt;
      EXPECT_TRUE(ended.ok()) << ended.status();
      if (!ended.ok()) return std::nullopt;
      for (const v1::PartitionClocks& clocks : ended->partitions()) {
        completed.push_back(*std::min_element(clocks.closed().begin(), clocks.closed().end()));
        furthest =
            std::max(furthest, *std::max_element(clocks.closed().begin(), clocks.closed().end()));
      }
    }
    const uint64_t clock = *std::max_element(completed.begin(), completed.end());
    for (const uint64_t all : completed) {
      EXPECT_GE(all + 1, clock);
      tally_.completed += all < clock;
    }
    tally_.forgotten += furthest > clock;
    return clock;
  }

  // Opens the new generation by all slots, any first. False: the job started anew.
  bool OpenOn(uint32_t number) {
    Server& server = *servers_[number];
    std::vector<uint32_t> order(slots_.size());
    for (uint32_t slot = 0; slot < slots_.size(); ++slot) order[slot] = slot;
    std::shuffle(order.begin(), order.end(), random_);
    for (const uint32_t slot : order) {
      absl::StatusOr<v1::OpenTablesReply> opened = absl::UnknownError("not asked");
      const auto call = [&] {
        return server.server.engine().OpenTables(OpenRequest(number, slot));
      };
      if (!CallAgain(server, call, opened)) return false;
      EXPECT_TRUE(opened.ok()) << opened.status();
      if (!opened.ok()) return false;
      for (const v1::PartitionClocks& clocks : opened->partitions()) {
        EXPECT_THAT(clocks.closed(), AllOf(SizeIs(slots_.size()), Each(start_)));
      }
    }
    return true;
  }

  // Sends an operation of before again. It changes nothing, which the values show.
  void SendGhost() {
    const Operation& ghost = ghosts_[Below(ghosts_.size())];
    Server& server = Of(ghost.partition);
    const TestAnswer answer = server.server.Call(ghost.request, ghost.payload);
    if (Recover(server)) return;
    ASSERT_TRUE(answer.arrived());
    if (ghost.request.generation() == generation_) {
      ASSERT_EQ(answer.code(), absl::StatusCode::kOk) << answer.reply().message();
    } else {
      ++tally_.ghosts;
      ASSERT_EQ(answer.code(), absl::StatusCode::kAborted) << answer.reply().message();
    }
  }

  void CheckValues(uint32_t partition) {
    Server& server = Of(partition);
    const TestAnswer rows =
        server.server.Call(From(0, partition, TestSparsePull(0, kClocks, keys_[partition].size())),
                           KeysAndRows(keys_[partition], {}));
    ASSERT_TRUE(rows.arrived());
    EXPECT_THAT(rows.floats(), AllOf(SizeIs(2 * keys_[partition].size()),
                                     Each(0.5f - Change(kClocks, partition))));
    if (blocks_[partition] == 0) return;
    const TestAnswer dense =
        server.server.Call(From(0, partition, TestDensePull(0, kClocks, 0, blocks_[partition])));
    ASSERT_TRUE(dense.arrived());
    EXPECT_THAT(dense.floats(), Each(1 - Change(kClocks, partition)));
  }

  std::mt19937_64 random_;
  const bool durable_;
  Tally& tally_;
  MemoryStorage storage_;
  v1::OpenTablesRequest request_;
  // Number of blocks, and keys, of each partition.
  std::vector<uint32_t> blocks_;
  std::map<uint32_t, std::vector<uint64_t>> keys_;
  std::vector<std::unique_ptr<Server>> servers_;
  uint64_t generation_ = 0;
  // The generation that started from initial values, and the clock at which the present one began.
  uint64_t oldest_ = 0;
  uint64_t start_ = 0;
  std::vector<Slot> slots_;
  std::vector<Operation> ghosts_;
};

void RunHistories(uint64_t begin, uint64_t end, bool durable) {
  Tally tally;
  for (uint64_t seed = begin; seed < end; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    TakeoverHistory(seed, durable, tally).Run();
    if (testing::Test::HasFailure()) return;
  }
  // The histories were eventful enough to mean something.
  EXPECT_GT(tally.takeovers, 50);
  EXPECT_GT(tally.forgotten, 20);
  EXPECT_GT(tally.completed, 10);
  EXPECT_GT(tally.crashes, 10);
  EXPECT_GT(tally.crashes_of_takeovers, 5);
  EXPECT_GT(tally.ghosts, 30);
  EXPECT_EQ(tally.rollbacks > 0, !durable);
}

TEST(TakeoverHistoryTest, EveryExampleCountsOnceWhoeverTrains) { RunHistories(0, 30, true); }
TEST(TakeoverHistoryTest, EveryExampleCountsOnceInMemoryToo) { RunHistories(0, 30, false); }

TEST(TakeoverHistoryTest, EveryExampleCountsOnceExhaustive) {
  RunHistories(30, 600, true);
  RunHistories(30, 600, false);
}

}  // namespace
}  // namespace muster
