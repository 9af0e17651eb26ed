#include "worker/c_abi/muster_servers.h"

#include <google/protobuf/util/json_util.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/text/dump_json.h"
#include "proto/cluster_service.pb.h"
#include "proto/schema.pb.h"
#include "proto/status.pb.h"
#include "worker/c_abi/answer.h"
#include "worker/c_abi/served_parameters.h"

struct muster_servers {
  std::unique_ptr<muster::ServedParameters> served;
  std::string cut;
};

namespace {

// A DLManagedTensor of DLPack 0.x, whose layout is a convention between libraries: contiguous f32
// on the CPU.
struct DlManagedTensor {
  void* data = nullptr;
  int32_t device_type = 1;
  int32_t device_id = 0;
  int32_t dimensions = 0;
  uint8_t type_code = 2;
  uint8_t type_bits = 32;
  uint16_t type_lanes = 1;
  int64_t* shape = nullptr;
  int64_t* strides = nullptr;
  uint64_t byte_offset = 0;
  void* context = nullptr;
  void (*deleter)(DlManagedTensor* self) = nullptr;
};

struct TensorView {
  DlManagedTensor tensor;
  std::vector<int64_t> shape;
  std::shared_ptr<muster::RegisteredMemory> memory;
};

// The most bytes of a shard map.
constexpr size_t kMostMapBytes = size_t{4} << 20;

absl::Status ParseMessage(const char* name, const char* json, google::protobuf::Message& message) {
  const auto parsed = google::protobuf::util::JsonStringToMessage(json, &message);
  if (parsed.ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " cannot be read: ", parsed.ToString()));
}

absl::StatusOr<muster::v1::ShardMap> NewestMap(int64_t (*shard_map)(void*, size_t)) {
  std::string bytes(kMostMapBytes, '\0');
  const int64_t size = shard_map(bytes.data(), bytes.size());
  if (size < 0) {
    return absl::Status(static_cast<absl::StatusCode>(-size),
                        "the task gives no map of the job's servers; the job is ending, or its "
                        "coordinator cannot be reached");
  }
  muster::v1::ShardMap map;
  if (size == 0 || size > static_cast<int64_t>(bytes.size()) ||
      !map.ParseFromArray(bytes.data(), static_cast<int>(size))) {
    // A source that gives no map once never will, so nothing is to wait for one.
    return absl::AbortedError(
        absl::StrCat("shard_map wrote ", size, " bytes, which are no map of the job's servers"));
  }
  return map;
}

absl::StatusOr<std::unique_ptr<muster::ServedParameters>> Open(
    const muster_servers_options& given) {
  muster::ServedParameters::Options options;
  if (!options.order.ParseFromArray(given.order, static_cast<int>(given.order_size))) {
    return absl::InvalidArgumentError("order is no serialised TaskOrder");
  }
  muster::v1::UpdateSpec update;
  MUSTER_RETURN_IF_ERROR(ParseMessage("update", given.update, update));
  options.order.mutable_spec()->mutable_update()->MergeFrom(update);
  MUSTER_RETURN_IF_ERROR(ParseMessage("schema", given.schema, options.schema));
  if (given.values_count != static_cast<size_t>(options.schema.tensors_size())) {
    return absl::InvalidArgumentError(absl::StrCat("there are ", given.values_count, " values for ",
                                                   options.schema.tensors_size(), " tensors"));
  }
  options.begins = given.begins != 0;
  options.values = {given.values, given.values_count};
  options.tls = {given.tls_authority, given.tls_certificate, given.tls_key};
  options.newest_shard_map = [shard_map = given.shard_map] { return NewestMap(shard_map); };
  options.log = [](absl::string_view line) {
    const std::string text = absl::StrCat("muster: ", line, "\n");
    std::fwrite(text.data(), 1, text.size(), stderr);
  };
  return muster::ServedParameters::Open(std::move(options));
}

// Returns the cut as the call commit_checkpoint takes it.
std::string Described(const muster::CutFiles& cut, const muster::v1::TablesSchema& schema) {
  nlohmann::json files = nlohmann::json::array();
  for (const muster::PartitionFile& file : cut.by_partition) {
    files.push_back({{"path", file.path}, {"bytes", file.bytes}, {"checksum", file.checksum}});
  }
  const nlohmann::json described = {{"schema", absl::Base64Escape(schema.SerializeAsString())},
                                    {"files", std::move(files)}};
  return muster::DumpJson(described);
}

