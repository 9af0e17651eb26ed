#include "common/partition/schema.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/fingerprint.h"
#include "common/base/status_macros.h"
#include "common/optim/optimizer.h"
#include "common/optim/schedule.h"
#include "common/partition/wire_dtype.h"
#include "common/text/printable.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "proto/job.pb.h"
#include "proto/schema.pb.h"

namespace muster {
namespace {

constexpr size_t kMaxNameBytes = 256;
// A row must fit a message many times over.
constexpr uint32_t kMaxDim = 1 << 16;
// The most units of a model that a pipeline divides, and groups of them. A schema from outside must
// not make a server compute without bound either: finding the stage of each share takes time with
// the number of groups.
constexpr uint64_t kMostUnits = 1 << 20;
constexpr int kMostGroups = 1024;

v1::Initializer ToProto(const Initializer& initializer) {
  v1::Initializer proto;
  switch (initializer.kind) {
    case Initializer::Kind::kConstant:
      proto.set_kind(v1::Initializer::CONSTANT);
      break;
    case Initializer::Kind::kUniform:
      proto.set_kind(v1::Initializer::UNIFORM);
      break;
    case Initializer::Kind::kNormal:
      proto.set_kind(v1::Initializer::NORMAL);
      break;
  }
  proto.set_scale(initializer.scale);
  proto.set_value(initializer.value);
  return proto;
}

Initializer FromProto(const v1::Initializer& proto) {
  Initializer initializer;
  if (proto.kind() == v1::Initializer::UNIFORM) initializer.kind = Initializer::Kind::kUniform;
  if (proto.kind() == v1::Initializer::NORMAL) initializer.kind = Initializer::Kind::kNormal;
  initializer.scale = proto.scale();
  initializer.value = proto.value();
  return initializer;
}

void ToProto(const Placement& placement, v1::TensorPlacement& proto) {
  proto.set_kind(static_cast<v1::TensorPlacement::Kind>(placement.kind));
  proto.set_dimension(placement.dimension);
  for (const Placement::Section& section : placement.sections) {
    v1::TensorPlacement::Section& added = *proto.add_sections();
    added.set_extent(section.extent);
    added.set_units(section.units);
  }
}

Placement FromProto(const v1::TensorPlacement& proto) {
  Placement placement;
  if (proto.kind() == v1::TensorPlacement::SHARD) placement.kind = Placement::Kind::kShard;
  if (proto.kind() == v1::TensorPlacement::FIRST) placement.kind = Placement::Kind::kFirst;
  if (proto.kind() == v1::TensorPlacement::EXPERTS) placement.kind = Placement::Kind::kExperts;
  placement.dimension = proto.dimension();
  for (const v1::TensorPlacement::Section& section : proto.sections()) {
    placement.sections.push_back({section.extent(), section.units()});
  }
  return placement;
}

// Checks that sections make up the dimension that they divide.
absl::Status CheckPlacement(const std::string& field, const v1::TensorSchema& tensor) {
  const v1::TensorPlacement& placement = tensor.placement();
  if (placement.kind() == v1::TensorPlacement::REPLICATE) return absl::OkStatus();
  if (!v1::TensorPlacement::Kind_IsValid(placement.kind())) {
    return absl::InvalidArgumentError(absl::StrCat(field, ".placement.kind is ",
                                                   static_cast<int>(placement.kind()),
                                                   ": it must be REPLICATE, SHARD or FIRST"));
  }
  const int dimension = placement.dimension();
  if (dimension < 0 || dimension >= tensor.shape_size()) {
    return absl::InvalidArgumentError(absl::StrCat(field, ".placement.dimension is ", dimension,
                                                   ": the tensor has ", tensor.shape_size(),
                                                   " dimensions"));
  }
  if (placement.kind() == v1::TensorPlacement::FIRST) return absl::OkStatus();
  if (dimension > 0 && placement.sections_size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ".placement has ", placement.sections_size(), " sections in dimension ",
                     dimension, ": only dimension 0 may have several"));
  }
  int64_t rest = tensor.shape(dimension);
  for (const v1::TensorPlacement::Section& section : placement.sections()) {
    if (section.extent() < 0 || section.extent() > rest || section.units() < 1 ||
        section.extent() % section.units() != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          field, ".placement has a section of ", section.extent(), " indices in ", section.units(),
          " units: they must divide it, and it must lie within the dimension"));
    }
    rest -= section.extent();
  }
  if (rest != 0) {
    return absl::InvalidArgumentError(absl::StrCat(field, ".placement's sections leave out ", rest,
                                                   " of ", tensor.shape(dimension), " indices"));
  }
  return absl::OkStatus();
}

