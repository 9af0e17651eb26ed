#ifndef MUSTER_CLIENT_CHAOS_INTEGER_PUSHER_H_
#define MUSTER_CLIENT_CHAOS_INTEGER_PUSHER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/chaos/standalone_server.h"
#include "common/base/payload.h"
#include "common/partition/dense_layout.h"
#include "common/rpc/parameter_service/parameter_client.h"

namespace muster {

// Settings and tables that all pushers of a round share.
struct IntegerTables {
  int slots = 4;
  uint32_t partitions = 2;
  uint64_t dense_elements = 6000;
  uint64_t rows = 512;
  uint64_t cut_every = 100;
  // Folder for cuts.
  std::string checkpoint_root;
  // Longest time that the server may be out of reach.
  absl::Duration patience = absl::Seconds(60);

  // Returns the layout of the one dense tensor.
  absl::StatusOr<DenseLayout> Layout() const;
};

// One slot's pusher (see IntegerPushers). Used by one thread at a time.
class IntegerPusher {
 public:
  // All arguments outlive this object.
  IntegerPusher(StandaloneServer& server, const IntegerTables& tables, const DenseLayout& layout,
                uint32_t slot);

  // Pushes the clocks before `clocks`, each until all its operations are acknowledged. DataLoss:
  // the server has forgotten a clock that it had acknowledged. Other errors are those of refused
  // operations.
  absl::Status Push(uint64_t clocks);

  // All current values of a partition, which may be none.
  struct Values {
    std::vector<float> dense;
    // [keys of the partition, kIntegerRowDim].
    std::vector<float> rows;
  };
  absl::StatusOr<Values> Pull(uint32_t partition);

  // Adds up what this slot has pushed in clocks 0 … clocks - 1, per flat dense element, then per
  // row float.
  void AddSums(uint64_t clocks, std::vector<int64_t>& sums) const;

  // Goes back to an earlier clock, over a new connection.
  void Rewind(uint64_t clock);

 private:
  struct Operation;

  // Connects and opens the tables; repeats this while the server is out of reach.
  absl::Status Connect();
  absl::Status TryConnect();
  // Sends the operations and blocks until all are answered.
  absl::Status Carry(std::vector<Operation>& operations);
  std::vector<Operation> OperationsOf(uint64_t clock) const;

  StandaloneServer& server_;
  const IntegerTables& tables_;
  const DenseLayout& layout_;
  const uint32_t slot_;
  std::unique_ptr<ParameterClient> client_;
  // Clock to push next.
  uint64_t clock_ = 0;
  // True once the tables were open: the server must have them from then on.
  bool opened_ = false;
};

}  // namespace muster

#endif  // MUSTER_CLIENT_CHAOS_INTEGER_PUSHER_H_
