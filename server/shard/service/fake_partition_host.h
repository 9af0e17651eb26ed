#ifndef MUSTER_SERVER_SHARD_SERVICE_FAKE_PARTITION_HOST_H_
#define MUSTER_SERVER_SHARD_SERVICE_FAKE_PARTITION_HOST_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "server/shard/calls/partition_host.h"

namespace muster {

// A host for tests of the wire. Its one parameter is a vector of f32: pushes add to it and pulls
// return it, on the calling thread. Pulls of clock > 0 wait for AnswerParked. Thread-safe.
class FakePartitionHost final : public PartitionHost {
 public:
  explicit FakePartitionHost(size_t size) : sum_(size) {}

  absl::StatusOr<v1::OpenTablesReply> OpenTables(const v1::OpenTablesRequest& request) override;
  absl::StatusOr<v1::EndGenerationReply> EndGeneration(
      const v1::EndGenerationRequest& request) override;
  absl::Status DropTables(const v1::DropTablesRequest& request) override;
  void Execute(ExchangeCall call) override;
  v1::GetServerStatsReply Stats() const override;

  // Hold makes OpenTables block and operations wait unanswered, until Release.
  void Hold();
  void Release();

  size_t parked() const;
  size_t executed() const;
  // Returns partition and slot of all pushes, in the order in which they came.
  std::vector<std::pair<uint32_t, uint32_t>> order() const;
  // Returns whether the parked call at `index` has lost its caller.
  bool parked_cancelled(size_t index) const;
  void AnswerParked();
  // Drops parked calls that have lost their callers, without an answer.
  void DropCancelled();

 private:
  void Answer(ExchangeCall call);

  mutable absl::Mutex mutex_;
  std::vector<float> sum_ ABSL_GUARDED_BY(mutex_);
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<ExchangeCall> waiting_ ABSL_GUARDED_BY(mutex_);
  std::vector<ExchangeCall> parked_ ABSL_GUARDED_BY(mutex_);
  size_t executed_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::pair<uint32_t, uint32_t>> order_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_SERVICE_FAKE_PARTITION_HOST_H_
