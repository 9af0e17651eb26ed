#include "client/chaos/integer_pusher.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/chaos/integer_contribution.h"
#include "common/base/status_macros.h"
#include "common/rpc/parameter_service/grpc_parameter_client.h"
#include "common/rpc/rpc_credentials.h"
#include "proto/parameter_service.pb.h"

namespace muster {
namespace {

constexpr char kJob[] = "chaos";
constexpr absl::Duration kCallTimeout = absl::Seconds(30);
constexpr absl::Duration kBetweenAttempts = absl::Milliseconds(10);

// Returns true if the same operation may succeed over a new connection or a little later.
bool MayPass(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsResourceExhausted(status);
}

v1::OpenTablesRequest Tables(const IntegerTables& tables, uint32_t slot, bool expect_state) {
  v1::OpenTablesRequest request;
  request.set_job_id(kJob);
  request.set_generation(1);
  request.set_shard_map_version(1);
  request.set_slots(tables.slots);
  request.set_slot(slot);
  request.set_incarnation(1);
  request.set_expect_state(expect_state);
  request.set_checkpoint_root(tables.checkpoint_root);
  for (uint32_t i = 0; i < tables.partitions; ++i) {
    auto& partition = *request.add_partitions();
    partition.set_partition(i);
    partition.set_term(1);
  }
  auto& update = *request.mutable_update();
  update.set_dense(v1::UpdateSpec::PARAMETER_SERVER);
  update.set_sparse(v1::UpdateSpec::PARAMETER_SERVER);
  update.set_unlimited_staleness(true);
  update.set_durability(v1::UpdateSpec::EVERY_PUSH);
  auto& schema = *request.mutable_schema();
  auto& tensor = *schema.add_tensors();
  tensor.set_name("integers");
  tensor.add_shape(static_cast<int64_t>(tables.dense_elements));
  tensor.mutable_initializer()->set_kind(v1::Initializer::CONSTANT);
  auto& sparse = *schema.add_sparse();
  sparse.set_name("rows");
  sparse.set_dim(kIntegerRowDim);
  sparse.mutable_initializer()->set_kind(v1::Initializer::CONSTANT);
  schema.set_partitions(tables.partitions);
  schema.set_block_bytes(4096);
  schema.mutable_optimizer()->set_name("sgd");
  // Without a bound each push moves the weights at 1/slots of the rate: by its very integers.
  schema.mutable_optimizer()->set_learning_rate(static_cast<float>(tables.slots));
  schema.mutable_schedule()->set_name("constant");
  schema.set_total_steps(1 << 30);
  return request;
}

}  // namespace

absl::StatusOr<DenseLayout> IntegerTables::Layout() const {
  TensorSpec tensor;
  tensor.name = "integers";
  tensor.shape = {static_cast<int64_t>(dense_elements)};
  return DenseLayout::Create({tensor}, {.block_bytes = 4096, .partitions = partitions});
}

struct IntegerPusher::Operation {
  v1::ExchangeRequest request;
  Payload payload;
  bool answered = false;
  ExchangeResult result;
  std::shared_ptr<Pending<ExchangeResult>> pending;
};

IntegerPusher::IntegerPusher(StandaloneServer& server, const IntegerTables& tables,
                             const DenseLayout& layout, uint32_t slot)
    : server_(server), tables_(tables), layout_(layout), slot_(slot) {}

absl::Status IntegerPusher::TryConnect() {
  MUSTER_ASSIGN_OR_RETURN(const std::string address, server_.Address(tables_.patience));
  client_ = MakeGrpcParameterClient(address, RpcCredentials::PlainText());
  MUSTER_ASSIGN_OR_RETURN(const v1::OpenTablesReply reply,
                          client_->OpenTables(Tables(tables_, slot_, opened_), kCallTimeout));
  for (const v1::PartitionClocks& clocks : reply.partitions()) {
    const uint64_t closed = clocks.closed(static_cast<int>(slot_));
    if (closed < clock_) {
      return absl::DataLossError(absl::StrCat("slot ", slot_, " had closed ", clock_,
                                              " clocks on partition ", clocks.partition(),
                                              ", of which the server remembers ", closed));
    }
  }
  opened_ = true;
  return absl::OkStatus();
}

absl::Status IntegerPusher::Connect() {
  const absl::Time until = absl::Now() + tables_.patience;
  while (true) {
    client_.reset();
    const absl::Status status = TryConnect();
    if (status.ok()) return status;
    client_.reset();
    if (!MayPass(status) || absl::Now() > until) return status;
    absl::SleepFor(kBetweenAttempts);
  }
}

absl::Status IntegerPusher::Carry(std::vector<Operation>& operations) {
  const absl::Time until = absl::Now() + tables_.patience;
  while (true) {
    if (client_ == nullptr) MUSTER_RETURN_IF_ERROR(Connect());
    for (Operation& operation : operations) {
      if (operation.answered) continue;
      operation.pending = StartExchange(*client_, operation.request, operation.payload);
    }
    absl::Status trouble;
    for (Operation& operation : operations) {
      if (operation.answered) continue;
      absl::StatusOr<ExchangeResult> result = operation.pending->Take(kCallTimeout);
      operation.answered = result.ok();
      if (result.ok()) {
        operation.result = *std::move(result);
      } else if (trouble.ok() || MayPass(trouble)) {
        trouble = result.status();
      }
    }
    if (trouble.ok()) return trouble;
    if (!MayPass(trouble) || absl::Now() > until) return trouble;
    // A close may have overtaken a push that was refused: over a new connection the order is right.
    client_.reset();
    absl::SleepFor(kBetweenAttempts);
  }
}

std::vector<IntegerPusher::Operation> IntegerPusher::OperationsOf(uint64_t clock) const {
  std::vector<Operation> operations;
  for (uint32_t partition = 0; partition < tables_.partitions; ++partition) {
    v1::ExchangeRequest header;
    header.set_job_id(kJob);
    header.set_generation(1);
    header.set_partition(partition);
    header.set_slot(slot_);
    header.set_incarnation(1);
    header.set_clock(clock);

    const auto blocks = static_cast<uint32_t>(layout_.partition_blocks(partition).size());
    if (blocks > 0) {
      Operation& dense = operations.emplace_back();
      dense.request = header;
      dense.request.mutable_dense_push()->set_blocks(blocks);
      dense.request.mutable_dense_push()->set_examples(1);
      dense.payload = BlocksPayload(slot_, clock, layout_, partition);
    }
    std::vector<uint64_t> keys;
    for (uint64_t key : KeysOf(partition, tables_.partitions, tables_.rows)) {
      if (PushesRow(slot_, clock, key)) keys.push_back(key);
    }
    if (!keys.empty()) {
      Operation& sparse = operations.emplace_back();
      sparse.request = header;
      sparse.request.mutable_sparse_push()->set_table(1);
      sparse.request.mutable_sparse_push()->set_rows(keys.size());
      sparse.request.mutable_sparse_push()->set_examples(1);
      sparse.payload = RowsPayload(slot_, clock, keys);
    }
    Operation& close = operations.emplace_back();
    close.request = header;
    close.request.mutable_close()->set_examples(1);
    close.request.mutable_close()->add_sparse_chunks(keys.empty() ? 0 : 1);
    close.request.mutable_close()->set_no_dense(blocks == 0);
  }
  return operations;
}

absl::Status IntegerPusher::Push(uint64_t clocks) {
  while (clock_ < clocks) {
    if (clock_ > 0 && clock_ % tables_.cut_every == 0) {
      std::vector<Operation> cuts(tables_.partitions);
      for (uint32_t partition = 0; partition < tables_.partitions; ++partition) {
        v1::ExchangeRequest& cut = cuts[partition].request;
        cut.set_job_id(kJob);
        cut.set_generation(1);
        cut.set_partition(partition);
        cut.set_slot(slot_);
        cut.set_incarnation(1);
        cut.set_clock(clock_);
        cut.mutable_cut();
      }
      MUSTER_RETURN_IF_ERROR(Carry(cuts));
    }
    std::vector<Operation> operations = OperationsOf(clock_);
    MUSTER_RETURN_IF_ERROR(Carry(operations));
    ++clock_;
  }
  return absl::OkStatus();
}

absl::StatusOr<IntegerPusher::Values> IntegerPusher::Pull(uint32_t partition) {
  const std::vector<uint64_t> keys = KeysOf(partition, tables_.partitions, tables_.rows);
  const auto blocks = static_cast<uint32_t>(layout_.partition_blocks(partition).size());
  std::vector<Operation> pulls;
  v1::ExchangeRequest header;
  header.set_job_id(kJob);
  header.set_generation(1);
  header.set_partition(partition);
  header.set_slot(slot_);
  header.set_incarnation(1);
  header.set_clock(clock_);
  Values values;
  Operation& rows = pulls.emplace_back();
  rows.request = header;
  rows.request.mutable_sparse_pull()->set_table(1);
  rows.request.mutable_sparse_pull()->set_rows(keys.size());
  rows.payload = Payload::Of(keys);
  if (blocks > 0) {
    Operation& dense = pulls.emplace_back();
    dense.request = header;
    dense.request.mutable_dense_pull()->set_blocks(blocks);
  }
  MUSTER_RETURN_IF_ERROR(Carry(pulls));
  values.rows.resize(pulls[0].result.payload.size() / sizeof(float));
  pulls[0].result.payload.CopyTo(values.rows.data());
  if (blocks > 0) {
    values.dense.resize(pulls[1].result.payload.size() / sizeof(float));
    pulls[1].result.payload.CopyTo(values.dense.data());
  }
  return values;
}

void IntegerPusher::AddSums(uint64_t clocks, std::vector<int64_t>& sums) const {
  for (uint64_t clock = 0; clock < clocks; ++clock) {
    for (uint64_t element = 0; element < tables_.dense_elements; ++element) {
      sums[element] += IntegerAt(slot_, clock, element);
    }
    for (uint64_t key = 0; key < tables_.rows; ++key) {
      if (!PushesRow(slot_, clock, key)) continue;
      for (uint32_t i = 0; i < kIntegerRowDim; ++i) {
        sums[tables_.dense_elements + key * kIntegerRowDim + i] +=
            IntegerAt(slot_, clock, RowElement(key, i));
      }
    }
  }
}

void IntegerPusher::Rewind(uint64_t clock) {
  client_.reset();
  clock_ = std::min(clock_, clock);
}

}  // namespace muster
