#ifndef MUSTER_SERVER_SHARD_PARTITION_PARTITION_FIXTURE_H_
#define MUSTER_SERVER_SHARD_PARTITION_PARTITION_FIXTURE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/checkpoint/memory_storage.h"
#include "gtest/gtest.h"
#include "server/shard/calls/test_exchange.h"
#include "server/shard/partition/partition.h"

namespace muster {

// One partition of a job, called as the engine calls it.
class PartitionTest : public testing::Test {
 protected:
  // Divides the table's tensor w in units of rows, as the kind says, and adds a tensor b of two
  // rows that all ranks have.
  static void Divide(v1::TensorPlacement::Kind kind, int64_t units, v1::TablesSchema& schema) {
    v1::TensorPlacement& placement = *schema.mutable_tensors(0)->mutable_placement();
    placement.set_kind(kind);
    v1::TensorPlacement::Section& section = *placement.add_sections();
    section.set_extent(8);
    section.set_units(units);
    v1::TensorSchema& common = *schema.add_tensors();
    common = schema.tensors(0);
    common.set_name("b");
    common.clear_placement();
    common.set_shape(0, 2);
  }

  void Open(const v1::OpenTablesRequest& request) {
    const auto job = JobTables::Create(request);
    ASSERT_TRUE(job.ok()) << job.status();
    Partition::Options options;
    options.pool = pool_;
    options.budget = &budget_;
    options.checkpoint_storage = &storage_;
    options.crash_point = &crash_point_;
    options.parked_bytes = 2000;
    partition_ = std::make_unique<Partition>(std::make_unique<PartitionTables>(*job, 0, pool_),
                                             request.start_clock(), nullptr, options);
  }

  TestAnswer Call(const v1::ExchangeRequest& request, Payload payload = {}) {
    TestAnswer answer;
    std::vector<ExchangeCall> calls;
    calls.push_back(MakeTestCall(request, std::move(payload), answer));
    partition_->Execute(std::move(calls));
    return answer;
  }

  // The call must be answered at once with success.
  TestAnswer Do(const v1::ExchangeRequest& request, Payload payload = {}) {
    TestAnswer answer = Call(request, std::move(payload));
    EXPECT_TRUE(answer.arrived()) << request.ShortDebugString();
    EXPECT_EQ(answer.code(), absl::StatusCode::kOk) << answer.reply().message();
    return answer;
  }

  void PushAllDense(uint32_t slot, uint64_t clock, float value) {
    Do(TestDensePush(slot, clock, 0, 2), Floats(std::vector<float>(8, value)));
  }

  // The call must be refused.
  std::string Refusal(absl::StatusCode code, const v1::ExchangeRequest& request,
                      Payload payload = {}) {
    const TestAnswer answer = Call(request, std::move(payload));
    if (!answer.arrived()) return "not answered";
    EXPECT_EQ(answer.code(), code) << answer.reply().message();
    EXPECT_EQ(answer.reply().request_id(), request.request_id());
    return answer.reply().message();
  }

  const std::shared_ptr<BufferPool> pool_ = BufferPool::Create(1 << 20);
  MemoryBudget budget_{1 << 20};
  MemoryStorage storage_;
  CrashPoint crash_point_{nullptr};
  std::unique_ptr<Partition> partition_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_PARTITION_PARTITION_FIXTURE_H_
