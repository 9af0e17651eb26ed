#ifndef MUSTER_TESTS_EQUIVALENCE_IN_PROCESS_SERVERS_H_
#define MUSTER_TESTS_EQUIVALENCE_IN_PROCESS_SERVERS_H_

#include <map>
#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/checkpoint/storage.h"
#include "common/rpc/retry.h"
#include "proto/status.pb.h"
#include "server/shard/shard_engine.h"
#include "tests/harness/test_folder.h"
#include "worker/strategy/shard_router.h"

namespace muster {

// Engines of the parameter server in this process, and the way to them.
class InProcessServers {
 public:
  // The storage must outlive them.
  InProcessServers(int count, CheckpointStorage& storage);

  // Deals a job's partitions to the engines in turn.
  v1::ShardMap Deal(const std::string& job_id, uint64_t generation, uint32_t partitions) const;

  ShardRouterDependencies Routing(const v1::ShardMap& map) const;

 private:
  const int count_;
  const RealClock clock_;
  mutable RealWaiter waiter_;
  const TestFolder logs_;
  std::map<std::string, std::unique_ptr<ShardEngine>> engines_;
};

}  // namespace muster

#endif  // MUSTER_TESTS_EQUIVALENCE_IN_PROCESS_SERVERS_H_