absl::Status CheckName(const std::string& field, const std::string& name,
                       absl::flat_hash_set<std::string>& names) {
  if (name.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ".name is empty: names key checkpoints and initial values"));
  }
  if (name.size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, ".name has ", name.size(), " bytes: at most ", kMaxNameBytes, " are allowed"));
  }
  for (char c : name) {
    if (!absl::ascii_isgraph(static_cast<unsigned char>(c))) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, ".name is \"", PrintableLine(name),
                       "\": only printable ASCII without spaces is allowed"));
    }
  }
  if (!names.insert(name).second) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ".name is \"", name,
                     "\", which an earlier tensor or table has: names must be unique in a job"));
  }
  return absl::OkStatus();
}

absl::Status CheckInitializer(const std::string& field, const v1::Initializer& initializer) {
  switch (initializer.kind()) {
    case v1::Initializer::CONSTANT:
      if (!std::isfinite(initializer.value())) {
        return absl::InvalidArgumentError(absl::StrCat(
            field, ".initializer.value is ", initializer.value(), ": it must be a finite number"));
      }
      return absl::OkStatus();
    case v1::Initializer::UNIFORM:
    case v1::Initializer::NORMAL:
      if (!std::isfinite(initializer.scale()) || initializer.scale() < 0) {
        return absl::InvalidArgumentError(
            absl::StrCat(field, ".initializer.scale is ", initializer.scale(),
                         ": it must be a finite number of at least 0"));
      }
      return absl::OkStatus();
    default:
      return absl::InvalidArgumentError(absl::StrCat(field, ".initializer.kind is ",
                                                     static_cast<int>(initializer.kind()),
                                                     ": it must be CONSTANT, UNIFORM or NORMAL"));
  }
}

// Checks the options of the tensor's optimizer group.
absl::Status CheckGroup(const std::string& field, const v1::TensorSchema& tensor) {
  if (tensor.has_rate() && !(std::isfinite(tensor.rate()) && tensor.rate() >= 0)) {
    return absl::InvalidArgumentError(absl::StrCat(field, ".rate is ", tensor.rate(),
                                                   ": it must be a finite number of at least 0"));
  }
  if (tensor.has_own_weight_decay() &&
      !(std::isfinite(tensor.own_weight_decay()) && tensor.own_weight_decay() >= 0)) {
    return absl::InvalidArgumentError(absl::StrCat(field, ".own_weight_decay is ",
                                                   tensor.own_weight_decay(),
                                                   ": it must be a finite number of at least 0"));
  }
  if (tensor.has_own_weight_decay() && tensor.weight_decay()) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, " has both weight_decay and own_weight_decay: leave one out"));
  }
  if (tensor.frozen() && tensor.sign_rate() > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(field,
                     " is frozen, but has a sign_rate, by which steps would move it: leave "
                     "one out"));
  }
  return absl::OkStatus();
}

// Checks that matrices make up the tensor.
absl::Status CheckMatrices(const std::string& field, const v1::TensorSchema& tensor) {
  if (tensor.matrix_rows().empty()) return absl::OkStatus();
  if (tensor.shape_size() != 2 || tensor.shape(1) < 1 || !tensor.tied_to().empty() ||
      tensor.frozen() || tensor.sign_rate() > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(field,
                     " has matrix_rows, but is no tensor of two dimensions that the "
                     "optimizer moves: leave them out"));
  }
  int64_t rest = tensor.shape(0);
  for (const int64_t rows : tensor.matrix_rows()) {
    if (rows < 1 || rows > rest) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, ".matrix_rows has ", rows, " of the ", rest,
                       " rows that are left: each matrix must have some, and all together those "
                       "of the tensor"));
    }
    rest -= rows;
  }
  if (rest == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ".matrix_rows leave out ", rest, " of ", tensor.shape(0), " rows"));
}

