#include "common/checkpoint/safetensors.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/optim/optimizer.h"
#include "common/text/dump_json.h"
#include "common/tokenizer/tokenizer_identity.h"
#include "google/protobuf/util/json_util.h"
#include "proto/checkpoint.pb.h"
#include "proto/data_preparation.pb.h"

namespace muster {
namespace {

using Json = nlohmann::ordered_json;
using Sink = absl::FunctionRef<absl::Status(absl::Span<const std::byte>)>;

// Of one piece given to the sink.
constexpr uint64_t kChunkElements = 1 << 20;

template <typename T>
absl::Span<const std::byte> Bytes(absl::Span<const T> values) {
  return {reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(T)};
}

std::string KeysName(const v1::SparseTableSchema& table) {
  return absl::StrCat(table.name(), ".keys");
}

std::string RowsName(const v1::SparseTableSchema& table) {
  return absl::StrCat(table.name(), ".rows");
}

uint64_t Elements(const v1::TensorSchema& tensor) {
  uint64_t elements = 1;
  for (const int64_t extent : tensor.shape()) elements *= extent;
  return elements;
}

// The header's text. Keys come first, so that every tensor is aligned to its element: the format
// asks for no gaps.
absl::StatusOr<std::string> Header(const CheckpointReader& checkpoint) {
  const v1::CheckpointManifest& manifest = checkpoint.manifest();
  std::map<std::string, std::string> metadata = {
      {"format", "muster"}, {"job", manifest.job_id()}, {"clock", absl::StrCat(manifest.clock())}};
  if (manifest.schema().has_tokenizer()) {
    const v1::TokenizerRecord& tokenizer = manifest.schema().tokenizer();
    AddToMetadata({tokenizer.fingerprint(), tokenizer.name()}, metadata);
  }
  if (!manifest.data_preparation().empty()) {
    v1::DataPreparation preparation;
    google::protobuf::util::JsonPrintOptions options;
    options.preserve_proto_field_names = true;
    options.always_print_primitive_fields = true;
    if (!preparation.ParseFromString(manifest.data_preparation()) ||
        !google::protobuf::util::MessageToJsonString(preparation, &metadata["data_preparation"],
                                                     options)
             .ok()) {
      return absl::DataLossError(absl::StrCat("the checkpoint of job ", manifest.job_id(),
                                              " does not tell how its data were prepared"));
    }
  }
  Json header;
  header["__metadata__"] = metadata;
  uint64_t offset = 0;
  absl::Status status;
  const auto add = [&](const std::string& name, const char* dtype,
                       const std::vector<uint64_t>& shape, uint64_t element_bytes) {
    if (header.contains(name)) {
      status.Update(absl::FailedPreconditionError(
          absl::StrCat("two tensors of job ", manifest.job_id(), " would be exported as '", name,
                       "'; rename one in the model")));
    }
    const uint64_t begin = offset;
    for (const uint64_t extent : shape) element_bytes *= extent;
    offset += element_bytes;
    header[name] = {{"dtype", dtype}, {"shape", shape}, {"data_offsets", {begin, offset}}};
  };
  std::vector<uint64_t> rows;
  for (const v1::SparseTableSchema& table : manifest.schema().sparse()) {
    MUSTER_ASSIGN_OR_RETURN(const uint64_t count, checkpoint.SparseRowCount(table.name()));
    rows.push_back(count);
    add(KeysName(table), "U64", {count}, sizeof(uint64_t));
  }
  for (const v1::TensorSchema& tensor : manifest.schema().tensors()) {
    if (!tensor.tied_to().empty()) continue;
    add(tensor.name(), "F32", {tensor.shape().begin(), tensor.shape().end()}, sizeof(float));
  }
  for (int i = 0; i < manifest.schema().sparse_size(); ++i) {
    const v1::SparseTableSchema& table = manifest.schema().sparse(i);
    add(RowsName(table), "F32", {rows[i], table.dim()}, sizeof(float));
  }
  MUSTER_RETURN_IF_ERROR(status);
  // Names come from protobuf strings, which are UTF-8; "replace" only keeps the library from
  // throwing.
  std::string text = DumpJson(header);
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

absl::Status ExportDense(const CheckpointReader& checkpoint, ExportedValues exported,
                         const v1::TensorSchema& tensor, Sink sink) {
  const absl::string_view array = exported == ExportedValues::kAverages ? kAverageState : "";
  const uint64_t elements = Elements(tensor);
  std::vector<float> values(std::min(elements, kChunkElements));
  for (uint64_t at = 0; at < elements; at += values.size()) {
    const absl::Span<float> part =
        absl::MakeSpan(values).first(std::min<uint64_t>(values.size(), elements - at));
    MUSTER_RETURN_IF_ERROR(checkpoint.ReadTensor(tensor.name(), array, at, part));
    MUSTER_RETURN_IF_ERROR(sink(Bytes<float>(part)));
  }
  return absl::OkStatus();
}

absl::Status ExportRows(const CheckpointReader& checkpoint, const v1::SparseTableSchema& table,
                        Sink sink) {
  std::vector<float> weights;
  return checkpoint.ReadSparse(
      table.name(), std::nullopt, [&](const StoredRows& rows) -> absl::Status {
        if (rows.width < table.dim()) {
          return absl::DataLossError(absl::StrCat("rows of table ", table.name(), " have ",
                                                  rows.width, " values, expected at least ",
                                                  table.dim()));
        }
        // A row's weights are followed by its optimizer state.
        weights.clear();
        for (size_t i = 0; i < rows.size(); ++i) {
          const absl::Span<const float> row = rows.row(i).first(table.dim());
          weights.insert(weights.end(), row.begin(), row.end());
        }
        return sink(Bytes<float>(weights));
      });
}

}  // namespace

absl::Status ExportSafetensors(const CheckpointReader& checkpoint, ExportedValues values,
                               Sink sink) {
  if (values == ExportedValues::kAverages) MUSTER_RETURN_IF_ERROR(checkpoint.CheckAverages());
  const v1::TablesSchema& schema = checkpoint.manifest().schema();
  MUSTER_ASSIGN_OR_RETURN(const std::string header, Header(checkpoint));
  const uint64_t length = header.size();
  MUSTER_RETURN_IF_ERROR(sink(Bytes<uint64_t>({&length, 1})));
  MUSTER_RETURN_IF_ERROR(sink(Bytes<char>(header)));
  for (const v1::SparseTableSchema& table : schema.sparse()) {
    MUSTER_RETURN_IF_ERROR(checkpoint.ReadSparseKeys(
        table.name(),
        [&sink](absl::Span<const uint64_t> keys) { return sink(Bytes<uint64_t>(keys)); }));
  }
  for (const v1::TensorSchema& tensor : schema.tensors()) {
    if (!tensor.tied_to().empty()) continue;
    MUSTER_RETURN_IF_ERROR(ExportDense(checkpoint, values, tensor, sink));
  }
  for (const v1::SparseTableSchema& table : schema.sparse()) {
    MUSTER_RETURN_IF_ERROR(ExportRows(checkpoint, table, sink));
  }
  return absl::OkStatus();
}

}  // namespace muster
