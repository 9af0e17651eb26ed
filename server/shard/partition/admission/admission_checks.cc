#include "server/shard/partition/admission/admission_checks.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/partition/cut_order.h"
#include "common/partition/sparse_placement.h"
#include "common/partition/wire_dtype.h"
#include "proto/parameter_service.pb.h"
#include "proto/partition_state.pb.h"
#include "server/shard/tables/rate_factor.h"

namespace muster {
namespace {

using Operation = v1::ExchangeRequest::OperationCase;

// The most bytes that an answer may carry: the transport's limit on a message, without room for its
// header.
constexpr uint64_t kMostReplyBytes = (uint64_t{64} << 20) - 4096;

// Clocks a slot may close under BSP while another has yet to close the first of them. Real tasks
// are one ahead.
constexpr uint64_t kMostClosesAhead = 1024;

absl::string_view Name(Operation operation) {
  switch (operation) {
    case Operation::kDensePush:
      return "dense push";
    case Operation::kSparsePush:
      return "sparse push";
    case Operation::kClose:
      return "close";
    case Operation::kDensePull:
      return "dense pull";
    case Operation::kSparsePull:
      return "sparse pull";
    case Operation::kCut:
      return "cut";
    case Operation::kClip:
      return "clip exchange";
    case Operation::kEnter:
      return "entry";
    case Operation::OPERATION_NOT_SET:
      break;
  }
  return "operation";
}

}  // namespace

AdmissionChecks::AdmissionChecks(const PartitionTables& tables, BufferPool& pool,
                                 MemoryShare& memory, uint64_t start)
    : tables_(tables),
      job_(*tables.job),
      pool_(pool),
      memory_(memory),
      ledger_({.mesh = job_.mesh(),
               .dense_blocks = tables.dense.size(),
               .sparse_tables = static_cast<uint32_t>(tables.sparse.size()),
               .micro_batches = job_.pushes_of_block(),
               .pushers = job_.PushersOf(tables.partition)},
              start),
      entries_(job_.slots(), job_.slots() - job_.backup_workers(), start),
      scaled_(start) {}

bool AdmissionChecks::IsMutation(const v1::ExchangeRequest& request) {
  switch (request.operation_case()) {
    case Operation::kDensePush:
    case Operation::kSparsePush:
    case Operation::kClose:
    case Operation::kEnter:
      return true;
    case Operation::kClip:
      return request.clip().has_scale();
    default:
      return false;
  }
}

uint64_t AdmissionChecks::completed() const {
  return job_.clips_by_norm() ? scaled_ : ledger_.slowest();
}

void AdmissionChecks::Check(AdmittedCall& call) {
  const absl::Status status = CheckOperation(call);
  if (status.ok()) return;
  const v1::ExchangeRequest& request = *call.call.request;
  call.status =
      absl::Status(status.code(),
                   absl::StrCat(Name(request.operation_case()), " of slot ", request.slot(),
                                " at clock ", request.clock(), " to partition ", tables_.partition,
                                " of job ", job_.job_id(), " refused: ", status.message()));
}

absl::Status AdmissionChecks::CheckOperation(AdmittedCall& call) {
  const v1::ExchangeRequest& request = *call.call.request;
  if (request.slot() >= job_.slots()) {
    return absl::InvalidArgumentError(absl::StrCat("the job has ", job_.slots(), " slots"));
  }
  // 0 stands for 1.
  if (!std::isfinite(request.rate_factor()) || request.rate_factor() < 0) {
    return absl::InvalidArgumentError(absl::StrCat("rate_factor is ", request.rate_factor(),
                                                   ", expected a positive finite number"));
  }
  MUSTER_RETURN_IF_ERROR(ledger_.Enter(request.slot(), request.incarnation()));
  const StalenessPolicy policy = job_.policy();
  switch (request.operation_case()) {
    case Operation::kDensePush:
      return CheckDensePush(call);
    case Operation::kSparsePush:
      return CheckSparsePush(call);
    case Operation::kClose:
      return CheckClose(call);
    case Operation::kDensePull:
      MUSTER_RETURN_IF_ERROR(
          CheckBlocks(request.dense_pull().first_block(), request.dense_pull().blocks()));
      MUSTER_RETURN_IF_ERROR(WireDType(request.dense_pull().type()).status());
      return CheckReachable(request, policy.Required(request.clock()));
    case Operation::kSparsePull:
      return CheckSparsePull(call);
    case Operation::kCut:
      if (job_.request().checkpoint_root().empty()) {
        return absl::FailedPreconditionError(
            "the tables were opened without a checkpoint_root; open them with one");
      }
      MUSTER_RETURN_IF_ERROR(CheckCut(call));
      return CheckReachable(request, request.clock());
    case Operation::kClip:
      return CheckClip(call);
    case Operation::kEnter:
      return CheckEnter(call);
    case Operation::OPERATION_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("the request names no operation that this server knows");
}

absl::Status AdmissionChecks::CheckBlocks(uint32_t first, uint32_t count) const {
  const uint32_t size = tables_.dense.size();
  if (count == 0 || first >= size || count > size - first) {
    return absl::InvalidArgumentError(absl::StrCat("names ", count, " blocks from ", first,
                                                   " on; the partition has ", size, " blocks"));
  }
  return absl::OkStatus();
}

absl::Status AdmissionChecks::CheckCut(AdmittedCall& call) const {
  const Payload& payload = call.call.payload;
  MUSTER_ASSIGN_OR_RETURN(call.cut, ReadCutOrder(payload));
  const CutOrder& order = call.cut;
  if (order.loss_scale.has_value() && order.step == CutOrder::Step::kWrite) {
    return absl::InvalidArgumentError(
        "a loss scale comes with the order to write a cut; it belongs to its take");
  }
  const uint64_t residuals = payload.size() == 0 ? 0 : payload.size() - order.bytes();
  if (residuals == 0) return absl::OkStatus();
  const uint64_t expected = tables_.dense.PayloadBytes(0, tables_.dense.size());
  if (residuals == expected && order.step != CutOrder::Step::kWrite) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(residuals, " bytes follow its order, expected ",
                                                 expected, " of residuals, or none"));
}

absl::Status AdmissionChecks::CheckPushBound(uint64_t clock) const {
  const uint64_t required = job_.policy().Required(clock);
  if (required <= completed()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "past the staleness bound of ", job_.policy().bound(), ": it needs clock ", required,
      " to be reached, which is at ", completed(), "; pull at this clock first"));
}

