#ifndef MUSTER_SERVER_SHARD_PARTITION_IMAGE_WRITER_H_
#define MUSTER_SERVER_SHARD_PARTITION_IMAGE_WRITER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "server/shard/partition/journal/partition_health.h"
#include "server/shard/partition/journal/partition_journal.h"
#include "server/shard/partition/stored_state.h"
#include "server/shard/tables/partition_tables.h"
#include "server/shard/tables/table_updater.h"

namespace muster {

// Decides when a partition's image is written anew, so that the log before it can be forgotten and
// a replay stays short. Pushes wait while an image is written. Blocks on the disk. Not thread-safe.
class ImageWriter {
 public:
  struct Parts {
    PartitionTables& tables;
    // Null: nothing is logged, and no image written.
    PartitionJournal* journal = nullptr;
    const StoredState& state;
    const TableUpdater& updater;
    PartitionHealth& health;
    // See Partition::Options.
    uint64_t log_bytes = 0;
  };

  // All parts must outlive it.
  explicit ImageWriter(Parts parts) : parts_(parts) {}

  // Writes an image that includes all that was appended. REQUIRES: a journal; all that was let in
  // is applied, and no gradient waits for its clock.
  absl::Status Write(PartitionJournal::Extent extent);

  // Returns whether the log is long enough for a new image, and gradients do not forbid it. To be
  // asked once a batch.
  bool Due();
  // Writes what has changed, once all that was let in is applied. A full disk is tried again some
  // batches later; any other error closes the partition.
  void WriteDue();

 private:
  const Parts parts_;
  // Batches until an image is tried again, and how many will be let go by after the next failure.
  int waits_ = 0;
  int next_wait_ = 1;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_PARTITION_IMAGE_WRITER_H_
