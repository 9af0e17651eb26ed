#include "server/coordinator/scheduling/orders.h"

#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "common/base/message_fingerprint.h"
#include "common/job/job_road.h"
#include "common/program/program_proof.h"
#include "server/coordinator/cluster/shard_map.h"
#include "server/coordinator/cluster/task_threads.h"
#include "server/coordinator/job/job_state_machine.h"
#include "server/coordinator/job/training_data.h"
#include "server/coordinator/lifecycle/round_record.h"

namespace muster {
namespace {

void AddPositions(std::vector<DataPosition> positions, v1::TaskOrder& order) {
  if (positions.empty()) return;
  order.set_data_clock(positions.back().clock);
  order.set_data_examples(positions.back().examples);
  positions.pop_back();
  for (const DataPosition& each : positions) {
    order.add_earlier_data_clocks(each.clock);
    order.add_earlier_data_examples(each.examples);
  }
}

void AddOrder(const Member& member, const Job& job, uint32_t slot, const OrderContext& context,
              v1::HeartbeatReply& reply) {
  const v1::JobRecord& record = job.record;
  v1::TaskOrder& order = *reply.add_tasks();
  order.set_job_id(record.job_id());
  *order.mutable_spec() = record.spec();
  order.mutable_spec()->set_threads_per_worker(TaskThreads(record.spec(), member.record));
  order.set_generation(record.generation());
  order.set_slot(slot);
  order.set_incarnation(record.slots(slot).incarnation());
  *order.mutable_shard_map() = ShardMapOf(record);
  order.set_coordinator_address(context.coordinator_address);
  order.set_restore_uri(record.restore_uri());
  order.set_restore_weights_only(record.restore_weights_only());
  // Set only in this case, so that an order does not change while its generation runs.
  if (!record.restore_uri().empty()) order.set_data_preparation(job.data_preparation);
  // A generation that takes over tables learns its clock when its tasks meet.
  if (!TakesOver(record)) order.set_start_clock(record.start_clock());
  *order.mutable_member_slots() = record.member_slots();
  order.set_takes_over_generation(record.takes_over_generation());
  AddPositions(PositionsOf(record), order);
  order.set_checkpoint_root(context.checkpoint_root);
  if (record.spec().parallelism().zero().redundancy() > 0 || RunsProgram(record.spec())) {
    order.set_worker_id(member.record.id());
  }
  order.set_expect_state(record.slots(slot).expect_state());
  order.set_stall_timeout_ms(
      static_cast<uint32_t>(absl::ToInt64Milliseconds(context.stall_timeout)));
  if (RunsProgram(record.spec())) order.set_proof(ProofOfOrder(order, context.program_token));
}

void AddMoves(const std::string& server_id, const v1::JobRecord& record,
              v1::HeartbeatReply& reply) {
  for (const v1::MoveRecord& move : record.moves()) {
    const bool from = move.from_server() == server_id, to = move.to_server() == server_id;
    v1::MoveOrder order;
    if (move.state() == v1::MoveRecord::COPYING && from) {
      order.set_kind(v1::MoveOrder::HAND_OVER);
    } else if (move.state() == v1::MoveRecord::COPYING && to) {
      order.set_kind(v1::MoveOrder::ADOPT);
      order.set_from_address(record.partitions(move.partition()).replicas(0).address());
    } else if ((move.state() == v1::MoveRecord::MOVED && from) ||
               (move.state() == v1::MoveRecord::GIVEN_UP && to)) {
      order.set_kind(v1::MoveOrder::RELEASE);
    } else {
      continue;
    }
    order.set_job_id(record.job_id());
    order.set_generation(record.generation());
    order.set_partition(move.partition());
    order.set_term(move.term());
    *reply.add_moves() = order;
  }
}

void AddEndedSlots(const std::string& server_id, const v1::JobRecord& record,
                   v1::HeartbeatReply& reply) {
  if (!RunsProgram(record.spec())) return;
  const bool serves = absl::c_any_of(record.partitions(), [&](const auto& partition) {
    return partition.replicas(0).server_id() == server_id;
  });
  if (!serves) return;
  v1::EndedSlots ended;
  for (int slot = 0; slot < record.slots_size(); ++slot) {
    if (record.slots(slot).done()) ended.add_slots(static_cast<uint32_t>(slot));
  }
  if (ended.slots().empty()) return;
  ended.set_job_id(record.job_id());
  ended.set_generation(record.generation());
  *reply.add_ended_slots() = std::move(ended);
}

void SetVersion(v1::HeartbeatReply& reply) {
  const uint64_t version = FingerprintOf(reply);
  reply.set_orders_version(version == 0 ? 1 : version);
}

}  // namespace

v1::HeartbeatReply OrdersOfWorker(const Member& member, absl::Span<const HeldSlot> held,
                                  const OrderContext& context) {
  v1::HeartbeatReply reply;
  for (const HeldSlot& each : held) AddOrder(member, *each.job, each.slot, context, reply);
  SetVersion(reply);
  return reply;
}

v1::HeartbeatReply OrdersOfServer(const Member& member, const JobTable& jobs,
                                  const v1::TraceOrder* trace) {
  v1::HeartbeatReply reply;
  if (trace != nullptr) *reply.mutable_trace() = *trace;
  for (const auto& [job, generation] : jobs.DropsOf(member.record.id())) {
    v1::DropOrder& drop = *reply.add_drops();
    drop.set_job_id(job);
    drop.set_generation(generation);
  }
  for (const auto& [number, job] : jobs.jobs()) {
    if (!IsActive(job->record.state())) continue;
    AddMoves(member.record.id(), job->record, reply);
    AddEndedSlots(member.record.id(), job->record, reply);
  }
  SetVersion(reply);
  return reply;
}

}  // namespace muster
