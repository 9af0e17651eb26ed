#ifndef MUSTER_COMMON_PLAN_MEMORY_ROWS_MEMORY_H_
#define MUSTER_COMMON_PLAN_MEMORY_ROWS_MEMORY_H_

#include <cstdint>
#include <vector>

#include "common/plan/size/data_size.h"
#include "common/plan/size/memory_part.h"
#include "common/plan/size/model_size.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// The memory that rows of sparse tables take. Pure; refers to its arguments. REQUIRES of all
// methods: the model has sparse tables.
class RowsMemory {
 public:
  // `examples` are those of a micro-batch, `evaluated` those of an evaluation's pass.
  RowsMemory(const v1::JobSpec& spec, const DataSize& data, const ModelSize& model,
             uint64_t examples, uint64_t evaluated);

  // Returns a worker's parts: rows of a micro-batch with their gradients, of an evaluation's pass
  // without, a step's sums, and rows that are kept there.
  std::vector<MemoryPart> OfWorker() const;
  // Returns the bytes of the rows that are kept on a worker. REQUIRES: !RowsOnServers(spec).
  uint64_t KeptByWorker() const;
  // Returns the bytes of a copy of another worker's rows, with their sums of a step. REQUIRES: as
  // above.
  uint64_t Copy() const;
  // Returns the bytes that rows take on all servers together. REQUIRES: RowsOnServers(spec).
  uint64_t OnServers() const;

 private:
  uint64_t OwnedRows(uint64_t rows) const;
  uint64_t SumBytes(uint64_t rows) const;
  uint64_t RowsOfStep(uint64_t own) const;
  uint64_t DividedRowsOfStep(uint64_t own) const;
  uint64_t TableBytes(uint64_t rows) const;

  const v1::JobSpec& spec_;
  const DataSize& data_;
  const ModelSize& model_;
  const uint64_t examples_;
  const uint64_t evaluated_;
  // Workers, or the fewest of those that divide rows anew; and ranks of a shard group then.
  const uint64_t workers_;
  const uint64_t shards_;
  // Bytes of a row's floats with its key.
  const uint64_t row_bytes_;
  // Floats of a row with its optimizer state.
  const uint64_t row_floats_;
};

// Returns whether a model's rows, if it has any, are on servers.
bool RowsOnServers(const v1::JobSpec& spec);

}  // namespace muster

#endif  // MUSTER_COMMON_PLAN_MEMORY_ROWS_MEMORY_H_
