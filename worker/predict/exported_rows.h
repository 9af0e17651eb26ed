#ifndef MUSTER_WORKER_PREDICT_EXPORTED_ROWS_H_
#define MUSTER_WORKER_PREDICT_EXPORTED_ROWS_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "common/partition/tensor_spec.h"
#include "common/safetensors/safetensors_file.h"
#include "worker/nn/sparse_rows.h"

namespace muster {

// The rows of a sparse table in a file of `muster export`: its tensors T.keys and T.rows. Keeps 16
// bytes per row or so; the rows stay in the file. Immutable, so thread-safe.
class ExportedRows {
 public:
  // The table and the file outlive this object. `seed` is that of the job. InvalidArgument: the
  // file has no such table, or one of other rows; names file, table and what is wrong.
  static absl::StatusOr<ExportedRows> Open(const SafetensorsFile& file,
                                           const SparseTableSpec& table, uint64_t seed);

  // Fills in the rows of `sparse.keys`. A key that was never trained has its row's initial value,
  // as on the servers.
  void LookUp(SparseRows& sparse) const;

 private:
  ExportedRows(const SparseTableSpec& table, uint64_t seed) : table_(&table), seed_(seed) {}

  const SparseTableSpec* table_;
  uint64_t seed_;
  // Both const after Open. f32 [rows, dim]; and the number of each key's row.
  absl::string_view rows_;
  absl::flat_hash_map<uint64_t, uint64_t> row_of_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_PREDICT_EXPORTED_ROWS_H_