absl::Status CheckTables(const v1::TablesSchema& schema) {
  absl::flat_hash_set<std::string> names;
  for (int i = 0; i < schema.tensors_size(); ++i) {
    const v1::TensorSchema& tensor = schema.tensors(i);
    const std::string field = absl::StrCat("schema.tensors[", i, "]");
    MUSTER_RETURN_IF_ERROR(CheckName(field, tensor.name(), names));
    if (const auto type = WireDType(tensor.compute()); !type.ok()) {
      return absl::Status(type.status().code(),
                          absl::StrCat(field, ".compute: ", type.status().message()));
    }
    MUSTER_RETURN_IF_ERROR(CheckPlacement(field, tensor));
    if (!std::isfinite(tensor.sign_rate()) || tensor.sign_rate() < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, " (", tensor.name(), ").sign_rate is ", tensor.sign_rate(),
                       ": it must be a finite number above 0, or 0 for a parameter"));
    }
    MUSTER_RETURN_IF_ERROR(CheckGroup(absl::StrCat(field, " (", tensor.name(), ")"), tensor));
    MUSTER_RETURN_IF_ERROR(CheckMatrices(absl::StrCat(field, " (", tensor.name(), ")"), tensor));
    // A tied tensor's values are those of its owner.
    if (!tensor.tied_to().empty()) continue;
    MUSTER_RETURN_IF_ERROR(
        CheckInitializer(absl::StrCat(field, " (", tensor.name(), ")"), tensor.initializer()));
  }
  for (int i = 0; i < schema.sparse_size(); ++i) {
    const v1::SparseTableSchema& table = schema.sparse(i);
    const std::string field = absl::StrCat("schema.sparse[", i, "]");
    MUSTER_RETURN_IF_ERROR(CheckName(field, table.name(), names));
    const std::string named = absl::StrCat(field, " (", table.name(), ")");
    if (table.dim() == 0 || table.dim() > kMaxDim) {
      return absl::InvalidArgumentError(
          absl::StrCat(named, ".dim is ", table.dim(), ": it must lie in [1, ", kMaxDim, "]"));
    }
    MUSTER_RETURN_IF_ERROR(CheckInitializer(named, table.initializer()));
  }
  if (names.empty()) {
    return absl::InvalidArgumentError(
        "schema has neither tensors nor sparse tables: a job needs at least one");
  }
  return absl::OkStatus();
}

absl::Status CheckClipping(const v1::ClippingSpec& clipping) {
  if (!std::isfinite(clipping.by_value()) || clipping.by_value() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("schema.clipping.by_value is ", clipping.by_value(),
                     ": it must be a finite number above 0, or 0 for none"));
  }
  // An infinite limit has the norm measured, and clips nothing.
  if (!(clipping.by_global_norm() >= 0)) {
    return absl::InvalidArgumentError(absl::StrCat("schema.clipping.by_global_norm is ",
                                                   clipping.by_global_norm(),
                                                   ": it must be a number above 0, or 0 for none"));
  }
  return absl::OkStatus();
}

absl::Status CheckSparseOptions(const v1::SparseTableOptions& options) {
  // Clocks are counted in 32 bits per row.
  constexpr uint64_t kMostClocks = uint64_t{1} << 31;
  if (options.expire_after_clocks() > kMostClocks) {
    return absl::InvalidArgumentError(absl::StrCat("schema.sparse_options.expire_after_clocks is ",
                                                   options.expire_after_clocks(), ": at most ",
                                                   kMostClocks, " is allowed"));
  }
  if (options.keep_from_updates() > 0 && options.expire_after_clocks() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("schema.sparse_options.keep_from_updates is ", options.keep_from_updates(),
                     ": without expire_after_clocks all rows stay, and it must be 0"));
  }
  return absl::OkStatus();
}

absl::Status InSchema(const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("schema: ", status.message()));
}