absl::Status AdmissionChecks::CheckReachable(const v1::ExchangeRequest& request,
                                             uint64_t required) const {
  const uint64_t closed = ledger_.closed(request.slot());
  if (required <= closed) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("past the staleness bound: it waits until ", required,
                   " clocks are closed, but the slot itself has closed ", closed, " here"));
}

absl::Status AdmissionChecks::CheckDensePush(AdmittedCall& call) {
  const v1::ExchangeRequest& request = *call.call.request;
  const v1::DensePush& push = request.dense_push();
  MUSTER_RETURN_IF_ERROR(CheckBlocks(push.first_block(), push.blocks()));
  for (uint32_t block = push.first_block(); block < push.first_block() + push.blocks(); ++block) {
    if (ledger_.Pushes(request.slot(), block)) continue;
    if (tables_.dense.layout(block).frozen) {
      return absl::InvalidArgumentError(
          absl::StrCat("block ", block, " is frozen: nobody pushes it, leave it out of pushes"));
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "block ", block, " is pushed by slots of another rank of the model, not by those of ",
        job_.mesh().Position(static_cast<int>(request.slot()), kServedAxes), " of ",
        job_.mesh().size(kServedAxes)));
  }
  if (push.micro_batch() >= job_.pushes_of_block()) {
    return absl::InvalidArgumentError(absl::StrCat("micro_batch is ", push.micro_batch(),
                                                   "; the job pushes ", job_.pushes_of_block(),
                                                   " of each block in a clock, counted from 0"));
  }
  MUSTER_ASSIGN_OR_RETURN(const DType type, WireDType(push.type()));
  if (push.absent() && job_.pushes_micro_batches()) {
    return absl::InvalidArgumentError("the gradients of a micro-batch cannot be absent");
  }
  const uint64_t elements =
      tables_.dense.PayloadBytes(push.first_block(), push.blocks()) / sizeof(float);
  const uint64_t expected = push.absent() ? 0 : elements * SizeOf(type);
  if (call.call.payload.size() != expected) {
    return absl::InvalidArgumentError(absl::StrCat(
        "payload has ", call.call.payload.size(), " bytes, blocks ", push.first_block(), " to ",
        push.first_block() + push.blocks() - 1, " have ", expected, " of ", Name(type)));
  }
  MUSTER_ASSIGN_OR_RETURN(call.already_applied, ledger_.IsClosed(request.slot(), request.clock()));
  if (call.already_applied) return absl::OkStatus();
  MUSTER_RETURN_IF_ERROR(CheckPushBound(request.clock()));
  for (uint32_t i = 0; i < push.blocks(); ++i) {
    const uint32_t block = push.first_block() + i;
    const uint32_t in = ledger_.MicroBatchesIn(request.slot(), block);
    if (in < push.micro_batch()) {
      return absl::FailedPreconditionError(
          absl::StrCat("micro-batch ", push.micro_batch(), " of block ", block,
                       " comes before micro-batch ", in, "; push them in order"));
    }
    if (in == push.micro_batch()) call.new_blocks.push_back(block);
  }
  call.already_applied = call.new_blocks.empty();
  return absl::OkStatus();
}

