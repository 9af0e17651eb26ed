#ifndef MUSTER_COMMON_PARTITION_SCHEMA_H_
#define MUSTER_COMMON_PARTITION_SCHEMA_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/mesh/mesh.h"
#include "common/partition/dense_layout.h"
#include "common/partition/local_tensors.h"
#include "common/partition/served_layout.h"
#include "common/partition/tensor_spec.h"

namespace muster {

namespace v1 {
class TablesSchema;
class UpdateSpec;
}  // namespace v1

// A job's tables as the code uses them. Table 0 is the dense one, table i is sparse[i - 1].
struct Tables {
  std::vector<TensorSpec> tensors;
  std::vector<SparseTableSpec> sparse;
};

// Replaces the tensors and sparse tables of `schema`. REQUIRES: whole tensors.
void SetTables(absl::Span<const TensorSpec> tensors, absl::Span<const SparseTableSpec> sparse,
               v1::TablesSchema& schema);

// Returns how a job's dense tensors are divided and dealt, with the defaults where it has 0.
DenseLayout::Options LayoutOptions(const v1::UpdateSpec& update);

// Checks a schema that any client may have sent, whole: tables, partitions, block size, optimizer,
// schedule, clipping. InvalidArgument names the field, its value and what would be right.
absl::Status ValidateSchema(const v1::TablesSchema& schema);

// Returns the tables of a schema. REQUIRES: ValidateSchema(schema).ok().
Tables TablesFromSchema(const v1::TablesSchema& schema);

// Returns the mesh of the ranks that divide a model on servers, along kServedAxes: expert ranks are
// replicas there. REQUIRES: as above.
Mesh MeshOf(const v1::TablesSchema& schema);

// Returns how ranks of this mesh divide the dense tensors. REQUIRES: as above, and the mesh has as
// many stages as the schema.
ModelDivision DivisionOf(const v1::TablesSchema& schema, const Mesh& mesh);

// Returns the tables with the shares of dense tensors that a rank has at its position along
// kShareAxes (LocalTensors). InvalidArgument: the tensors cannot be divided. REQUIRES: as above,
// and the schema has as many stages.
absl::StatusOr<Tables> LocalTables(const v1::TablesSchema& schema, const MeshPosition& position);

// Returns the dense tensors as servers hold them for the ranks of MeshOf(schema). Errors are those
// of ServeTensors; there are none if ValidateSchema(schema).ok().
absl::StatusOr<ServedTensors> ServedFromSchema(const v1::TablesSchema& schema);

// Returns the layout of tensors that are a rank's shares of the schema's. Errors are those of
// DenseLayout::Create.
absl::StatusOr<DenseLayout> LayoutOfTensors(const v1::TablesSchema& schema,
                                            absl::Span<const TensorSpec> tensors);

// Returns equal values for equal schemas, whoever wrote them. Any field that the schema knows
// counts, except workers' compute types, the tokenizer and, without tensor and expert ranks,
// placements: no stored value depends on these.
uint64_t SchemaFingerprint(const v1::TablesSchema& schema);

}  // namespace muster

#endif  // MUSTER_COMMON_PARTITION_SCHEMA_H_