// Checks that virtual stages make up the model, and that each stage has as many of them.
absl::Status CheckPipeline(const v1::TablesSchema& schema) {
  const uint32_t stages = std::max(1u, schema.pipeline());
  const int groups = schema.pipeline_layers_size();
  if (stages == 1 && groups == 0) return absl::OkStatus();
  if (stages == 1 || groups == 0 || groups % static_cast<int>(stages) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("schema.pipeline is ", stages, " and schema.pipeline_layers has ", groups,
                     " groups: each of several stages must have as many groups"));
  }
  if (groups > kMostGroups) {
    return absl::InvalidArgumentError(
        absl::StrCat("schema.pipeline_layers has ", groups, " virtual stages: at most ",
                     kMostGroups, " are possible, so make fewer and larger groups"));
  }
  uint64_t layers = 0;
  for (const uint32_t size : schema.pipeline_layers()) {
    if (size == 0) {
      return absl::InvalidArgumentError(
          "schema.pipeline_layers has 0: each group has at least one layer");
    }
    layers += size;
  }
  uint64_t units = 0;
  for (const v1::TensorSchema& tensor : schema.tensors()) {
    units = std::max<uint64_t>(units, uint64_t{tensor.unit()} + 1);
    if (tensor.shape_size() > 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "schema: tensor ", tensor.name(), " has no dimensions, but stages have tensors of none"));
  }
  if (layers >= units && layers <= kMostUnits) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("schema.pipeline_layers has ", layers,
                                                 " layers, but tensors are in ", units,
                                                 ": they must make up the model"));
}

}  // namespace

void SetTables(absl::Span<const TensorSpec> tensors, absl::Span<const SparseTableSpec> sparse,
               v1::TablesSchema& schema) {
  schema.clear_tensors();
  schema.clear_sparse();
  for (const TensorSpec& tensor : tensors) {
    v1::TensorSchema& proto = *schema.add_tensors();
    proto.set_name(tensor.name);
    proto.mutable_shape()->Add(tensor.shape.begin(), tensor.shape.end());
    *proto.mutable_initializer() = ToProto(tensor.initializer);
    proto.set_unit(tensor.unit);
    proto.set_weight_decay(tensor.weight_decay);
    proto.set_sign_rate(tensor.sign_rate);
    proto.set_frozen(tensor.frozen);
    if (tensor.rate != 1) proto.set_rate(tensor.rate);
    if (tensor.own_weight_decay.has_value()) {
      proto.set_own_weight_decay(*tensor.own_weight_decay);
    }
    proto.mutable_matrix_rows()->Add(tensor.matrix_rows.begin(), tensor.matrix_rows.end());
    proto.set_tied_to(tensor.tied_to);
    if (tensor.placement.kind != Placement::Kind::kReplicate) {
      ToProto(tensor.placement, *proto.mutable_placement());
    }
    if (tensor.compute != DType::kF32) {
      proto.set_compute(static_cast<v1::UpdateSpec::WireType>(WireTypeOf(tensor.compute)));
    }
  }
  for (const SparseTableSpec& table : sparse) {
    v1::SparseTableSchema& proto = *schema.add_sparse();
    proto.set_name(table.name);
    proto.set_dim(table.dim);
    *proto.mutable_initializer() = ToProto(table.initializer);
    proto.set_weight_decay(table.weight_decay);
  }
}

DenseLayout::Options LayoutOptions(const v1::UpdateSpec& update) {
  DenseLayout::Options options;
  if (update.block_bytes() > 0) options.block_bytes = update.block_bytes();
  if (update.partitions() > 0) options.partitions = update.partitions();
  return options;
}

absl::Status ValidateSchema(const v1::TablesSchema& schema) {
  MUSTER_RETURN_IF_ERROR(CheckTables(schema));
  MUSTER_RETURN_IF_ERROR(InSchema(CheckModelRanks(
      std::max(1u, schema.tensor_ranks()), std::max(1u, schema.pipeline()),
      std::max(1u, schema.expert_ranks()), static_cast<size_t>(schema.tensors_size()))));
  MUSTER_RETURN_IF_ERROR(CheckPipeline(schema));
  // Shares are those of tensors whose ties are right.
  if (schema.pipeline() > 1) {
    MUSTER_RETURN_IF_ERROR(
        InSchema(LayoutOfTensors(schema, TablesFromSchema(schema).tensors).status()));
  }
  MUSTER_RETURN_IF_ERROR(InSchema(ServedFromSchema(schema).status()));
  MUSTER_RETURN_IF_ERROR(
      InSchema(CreateOptimizer(schema.optimizer(), Granularity::kElements).status()));
  MUSTER_RETURN_IF_ERROR(InSchema(ValidateSchedule(schema.schedule())));
  MUSTER_RETURN_IF_ERROR(CheckSparseOptions(schema.sparse_options()));
  return CheckClipping(schema.clipping());
}

