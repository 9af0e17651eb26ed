#ifndef MUSTER_TESTS_EQUIVALENCE_IN_PROCESS_SERVERS_H_
#define MUSTER_TESTS_EQUIVALENCE_IN_PROCESS_SERVERS_H_

#include <map>
#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/checkpoint/storage.h"
#include "common/files/temp_folder.h"
#include "common/rpc/retry.h"
#include "common/transport/data_channel/channel_io.h"
#include "common/transport/shared_memory/registered_memory.h"
#include "proto/status.pb.h"
#include "server/shard/shard_engine.h"
#include "worker/strategy/servers/shard_router.h"

namespace muster {

// How tasks reach the engines: by calls, or through shared memory as on one machine, with memory
// that each task has registered.
enum class Reach { kCalls, kRegisteredMemory };

// Engines of the parameter server in this process, and the way to them.
class InProcessServers {
 public:
  // The storage must outlive them.
  InProcessServers(int count, CheckpointStorage& storage, Reach reach);
  ~InProcessServers();

  // Deals a job's partitions to the engines in turn.
  v1::ShardMap Deal(const std::string& job_id, uint64_t generation, uint32_t partitions) const;

  // A task's memory where tasks register some; otherwise null.
  std::shared_ptr<RegisteredMemory> MakeTaskMemory() const;
  // Of a task with that memory.
  ShardRouterDependencies Routing(const v1::ShardMap& map,
                                  std::shared_ptr<RegisteredMemory> memory) const;

 private:
  // An engine's services on a port.
  struct Served;

  const int count_;
  const Reach reach_;
  const RealClock clock_;
  mutable RealWaiter waiter_;
  const TempFolder logs_;
  std::map<std::string, std::unique_ptr<ShardEngine>> engines_;
  std::map<std::string, std::unique_ptr<Served>> served_;
  std::shared_ptr<ChannelIo> io_;
};

}  // namespace muster

#endif  // MUSTER_TESTS_EQUIVALENCE_IN_PROCESS_SERVERS_H_