absl::Status AdmissionChecks::CheckSparseTable(uint32_t table) const {
  if (table == 0) {
    return absl::InvalidArgumentError("table is 0, the dense one; sparse tables count from 1");
  }
  if (table > tables_.sparse.size()) {
    return absl::NotFoundError(absl::StrCat("table is ", table, "; the job has ",
                                            tables_.sparse.size(), " sparse tables"));
  }
  return absl::OkStatus();
}

absl::Status AdmissionChecks::CheckKeys(const SparseChunk& chunk) const {
  for (size_t i = 0; i < chunk.keys.size(); ++i) {
    const uint32_t partition = SparsePartition(chunk.keys[i], job_.partitions());
    if (partition == tables_.partition) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("key ", chunk.keys[i], " (row ", i, ") belongs to partition ", partition));
  }
  return absl::OkStatus();
}

absl::Status AdmissionChecks::CheckSparsePush(AdmittedCall& call) {
  const v1::ExchangeRequest& request = *call.call.request;
  const v1::SparsePush& push = request.sparse_push();
  MUSTER_RETURN_IF_ERROR(CheckSparseTable(push.table()));
  MUSTER_ASSIGN_OR_RETURN(const DType type, WireDType(push.type()));
  MUSTER_ASSIGN_OR_RETURN(call.already_applied, ledger_.IsClosed(request.slot(), request.clock()));
  call.already_applied =
      call.already_applied || ledger_.HasChunk(request.slot(), push.table() - 1, push.chunk());
  if (call.already_applied) return absl::OkStatus();
  MUSTER_RETURN_IF_ERROR(CheckPushBound(request.clock()));
  const TieredTable& table = tables_.sparse[push.table() - 1];
  MUSTER_ASSIGN_OR_RETURN(
      call.chunk, ReadSparseChunk(call.call.payload, push.rows(), table.dim(), type, pool_));
  MUSTER_RETURN_IF_ERROR(CheckKeys(call.chunk));
  // Counts as if all rows were new: an upper bound, corrected once they are in.
  if (const uint64_t bytes = push.rows() * table.bytes_per_row(); !memory_.TryGrow(bytes)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "up to ", push.rows(), " new rows need ", bytes,
        " bytes, which the server's memory budget has not left; add servers or raise it"));
  }
  return absl::OkStatus();
}

absl::Status AdmissionChecks::CheckSparsePull(AdmittedCall& call) {
  const v1::ExchangeRequest& request = *call.call.request;
  const v1::SparsePull& pull = request.sparse_pull();
  MUSTER_RETURN_IF_ERROR(CheckSparseTable(pull.table()));
  MUSTER_RETURN_IF_ERROR(WireDType(pull.type()).status());
  // Keys may repeat, so that a small request could ask for any amount of memory.
  const uint64_t row_bytes = uint64_t{tables_.sparse[pull.table() - 1].dim()} * sizeof(float);
  if (pull.rows() > kMostReplyBytes / row_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(pull.rows(), " rows of ", row_bytes, " bytes do not fit an answer of at most ",
                     kMostReplyBytes, " bytes; pull fewer rows at a time"));
  }
  MUSTER_RETURN_IF_ERROR(CheckReachable(request, job_.policy().Required(request.clock())));
  MUSTER_ASSIGN_OR_RETURN(call.chunk,
                          ReadSparseChunk(call.call.payload, pull.rows(), 0, DType::kF32, pool_));
  return CheckKeys(call.chunk);
}

absl::Status AdmissionChecks::CheckLossScale(const v1::ClosingLossScale& word) const {
  for (const v1::LossScale& value : {word.if_finite(), word.if_overflowed()}) {
    if (std::isfinite(value.scale()) && value.scale() > 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("loss scale is ", value.scale(), ", expected a positive finite number"));
  }
  return absl::OkStatus();
}