// Checks the number of a tensor, or of a sparse table.
absl::Status CheckTensor(const muster_servers& servers, int32_t tensor) {
  return muster::CheckNumber("tensor", tensor, servers.served->schema().tensors_size());
}
absl::Status CheckTable(const muster_servers& servers, int32_t table) {
  return muster::CheckNumber("table", table, servers.served->schema().sparse_size());
}

}  // namespace

int muster_servers_abi_version() { return MUSTER_SERVERS_ABI_VERSION; }

const char* muster_servers_error() { return muster::last_error.c_str(); }

int muster_servers_open(const muster_servers_options* options, muster_servers** servers) {
  return muster::Answer([&]() -> absl::Status {
    MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<muster::ServedParameters> opened, Open(*options));
    *servers = new muster_servers{std::move(opened), {}};
    return absl::OkStatus();
  });
}

void muster_servers_close(muster_servers* servers) { delete servers; }

uint64_t muster_servers_clock(const muster_servers* servers) { return servers->served->clock(); }

void* muster_servers_parameter(const muster_servers* servers, int32_t tensor) {
  if (!CheckTensor(*servers, tensor).ok()) return nullptr;
  auto view = std::make_unique<TensorView>();
  view->memory = servers->served->memory();
  const muster::v1::TensorSchema& schema = servers->served->schema().tensors(tensor);
  view->shape.assign(schema.shape().begin(), schema.shape().end());
  DlManagedTensor& made = view->tensor;
  made.data = const_cast<float*>(servers->served->parameter(tensor));
  made.dimensions = static_cast<int32_t>(view->shape.size());
  made.shape = view->shape.data();
  made.context = view.get();
  made.deleter = [](DlManagedTensor* self) { delete static_cast<TensorView*>(self->context); };
  return &view.release()->tensor;
}

int muster_servers_acquire(muster_servers* servers, int32_t tensor) {
  return muster::Answer([&]() -> absl::Status {
    MUSTER_RETURN_IF_ERROR(CheckTensor(*servers, tensor));
    return servers->served->Acquire(tensor);
  });
}

int muster_servers_push(muster_servers* servers, int32_t tensor, const float* gradient) {
  return muster::Answer([&]() -> absl::Status {
    MUSTER_RETURN_IF_ERROR(CheckTensor(*servers, tensor));
    return servers->served->PushGradient(tensor, gradient);
  });
}

int muster_servers_look_up(muster_servers* servers, int32_t table, const uint64_t* keys,
                           size_t count, float* rows, uint64_t* look_up) {
  using Follows = muster::ServedParameters::Follows;
  return muster::Answer([&]() -> absl::Status {
    MUSTER_RETURN_IF_ERROR(CheckTable(*servers, table));
    MUSTER_ASSIGN_OR_RETURN(
        const uint64_t number,
        servers->served->LookUp(table, {keys, count}, rows,
                                look_up == nullptr ? Follows::kNothing : Follows::kGradients));
    if (look_up != nullptr) *look_up = number;
    return absl::OkStatus();
  });
}

int muster_servers_row_gradients(muster_servers* servers, uint64_t look_up, const float* gradients,
                                 int32_t now) {
  using Push = muster::ServedParameters::Push;
  return muster::Answer([&] {
    return servers->served->TakeRowGradients(look_up, gradients,
                                             now != 0 ? Push::kNow : Push::kAtEnd);
  });
}

int muster_servers_drop(muster_servers* servers) {
  return muster::Answer([&] { return servers->served->Drop(); });
}

int muster_servers_step(muster_servers* servers, const float* const* gradients, size_t count) {
  return muster::Answer([&]() -> absl::Status {
    const int tensors = servers->served->schema().tensors_size();
    if (count != static_cast<size_t>(tensors)) {
      return absl::InvalidArgumentError(
          absl::StrCat("there are ", count, " gradients for ", tensors, " tensors"));
    }
    return servers->served->EndStep({gradients, count});
  });
}

int muster_servers_cut(muster_servers* servers, double timeout_seconds, const char** cut) {
  return muster::Answer([&]() -> absl::Status {
    MUSTER_ASSIGN_OR_RETURN(const muster::CutFiles files,
                            servers->served->Cut(absl::Seconds(timeout_seconds)));
    servers->cut = Described(files, servers->served->schema());
    *cut = servers->cut.c_str();
    return absl::OkStatus();
  });
}
