#ifndef MUSTER_SERVER_SHARD_TEST_ENGINE_H_
#define MUSTER_SERVER_SHARD_TEST_ENGINE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "common/checkpoint/memory_storage.h"
#include "server/shard/calls/test_exchange.h"
#include "server/shard/resources/task_queue.h"
#include "server/shard/shard_engine.h"
#include "server/shard/storage/fake_log_file.h"
#include "server/shard/storage/memory_store_for_testing.h"

namespace muster {

// A fixture whose engine runs in the calling thread, over a store, a disk and checkpoints in
// memory, which outlive the engine when it is started again.
class TestEngine : public testing::Test {
 protected:
  TestEngine() { Start(); }

  ShardEngine::Options Options() {
    ShardEngine::Options options;
    options.store = store_;
    options.log_dir = "/logs";
    options.log_file_system = &files_;
    options.log_segment_bytes = 1 << 16;
    options.checkpoint_storage = &storage_;
    options.executor = &executor_;
    return options;
  }

  void Start() { Start(Options()); }
  void Start(ShardEngine::Options options) {
    executor_.RunAll();
    engine_.reset();
    auto engine = ShardEngine::Create(std::move(options));
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }

  TestAnswer Call(const v1::ExchangeRequest& request, Payload payload = {}) {
    TestAnswer answer;
    engine_->Execute(MakeTestCall(request, std::move(payload), answer));
    executor_.RunAll();
    return answer;
  }

  TestAnswer Do(const v1::ExchangeRequest& request, Payload payload = {}) {
    TestAnswer answer = Call(request, std::move(payload));
    EXPECT_TRUE(answer.arrived());
    EXPECT_EQ(answer.code(), absl::StatusCode::kOk) << answer.reply().message();
    return answer;
  }

  absl::StatusCode Code(const v1::ExchangeRequest& request) {
    const TestAnswer answer = Call(request);
    return answer.arrived() ? answer.code() : absl::StatusCode::kUnknown;
  }

  v1::OpenTablesReply Open(const v1::OpenTablesRequest& request) {
    absl::StatusOr<v1::OpenTablesReply> reply = engine_->OpenTables(request);
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok() ? *reply : v1::OpenTablesReply();
  }

  // Makes one clock of a job with one slot: pushes `value` to all elements and to the row of key 5.
  void Step(uint64_t clock, float value) {
    Do(TestDensePush(0, clock, 0, 2), Floats(std::vector<float>(8, value)));
    Do(TestSparsePush(0, clock, 0, 1), KeysAndRows({5}, {value, value}));
    Do(TestClose(0, clock, 1));
  }

  void ExpectValues(uint64_t clock, float dense, float row) {
    EXPECT_THAT(Do(TestDensePull(0, clock, 0, 2)).floats(), testing::Each(dense));
    EXPECT_THAT(Do(TestSparsePull(0, clock, 1), KeysAndRows({5}, {})).floats(), testing::Each(row));
  }

  const std::shared_ptr<MemoryStore> store_ = std::make_shared<MemoryStore>();
  FakeLogFileSystem files_;
  MemoryStorage storage_;
  TaskQueue executor_;
  std::unique_ptr<ShardEngine> engine_;
};

// Returns the request of TestOpenRequest with one slot and durability EVERY_PUSH.
inline v1::OpenTablesRequest TestDurableRequest() {
  v1::OpenTablesRequest request = TestOpenRequest(1);
  request.mutable_update()->set_durability(v1::UpdateSpec::EVERY_PUSH);
  return request;
}

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_TEST_ENGINE_H_