absl::Status AdmissionChecks::CheckClose(AdmittedCall& call) {
  const v1::ExchangeRequest& request = *call.call.request;
  MUSTER_ASSIGN_OR_RETURN(call.already_applied, ledger_.IsClosed(request.slot(), request.clock()));
  if (call.already_applied) return absl::OkStatus();
  if (job_.policy().synchronous() && request.clock() >= completed() + kMostClosesAhead) {
    return absl::FailedPreconditionError(
        absl::StrCat("clock ", completed(), " is not complete; at most ", kMostClosesAhead,
                     " clocks may be closed ahead, pull at this clock first"));
  }
  if (request.close().has_loss_scale()) {
    MUSTER_RETURN_IF_ERROR(CheckLossScale(request.close().loss_scale()));
  }
  MUSTER_RETURN_IF_ERROR(CheckLeftOut(request));
  return ledger_.CheckClose(request.slot(), request.close().sparse_chunks(),
                            request.close().no_dense());
}

absl::Status AdmissionChecks::CheckLeftOut(const v1::ExchangeRequest& request) const {
  const auto& left_out = request.close().left_out();
  if (job_.backup_workers() == 0) {
    if (left_out.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError("left_out is set, but the job has no backup_workers");
  }
  if (static_cast<uint32_t>(left_out.size()) > job_.backup_workers()) {
    return absl::InvalidArgumentError(absl::StrCat("left_out names ", left_out.size(),
                                                   " slots, and the job has ",
                                                   job_.backup_workers(), " backup_workers"));
  }
  if (tables_.partition == 0 && request.clock() >= entries_.decided()) {
    return absl::FailedPreconditionError(
        "it is not decided which slots the clock waits for; enter it first");
  }
  return ledger_.CheckLeftOut(request.slot(), left_out);
}

absl::Status AdmissionChecks::CheckEnter(AdmittedCall& call) {
  const v1::ExchangeRequest& request = *call.call.request;
  if (job_.backup_workers() == 0 || tables_.partition != 0) {
    return absl::InvalidArgumentError(
        "slots enter clocks on partition 0, of jobs with update.backup_workers");
  }
  MUSTER_RETURN_IF_ERROR(ledger_.IsClosed(request.slot(), request.clock()).status());
  // A clock that is decided takes no entries; the answer tells the slot so.
  call.already_applied =
      request.clock() < entries_.decided() || entries_.HasEntered(request.slot(), request.clock());
  return absl::OkStatus();
}

absl::Status AdmissionChecks::CheckClip(AdmittedCall& call) {
  const v1::ExchangeRequest& request = *call.call.request;
  if (!job_.clips_by_norm()) {
    return absl::InvalidArgumentError("the job does not clip by global norm");
  }
  if (!request.clip().has_scale()) {
    if (request.clock() >= ledger_.closed(request.slot())) {
      return absl::FailedPreconditionError(
          absl::StrCat("the slot itself has closed ", ledger_.closed(request.slot()),
                       " clocks here; close the clock, then ask for its norms"));
    }
    return absl::OkStatus();
  }
  const double scale = request.clip().scale();
  if (!std::isfinite(scale) || scale < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("scale is ", scale, ", expected a finite number that is not negative"));
  }
  call.already_applied = request.clock() < scaled_;
  if (call.already_applied) return absl::OkStatus();
  if (request.clock() > scaled_ || request.clock() >= ledger_.slowest()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the next clock to scale is ", scaled_, ", and the slowest slot has closed ",
                     ledger_.slowest(), "; ask for the norms first"));
  }
  return absl::OkStatus();
}

void AdmissionChecks::Enter(AdmittedCall& call) {
  const v1::ExchangeRequest& request = *call.call.request;
  switch (request.operation_case()) {
    case Operation::kDensePush:
      for (uint32_t block : call.new_blocks) ledger_.AddBlock(request.slot(), block);
      if (request.dense_push().withdrawn()) ledger_.Withdraw(request.slot());
      ledger_.NoteTold(
          request.slot(), call.new_blocks,
          {.examples = request.dense_push().examples(), .rate_factor = RateFactorOf(request)});
      break;
    case Operation::kSparsePush:
      ledger_.AddChunk(request.slot(), request.sparse_push().table() - 1,
                       request.sparse_push().chunk());
      ledger_.NoteTold(
          request.slot(), {},
          {.examples = request.sparse_push().examples(), .rate_factor = RateFactorOf(request)});
      break;
    case Operation::kClose:
      if (request.close().loss_scale().overflowed()) ledger_.Withdraw(request.slot());
      call.closes = ledger_.Close(request.slot(), request.close().left_out());
      break;
    case Operation::kClip:
      ++scaled_;
      break;
    case Operation::kEnter:
      entries_.Enter(request.slot());
      break;
    default:
      break;
  }
}

absl::Status AdmissionChecks::Restore(const v1::PartitionState& state) {
  scaled_ = state.completed_clocks();
  MUSTER_RETURN_IF_ERROR(ledger_.Restore(state));
  entries_.Restore(state);
  return absl::OkStatus();
}

}  // namespace muster
