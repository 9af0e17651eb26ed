#include "server/shard/checkpoint/partition_checkpoint.h"

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/partition/sparse_placement.h"
#include "proto/checkpoint.pb.h"
#include "proto/parameter_service.pb.h"

namespace muster {
namespace {

// Keys of a checkpoint after which `go_on` is called again.
constexpr uint64_t kKeysPerLook = 4096;

// Returns the number of the only file that has the partition's rows. This is the file of the
// partition with the same number, if there were as many partitions and servers held the rows or
// ranks wrote partitions' files. Absent: any file may have some rows.
std::optional<uint32_t> FileOfRows(const CheckpointReader& checkpoint,
                                   const PartitionTables& tables) {
  const v1::CheckpointManifest& manifest = checkpoint.manifest();
  const uint32_t partitions = tables.job->partitions();
  if (manifest.schema().partitions() != partitions) return std::nullopt;
  if (manifest.files_size() - manifest.rank_files() < partitions) return std::nullopt;
  return tables.partition;
}

absl::Status RestoreTable(const CheckpointReader& checkpoint, PartitionTables& tables,
                          const std::string& name, bool with_state, MemoryShare& memory,
                          absl::FunctionRef<absl::Status()> go_on, SparseTable& table) {
  const uint32_t partitions = tables.job->partitions();
  RestoreRowsOptions options;
  options.with_state = with_state;
  options.partition = FileOfRows(checkpoint, tables);
  uint64_t keys = 0;
  return RestoreRows(
      checkpoint, name, options,
      [&](uint64_t key) -> absl::StatusOr<bool> {
        if (keys++ % kKeysPerLook == 0) MUSTER_RETURN_IF_ERROR(go_on());
        if (SparsePartition(key, partitions) != tables.partition) return false;
        if (tables.OverCache()) {
          MUSTER_RETURN_IF_ERROR(tables.TrimCache(std::numeric_limits<uint64_t>::max(), 0));
          memory.Set(tables.sparse_bytes());
        }
        if (memory.TryGrow(table.bytes_per_row())) return true;
        return absl::ResourceExhaustedError(
            absl::StrCat("the rows of table ", name, " do not fit the server's memory budget; add ",
                         "servers or raise it"));
      },
      table);
}

// Restores the counts of keys that had no row. A key that has a row by now (of another job's
// candidates) keeps it.
absl::Status RestoreCounts(const CheckpointReader& checkpoint, const PartitionTables& tables,
                           const std::string& name, TieredTable& table) {
  const uint32_t partitions = tables.job->partitions();
  return checkpoint.ReadSparse(
      CandidatesTable(name), FileOfRows(checkpoint, tables), [&](const StoredRows& rows) {
        for (size_t i = 0; i < rows.size(); ++i) {
          if (SparsePartition(rows.keys[i], partitions) != tables.partition) continue;
          table.LoadCount(
              {.key = rows.keys[i], .clocks = rows.steps[i], .last_use = rows.last_use[i]});
        }
        return absl::OkStatus();
      });
}

}  // namespace

absl::Status RestorePartition(const CheckpointReader& checkpoint, RestoreExtent extent,
                              MemoryShare& memory, absl::FunctionRef<absl::Status()> go_on,
                              PartitionTables& tables) {
  const JobTables& job = *tables.job;
  MUSTER_RETURN_IF_ERROR(CheckTokenizer(checkpoint, job.request().schema()));
  const bool with_state =
      RestoresState(checkpoint, extent, job.request().schema().optimizer().name());
  const std::vector<std::string> state_names =
      with_state ? job.dense_optimizer().state_names() : std::vector<std::string>();
  for (uint32_t i = 0; i < tables.dense.size(); ++i) {
    MUSTER_RETURN_IF_ERROR(go_on());
    DenseTable::Block& block = tables.dense.block(i);
    MUSTER_ASSIGN_OR_RETURN(const uint64_t steps,
                            RestoreBlock(checkpoint, extent, job.tables().tensors, *block.layout,
                                         {state_names, job.dense_optimizer().packs_pairs()},
                                         block.weights.Write(), block.state_values()));
    if (with_state) {
      block.steps = steps;
    } else if (block.state.size() > 0) {
      job.dense_optimizer().InitState(block.weights.Write(), block.state_values());
    }
  }
  for (size_t i = 0; i < tables.sparse.size(); ++i) {
    MUSTER_RETURN_IF_ERROR(RestoreTable(checkpoint, tables, job.tables().sparse[i].name, with_state,
                                        memory, go_on, tables.sparse[i].memory()));
    // With another job's weights, the counts would be those of other pushes.
    if (extent != RestoreExtent::kAll || !tables.sparse[i].policy().counts()) continue;
    MUSTER_RETURN_IF_ERROR(
        RestoreCounts(checkpoint, tables, job.tables().sparse[i].name, tables.sparse[i]));
  }
  return absl::OkStatus();
}

}  // namespace muster
