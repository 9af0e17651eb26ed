#ifndef MUSTER_SERVER_SHARD_TEST_SERVER_H_
#define MUSTER_SERVER_SHARD_TEST_SERVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "common/checkpoint/memory_storage.h"
#include "gtest/gtest.h"
#include "proto/parameter_service.pb.h"
#include "server/shard/calls/test_exchange.h"
#include "server/shard/flaky_store.h"
#include "server/shard/moves/partition_mover.h"
#include "server/shard/resources/task_queue.h"
#include "server/shard/shard_engine.h"
#include "server/shard/storage/fake_log_file.h"
#include "server/shard/test_engine.h"

namespace muster {

// A server for tests that can be killed, with a disk that outlives it.
class TestServer {
 public:
  explicit TestServer(MemoryStorage& storage, uint64_t log_bytes = uint64_t{1} << 30)
      : storage_(storage), log_bytes_(log_bytes) {
    Start();
  }

  void Start() {
    crash_at_.clear();
    at_point_ = nullptr;
    ShardEngine::Options options;
    options.store = store_;
    options.log_dir = "/logs";
    options.log_file_system = &files_;
    options.log_segment_bytes = 1 << 12;
    options.log_bytes = log_bytes_;
    options.checkpoint_storage = &storage_;
    options.executor = &executor_;
    options.crash_point = [this](absl::string_view point) {
      if (at_point_) at_point_(point);
      return point == crash_at_;
    };
    auto engine = ShardEngine::Create(std::move(options));
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }

  // Kills the process, and starts it again; what was not synced may be gone.
  void Kill(uint64_t seed) {
    executor_.RunAll();
    engine_.reset();
    files_.Crash(seed);
    Start();
  }
  void CrashAt(std::string point) { crash_at_ = std::move(point); }
  // Sets a function that is called at every crash point.
  void SetAtPoint(std::function<void(absl::string_view)> act) { at_point_ = std::move(act); }
  FlakyStore& store() { return *store_; }

  // Sets the term of calls that name none.
  void SetTerm(uint64_t term) { term_ = term; }

  absl::StatusCode Open(v1::OpenTablesRequest request, bool expect_state = true) {
    request.set_expect_state(expect_state);
    for (v1::PartitionTerm& partition : *request.mutable_partitions()) {
      if (partition.term() == 0) partition.set_term(term_);
    }
    return engine_->OpenTables(request).status().code();
  }

  TestAnswer Call(v1::ExchangeRequest request, Payload payload = {}) {
    if (request.term() == 0) request.set_term(term_);
    TestAnswer answer;
    engine_->Execute(MakeTestCall(std::move(request), std::move(payload), answer));
    executor_.RunAll();
    return answer;
  }

  PartitionMover& mover() { return engine_->mover(); }
  ShardEngine& engine() { return *engine_; }
  TaskQueue& executor() { return executor_; }

 private:
  MemoryStorage& storage_;
  const uint64_t log_bytes_;
  uint64_t term_ = 1;
  const std::shared_ptr<FlakyStore> store_ = std::make_shared<FlakyStore>();
  FakeLogFileSystem files_;
  TaskQueue executor_;
  std::string crash_at_;
  std::function<void(absl::string_view)> at_point_;
  std::unique_ptr<ShardEngine> engine_;
};

inline PartitionMove TestMove(uint64_t term) {
  return {.job_id = "job", .generation = 1, .partition = 0, .term = term};
}

// Moves a partition as the two servers do it between them.
inline absl::Status Move(TestServer& from, TestServer& to, const PartitionMove& move) {
  return to.mover().Adopt(
      move, [&](PartitionMover::ChunkSink sink) { return from.mover().HandOver(move, sink); });
}

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_TEST_SERVER_H_
