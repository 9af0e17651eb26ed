#include "worker/strategy/servers/dense_pulls.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/partition/pulled_types.h"
#include "common/partition/wire_dtype.h"
#include "proto/parameter_service.pb.h"
#include "worker/strategy/blocked_time.h"

namespace muster {

DensePulls::DensePulls(const Parts& parts, const Options& options)
    : parts_(parts),
      options_(options),
      units_(static_cast<int>(parts.runs.size())),
      pulled_(parts.layout, parts.tensors, PulledTypes(parts.tensors), options.holding,
              options.registered_memory),
      copies_(parts.tensors, pulled_.parameters()),
      gathers_(pulled_.places()),
      order_(UnitBytes(), options.window_bytes),
      pulls_(units_),
      has_frozen_(units_) {}

std::vector<uint64_t> DensePulls::UnitBytes() const {
  std::vector<uint64_t> bytes(units_);
  for (int unit = 0; unit < units_; ++unit) {
    for (const DenseRun& run : parts_.runs[unit]) bytes[unit] += run.frozen ? 0 : BytesOf(run);
  }
  return bytes;
}

absl::Status DensePulls::Await(const ShardRouter::Handle& operation) {
  const BlockedTime blocked(parts_.clock, parts_.counters.exposed_seconds);
  return parts_.router.Wait(operation);
}

absl::Status DensePulls::Begin(uint64_t clock) {
  clock_ = clock;
  slowest_ = std::numeric_limits<uint64_t>::max();
  for (std::vector<DenseOperation>& pulls : pulls_) {
    // Pulls that nobody has waited for may still be on their way to the same place.
    for (const DenseOperation& pull : pulls) MUSTER_RETURN_IF_ERROR(Await(pull.operation));
    pulls.clear();
  }
  copies_.Outdate();
  next_unit_ = 0;
  if (options_.holding == UnitPlaces::Holding::kWhole) {
    AskBefore(order_.Begin());
    return absl::OkStatus();
  }
  gathers_.Outdate();
  return units_ > 0 && gathers_.Take(0) ? AskInFlight({0}) : absl::OkStatus();
}

absl::Status DensePulls::AwaitFirst() {
  for (int unit = 0; unit < units_; ++unit) {
    if (!pulls_[unit].empty()) return AwaitUnit(unit);
  }
  return absl::OkStatus();
}

absl::Status DensePulls::Acquire(int unit, Direction direction) {
  if (unit >= units_) return absl::OkStatus();  // A unit without dense tensors.
  if (options_.holding == UnitPlaces::Holding::kWhole) {
    AskBefore(order_.Acquire(unit));
  } else {
    const int next = direction == Direction::kForward ? unit + 1 : unit - 1;
    MUSTER_RETURN_IF_ERROR(AskInFlight(gathers_.Acquire(unit, next < units_ ? next : -1)));
  }
  for (const int tied : pulled_.places().tied_units(unit)) MUSTER_RETURN_IF_ERROR(AwaitUnit(tied));
  MUSTER_RETURN_IF_ERROR(AwaitUnit(unit));
  copies_.Refresh(unit);
  return absl::OkStatus();
}

DType DensePulls::TypeOf(const DenseRun& run) const {
  return options_.wire == DType::kF32 ? pulled_.TypeOf(run) : options_.wire;
}

absl::Span<std::byte> DensePulls::LandingOf(const DenseRun& run) {
  if (TypeOf(run) != pulled_.TypeOf(run)) return {};
  return pulled_.PlaceOf(run);
}

void DensePulls::Ask(int unit) {
  const bool has_frozen = options_.holding == UnitPlaces::Holding::kWhole && has_frozen_[unit];
  has_frozen_[unit] = true;
  for (const DenseRun& run : parts_.runs[unit]) {
    if (run.frozen && has_frozen) continue;
    v1::ExchangeRequest request;
    request.set_clock(clock_);
    v1::DensePull& pull = *request.mutable_dense_pull();
    pull.set_first_block(run.first_block);
    pull.set_blocks(run.blocks);
    pull.set_type(static_cast<v1::UpdateSpec::WireType>(WireTypeOf(TypeOf(run))));
    pulls_[unit].push_back({&run, parts_.router.Send(run.partition, std::move(request), Payload(),
                                                     ShardRouter::Order::kFree, LandingOf(run))});
  }
}

void DensePulls::AskBefore(int end) {
  while (next_unit_ < end) Ask(next_unit_++);
}

absl::Status DensePulls::AskInFlight(absl::Span<const int> units) {
  for (const int unit : units) {
    const int place = pulled_.places().shared_place(unit);
    for (int other = 0; place >= 0 && other < units_; ++other) {
      // The unit was pulled, but nobody has acquired it.
      if (pulled_.places().shared_place(other) == place) MUSTER_RETURN_IF_ERROR(AwaitUnit(other));
    }
    Ask(unit);
  }
  return absl::OkStatus();
}

absl::Status DensePulls::AwaitUnit(int unit) {
  for (const DenseOperation& pull : pulls_[unit]) {
    MUSTER_RETURN_IF_ERROR(Await(pull.operation));
    const ExchangeResult& result = pull.operation->result();
    // A reply of the wrong length is the server's bug, but must not become a wild copy here.
    if (result.payload.size() != BytesOf(*pull.run)) {
      return absl::InternalError(absl::StrCat(
          "the answer to a dense pull at clock ", clock_, " on partition ", pull.run->partition,
          " has ", result.payload.size(), " bytes where ", BytesOf(*pull.run), " are due"));
    }
    if (LandingOf(*pull.run).empty()) pulled_.Take(*pull.run, options_.wire, result.payload);
    slowest_ = std::min<uint64_t>(slowest_, result.reply->slowest_clock());
    parts_.loss_scale.TakeReply(clock_, *result.reply);
    parts_.counters.bytes_pulled += result.payload.size();
  }
  if (!pulls_[unit].empty()) order_.Came(unit);
  // The pulls are waited for once; backward and other passes of the same clock come here again.
  pulls_[unit].clear();
  return absl::OkStatus();
}

bool DensePulls::all_came() const {
  return next_unit_ == units_ &&
         std::all_of(pulls_.begin(), pulls_.end(), [](const auto& pulls) { return pulls.empty(); });
}

}  // namespace muster