Tables TablesFromSchema(const v1::TablesSchema& schema) {
  Tables tables;
  for (const v1::TensorSchema& proto : schema.tensors()) {
    TensorSpec tensor;
    tensor.name = proto.name();
    tensor.shape.assign(proto.shape().begin(), proto.shape().end());
    tensor.initializer = FromProto(proto.initializer());
    tensor.unit = proto.unit();
    tensor.weight_decay = proto.weight_decay();
    tensor.sign_rate = proto.sign_rate();
    tensor.frozen = proto.frozen();
    if (proto.has_rate()) tensor.rate = proto.rate();
    if (proto.has_own_weight_decay()) tensor.own_weight_decay = proto.own_weight_decay();
    tensor.matrix_rows.assign(proto.matrix_rows().begin(), proto.matrix_rows().end());
    tensor.tied_to = proto.tied_to();
    tensor.placement = FromProto(proto.placement());
    tensor.compute = WireDType(proto.compute()).value_or(DType::kF32);
    tables.tensors.push_back(std::move(tensor));
  }
  for (const v1::SparseTableSchema& proto : schema.sparse()) {
    SparseTableSpec table;
    table.name = proto.name();
    table.dim = proto.dim();
    table.initializer = FromProto(proto.initializer());
    table.weight_decay = proto.weight_decay();
    tables.sparse.push_back(std::move(table));
  }
  return tables;
}

Mesh MeshOf(const v1::TablesSchema& schema) {
  const auto experts = static_cast<int>(std::max(1u, schema.expert_ranks()));
  return Mesh({.pipeline = static_cast<int>(std::max(1u, schema.pipeline())),
               .replica = experts,
               .tensor = static_cast<int>(std::max(1u, schema.tensor_ranks())),
               .expert = experts});
}

ModelDivision DivisionOf(const v1::TablesSchema& schema, const Mesh& mesh) {
  return {
      .mesh = mesh.Only(kShareAxes),
      .virtual_stage_units = {schema.pipeline_layers().begin(), schema.pipeline_layers().end()}};
}

absl::StatusOr<Tables> LocalTables(const v1::TablesSchema& schema, const MeshPosition& position) {
  Tables tables = TablesFromSchema(schema);
  MUSTER_ASSIGN_OR_RETURN(
      tables.tensors,
      LocalTensors(tables.tensors, DivisionOf(schema, position.mesh), position.at(kShareAxes)));
  return tables;
}

absl::StatusOr<ServedTensors> ServedFromSchema(const v1::TablesSchema& schema) {
  return ServeTensors(TablesFromSchema(schema).tensors, DivisionOf(schema, MeshOf(schema)),
                      {.block_bytes = schema.block_bytes(), .partitions = schema.partitions()});
}

absl::StatusOr<DenseLayout> LayoutOfTensors(const v1::TablesSchema& schema,
                                            absl::Span<const TensorSpec> tensors) {
  return DenseLayout::Create(
      tensors, {.block_bytes = schema.block_bytes(), .partitions = schema.partitions()});
}

uint64_t SchemaFingerprint(const v1::TablesSchema& schema) {
  // Fields that a newer client sent and this build does not know must not tell apart two schemas
  // that act alike.
  v1::TablesSchema known = schema;
  known.DiscardUnknownFields();
  for (v1::TensorSchema& tensor : *known.mutable_tensors()) {
    // Each pull names its own type.
    tensor.clear_compute();
    if (schema.tensor_ranks() <= 1 && schema.expert_ranks() <= 1) tensor.clear_placement();
  }
  if (schema.tensor_ranks() <= 1) known.clear_tensor_ranks();
  if (schema.expert_ranks() <= 1) known.clear_expert_ranks();
  if (schema.pipeline() <= 1) known.clear_pipeline();
  known.clear_tokenizer();
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    known.SerializeToCodedStream(&coded);
  }
  return Fingerprint(bytes);
}

}  // namespace muster
